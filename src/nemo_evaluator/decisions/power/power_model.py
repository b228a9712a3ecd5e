"""The probability that a comparison detects a drop, by the interval that ``nel compare`` uses on such rewards."""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, TypeAlias

from nemo_evaluator.statistics import Spread, detectable_effect, paired_power
from nemo_evaluator.statistics.evidence import Flips

_MOST_PROBLEMS: Final = 10_000_000
_STEPS: Final = 10_000
_NORMAL: Final = NormalDist()
Variance: TypeAlias = Callable[[float, float], float]


@dataclass(frozen=True, slots=True)
class Differences:
    """How much a problem's difference varies.

    Attributes:
        variance: The variance as a function of the true drop and the number of repeats.
        lattice: Whether answers are right or wrong. If so, a drop has a variance of its own, because it consists of
            problems that flip, and the flips are the evidence.
        design_effect: How many problems in clusters are worth one independent problem.
    """

    variance: Variance
    lattice: bool
    design_effect: float = 1.0

    def _excludes(
        self, bound: float, mean: float, problems: int, repeats: float, alpha: float
    ) -> float:
        """Probability that the one-sided interval excludes ``bound`` when the true difference is ``mean``."""
        n = problems / self.design_effect
        variance = self.variance(-mean, repeats)
        distance = abs(mean - bound)
        if not self.lattice:
            return paired_power(distance, math.sqrt(variance), n, alpha=alpha)
        # The evidence in the expected counts, and how much it varies with those counts.
        flips = n * (variance + mean * mean)
        net_gain = n * mean
        evidence = abs(Flips((flips - net_gain) / 2, (flips + net_gain) / 2, n).at(bound))
        margin = evidence - _NORMAL.inv_cdf(1 - alpha)
        evidence_sd = math.sqrt(variance / n) * evidence / distance
        if evidence_sd:
            return _NORMAL.cdf(margin / evidence_sd)
        return float(margin > 0)

    def problems(self, drop: float, repeats: float, *, power: float, alpha: float) -> int | None:
        """The fewest problems that detect a drop.

        Args:
            drop: The drop, in score units.
            repeats: Answers per problem.
            power: The probability of detecting it.
            alpha: The one-sided level.

        Returns:
            The number of problems; None beyond ten million, or when the variance is unknown.
        """
        return self._fewest(
            lambda n: self._excludes(0.0, -drop, n, repeats=repeats, alpha=alpha) >= power, repeats
        )

    def problems_to_rule_out(
        self, drop: float, repeats: float, *, power: float, alpha: float
    ) -> int | None:
        """The fewest problems that rule a drop out with probability ``power`` when there is no difference.

        Returns:
            The number of problems; None beyond ten million, or when the variance is unknown.
        """
        return self._fewest(
            lambda n: self._excludes(-drop, 0.0, n, repeats=repeats, alpha=alpha) >= power, repeats
        )

    def _fewest(self, enough: Callable[[int], bool], repeats: float) -> int | None:
        """The smallest number of problems that is ``enough``, found by bisection; None beyond ten million."""
        if self.lattice:
            least_variance = 0.0
        else:
            least_variance = math.ulp(0.0)
        if not self.variance(0.0, repeats) >= least_variance:
            return None
        sizes = range(2, _MOST_PROBLEMS)
        position = bisect_left(sizes, True, key=enough)
        if position < len(sizes):
            return sizes[position]
        return None

    def smallest_drop(
        self, problems: int, repeats: float, *, power: float, alpha: float
    ) -> float | None:
        """The smallest drop that a number of problems detects with probability ``power``; None when there is none."""
        if problems < 2 or not self.variance(0.0, repeats) >= 0:
            return None
        if not self.lattice:
            return detectable_effect(
                math.sqrt(self.variance(0.0, repeats)),
                int(problems / self.design_effect),
                power=power,
                alpha=alpha,
            )
        drops = range(1, _STEPS + 1)
        position = bisect_left(
            drops,
            True,
            key=lambda k: (
                self._excludes(0.0, -k / _STEPS, problems, repeats=repeats, alpha=alpha) >= power
            ),
        )
        if position < len(drops):
            return drops[position] / _STEPS
        return None


def assumed(score: float, correlation: float) -> Differences:
    """Differences of right or wrong answers, one per problem, without a run to measure them.

    Args:
        score: The expected score of the baseline.
        correlation: The assumed correlation between the answers of the two sides.
    """

    def variance(drop: float, repeats: float) -> float:
        lost = min(drop, score)
        candidate_score = score - lost
        shared = score * candidate_score + correlation * math.sqrt(
            score * (1 - score) * candidate_score * (1 - candidate_score)
        )
        both_right = min(shared, candidate_score)
        return score + candidate_score - 2 * both_right - lost * lost

    return Differences(variance, lattice=True)


def measured(spread: Spread) -> Differences:
    """Differences of rewards of any kind, with the variance of finished runs."""
    return Differences(lambda _, repeats: spread.true + spread.noise / repeats, lattice=False)


def measured_flips(spread: Spread, baseline: float, candidate: float) -> Differences:
    """Differences of right or wrong answers, with the variance of two measured sides.

    The variance is scaled to the score that the candidate would have after the drop: it shrinks towards 0 and 1. It is
    never smaller than the variance that the drop itself causes.

    Args:
        spread: The measured variance.
        baseline: The baseline's score.
        candidate: The candidate's score.
    """
    measured_scale = _spread_at(baseline) + _spread_at(candidate)

    def variance(drop: float, repeats: float) -> float:
        scale = _spread_at(baseline) + _spread_at(max(baseline - drop, 0.0))
        scaled = (spread.true + spread.noise / repeats) * (
            scale / measured_scale if measured_scale else 1.0
        )
        return max(scaled, drop * (1 - drop))

    return Differences(variance, lattice=True)


def _spread_at(score: float) -> float:
    """The variance of right or wrong answers with this mean score."""
    return score * (1 - score)
