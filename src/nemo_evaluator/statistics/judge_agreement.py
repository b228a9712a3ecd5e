"""Agreement of a judge's verdicts with human labels: confusion matrix, kappa, AC1, sensitivity and specificity."""

import math
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nemo_evaluator.statistics.groups import Floats
from nemo_evaluator.statistics.intervals import Interval, wilson
from nemo_evaluator.statistics.ppi import Labelled

Flags: TypeAlias = NDArray[np.bool_]
# From this reward on an answer counts as right.
PASS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of judge and people on the labelled rows.

    The four counts are numbers of labels; the rates weigh each label by the number of rows that it represents.

    Attributes:
        both_right: Judge and people pass the answer.
        judge_only: Only the judge passes it.
        people_only: Only people pass it.
        both_wrong: Neither passes it.
        accuracy: Share of equal verdicts.
        kappa: Cohen's (1960). It is low even for a good judge when nearly all answers are right (or wrong).
        ac1: Gwet's (2008), which does not have that weakness.
        sensitivity: Share of right answers that the judge passes.
        specificity: Share of wrong answers that the judge fails.
        bias: The judge's mean reward minus that of people.
        correlation: Pearson's correlation of the grades; None when one side does not vary.
    """

    both_right: int
    judge_only: int
    people_only: int
    both_wrong: int
    accuracy: float
    kappa: float | None
    ac1: float
    sensitivity: Interval
    specificity: Interval
    bias: float
    correlation: float | None


def agreement(data: Labelled) -> Agreement:
    """Compare the judge's verdicts with the labels.

    Kappa and AC1 are (p_o - p_e) / (1 - p_e), where p_o is the observed agreement. Chance agreement p_e is
    p q + (1 - p)(1 - q) for kappa, with the pass rates p of people and q of the judge, and 2 r (1 - r) for AC1, with
    their mean r.

    Args:
        data: Grades and labels, with at least one label.
    """
    labelled = data.known > 0
    human = data.human[labelled]
    judge = data.judge[labelled]
    label_weights = data.weights[labelled]
    weights = label_weights / label_weights.sum()
    human_pass = human >= PASS
    judge_pass = judge >= PASS
    human_fail = ~human_pass
    judge_fail = ~judge_pass

    observed_agreement = _share_of(human_pass == judge_pass, weights)
    human_rate = _share_of(human_pass, weights)
    judge_rate = _share_of(judge_pass, weights)
    return Agreement(
        both_right=_count(human_pass & judge_pass),
        judge_only=_count(human_fail & judge_pass),
        people_only=_count(human_pass & judge_fail),
        both_wrong=_count(human_fail & judge_fail),
        accuracy=observed_agreement,
        kappa=_kappa(observed_agreement, human_rate, judge_rate),
        ac1=_ac1(observed_agreement, human_rate, judge_rate),
        sensitivity=_weighted_rate(judge_pass[human_pass], weights[human_pass]),
        specificity=_weighted_rate(judge_fail[human_fail], weights[human_fail]),
        bias=float(weights @ (judge - human)),
        correlation=_correlation(human, judge, weights),
    )


def _count(flags: Flags) -> int:
    return int(flags.sum())


def _share_of(flags: Flags, weights: Floats) -> float:
    """The weight of the rows with a flag; ``weights`` sum to one."""
    return float(weights[flags].sum())


def _kappa(observed: float, human_rate: float, judge_rate: float) -> float | None:
    """Cohen's kappa; None when chance alone would agree on every row.

    Args:
        observed: The observed agreement.
        human_rate: The pass rate of people.
        judge_rate: The pass rate of the judge.
    """
    both_pass = human_rate * judge_rate
    both_fail = (1 - human_rate) * (1 - judge_rate)
    chance_agreement = both_pass + both_fail
    if chance_agreement < 1:
        return _beyond_chance(observed, chance_agreement)
    return None


def _ac1(observed: float, human_rate: float, judge_rate: float) -> float:
    """Gwet's AC1; the arguments are those of ``_kappa``."""
    mean_rate = (human_rate + judge_rate) / 2
    chance_agreement = 2 * mean_rate * (1 - mean_rate)
    return _beyond_chance(observed, chance_agreement)


def _beyond_chance(observed: float, chance: float) -> float:
    """The observed agreement beyond that of chance, as a share of the largest possible one."""
    return (observed - chance) / (1 - chance)


def _correlation(human: Floats, judge: Floats, weights: Floats) -> float | None:
    """Weighted Pearson correlation; None when one side does not vary. ``weights`` sum to one."""
    centred_human = human - weights @ human
    centred_judge = judge - weights @ judge
    human_variance = float(weights @ centred_human**2)
    judge_variance = float(weights @ centred_judge**2)
    covariance = float(weights @ (centred_human * centred_judge))
    scale = math.sqrt(human_variance) * math.sqrt(judge_variance)
    if scale > 0:
        return covariance / scale
    return None


def _weighted_rate(hits: Flags, weights: Floats) -> Interval:
    """A weighted share with Wilson's interval at Kish's effective sample size (Σw)² / Σw².

    Args:
        hits: Whether each row counts.
        weights: The weight of each row.

    Returns:
        The interval; without bounds when there are no rows.
    """
    if not len(hits):
        return Interval.without_bounds(method="wilson")
    total_weight = weights.sum()
    effective_size = float(total_weight**2 / (weights @ weights))
    share = float(weights[hits].sum() / total_weight)
    interval = wilson(share * effective_size, effective_size)
    return replace(interval, value=share, n=len(hits))
