"""Agreement of a judge's verdicts with human labels: confusion matrix, kappa, AC1, sensitivity and specificity."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from nemo_evaluator.statistics.groups import Floats
from nemo_evaluator.statistics.intervals import Interval, wilson
from nemo_evaluator.statistics.ppi import Labelled

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
    """
    labelled = data.known > 0
    human = data.human[labelled]
    judge = data.judge[labelled]
    weights = data.weights[labelled]
    weights = weights / weights.sum()
    human_pass = human >= PASS
    judge_pass = judge >= PASS

    observed = float(weights[human_pass == judge_pass].sum())
    human_rate = float(weights[human_pass].sum())
    judge_rate = float(weights[judge_pass].sum())
    kappa_chance = human_rate * judge_rate + (1 - human_rate) * (1 - judge_rate)
    kappa: float | None = None
    if kappa_chance < 1:
        kappa = _beyond_chance(observed, kappa_chance)
    mean_rate = (human_rate + judge_rate) / 2
    ac1 = _beyond_chance(observed, 2 * mean_rate * (1 - mean_rate))
    return Agreement(
        both_right=int((human_pass & judge_pass).sum()),
        judge_only=int((~human_pass & judge_pass).sum()),
        people_only=int((human_pass & ~judge_pass).sum()),
        both_wrong=int((~human_pass & ~judge_pass).sum()),
        accuracy=observed,
        kappa=kappa,
        ac1=ac1,
        sensitivity=_weighted_rate(judge_pass[human_pass], weights[human_pass]),
        specificity=_weighted_rate(~judge_pass[~human_pass], weights[~human_pass]),
        bias=float(weights @ (judge - human)),
        correlation=_correlation(human, judge, weights),
    )


def _beyond_chance(observed: float, chance: float) -> float:
    """The observed agreement beyond that of chance, as a share of the largest possible one."""
    return (observed - chance) / (1 - chance)


def _correlation(human: Floats, judge: Floats, weights: Floats) -> float | None:
    """Weighted Pearson correlation; ``weights`` sum to one."""
    centred_human = human - weights @ human
    centred_judge = judge - weights @ judge
    human_sd = math.sqrt(float(weights @ centred_human**2))
    judge_sd = math.sqrt(float(weights @ centred_judge**2))
    scale = human_sd * judge_sd
    covariance = float(weights @ (centred_human * centred_judge))
    return covariance / scale if scale > 0 else None


def _weighted_rate(hits: np.ndarray[tuple[int], np.dtype[np.bool_]], weights: Floats) -> Interval:
    """A weighted share with Wilson's interval at Kish's effective sample size."""
    if not len(hits):
        return Interval(math.nan, None, None, method="wilson", n=0)
    effective_size = float(weights.sum() ** 2 / (weights @ weights))
    share = float(weights[hits].sum() / weights.sum())
    interval = wilson(share * effective_size, effective_size)
    return Interval(share, interval.lower, interval.upper, method="wilson", n=len(hits))
