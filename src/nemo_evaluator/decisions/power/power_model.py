"""The chance that a comparison finds a drop, by the interval that ``nel compare`` uses on such rewards."""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, TypeAlias

from nemo_evaluator.statistics import Spread, detectable_effect, paired_power
from nemo_evaluator.statistics.difference import Flips

_MOST_PROBLEMS: Final = 10_000_000
_STEPS: Final = 10_000
_NORMAL: Final = NormalDist()
Variance: TypeAlias = Callable[[float, float], float]


@dataclass(frozen=True, slots=True)
class Differences:
    """How much a problem's difference varies, as a function of the true drop and of the repeats. ``lattice`` says that
    answers are right or wrong: then a drop brings a spread of its own, because it comes as problems that flip, and the
    flips are the evidence."""

    variance: Variance
    lattice: bool

    def _excludes(self, bound: float, mean: float, n: int, repeats: float, alpha: float) -> float:
        """Chance that the one-sided interval at ``alpha`` leaves ``bound`` out when the true difference is ``mean``."""
        variance = self.variance(-mean, repeats)
        away = abs(mean - bound)
        if not self.lattice:
            return paired_power(away, math.sqrt(variance), n, alpha=alpha)
        # The evidence in counts as they are to be expected, and how much it varies with those counts.
        flips = n * (variance + mean * mean)
        gain = n * mean
        evidence = abs(Flips((flips - gain) / 2, (flips + gain) / 2, n).at(bound))
        margin = evidence - _NORMAL.inv_cdf(1 - alpha)
        spread = math.sqrt(variance / n) * evidence / away
        if spread:
            return _NORMAL.cdf(margin / spread)
        return float(margin > 0)

    def problems(self, drop: float, repeats: float, *, power: float, alpha: float) -> int | None:
        """Fewest problems that find ``drop`` with ``power``; None beyond ten million, or when no spread is known."""
        return self._fewest(
            lambda n: self._excludes(0.0, -drop, n, repeats=repeats, alpha=alpha) >= power, repeats
        )

    def problems_to_rule_out(
        self, drop: float, repeats: float, *, power: float, alpha: float
    ) -> int | None:
        """Fewest problems that show with ``power`` that there is no such drop, when there is no difference."""
        return self._fewest(
            lambda n: self._excludes(-drop, 0.0, n, repeats=repeats, alpha=alpha) >= power, repeats
        )

    def _fewest(self, enough: Callable[[int], bool], repeats: float) -> int | None:
        if self.lattice:
            least = 0.0
        else:
            least = math.ulp(0.0)
        if not self.variance(0.0, repeats) >= least:
            return None
        sizes = range(2, _MOST_PROBLEMS)
        at = bisect_left(sizes, True, key=enough)
        if at < len(sizes):
            return sizes[at]
        return None

    def smallest_drop(
        self, problems: int, repeats: float, *, power: float, alpha: float
    ) -> float | None:
        """The smallest drop that so many problems find with ``power``; None when there is none."""
        if problems < 2 or not self.variance(0.0, repeats) >= 0:
            return None
        if not self.lattice:
            return detectable_effect(
                math.sqrt(self.variance(0.0, repeats)), problems, power=power, alpha=alpha
            )
        drops = range(1, _STEPS + 1)
        at = bisect_left(
            drops,
            True,
            key=lambda k: (
                self._excludes(0.0, -k / _STEPS, problems, repeats=repeats, alpha=alpha) >= power
            ),
        )
        if at < len(drops):
            return drops[at] / _STEPS
        return None


def assumed(score: float, correlation: float) -> Differences:
    """Right or wrong, one answer each, around ``score``; the answers of the two sides correlate as much as said."""

    def variance(drop: float, repeats: float) -> float:
        gone = min(drop, score)
        other = score - gone
        shared = score * other + correlation * math.sqrt(score * (1 - score) * other * (1 - other))
        both = min(shared, other)
        return score + other - 2 * both - gone * gone

    return Differences(variance, lattice=True)


def measured(spread: Spread) -> Differences:
    """Rewards of any kind, with the spread of finished runs."""
    return Differences(lambda _, repeats: spread.true + spread.noise / repeats, lattice=False)


def measured_flips(spread: Spread, baseline: float, candidate: float) -> Differences:
    """Right or wrong, with the spread of two sides that scored so much. The spread is scaled to the score that the
    candidate would have after the drop: it shrinks towards 0 and 1. It is at least what the drop itself brings."""
    seen = _spread_at(baseline) + _spread_at(candidate)

    def variance(drop: float, repeats: float) -> float:
        then = _spread_at(baseline) + _spread_at(max(baseline - drop, 0.0))
        scaled = (spread.true + spread.noise / repeats) * (then / seen if seen else 1.0)
        return max(scaled, drop * (1 - drop))

    return Differences(variance, lattice=True)


def _spread_at(score: float) -> float:
    return score * (1 - score)
