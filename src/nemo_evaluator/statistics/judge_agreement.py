"""How well a judge's verdicts agree with people's: confusion, agreement beyond chance, sensitivity and specificity."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from nemo_evaluator.statistics.groups import Floats
from nemo_evaluator.statistics.intervals import Interval, wilson
from nemo_evaluator.statistics.ppi import Labelled

PASS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Agreement:
    """Verdicts of judge and people on the labelled rows; from ``0.5`` on a reward counts as right. Counts are of
    labels; the rates weigh each label by how many rows it stands for. ``kappa`` is low for a good judge when nearly all
    answers are right (or wrong); ``ac1`` (Gwet) is not."""

    both_right: int
    judge_only: int
    people_only: int
    both_wrong: int
    accuracy: float
    kappa: float | None
    ac1: float
    sensitivity: Interval
    specificity: Interval
    # The judge's mean reward minus that of people, and how their grades move together.
    bias: float
    correlation: float | None


def agreement(data: Labelled) -> Agreement:
    """What the labels say of the judge."""
    known = data.known > 0
    weights = data.weights[known]
    human = data.human[known]
    judge = data.judge[known]
    weights = weights / weights.sum()
    right = human >= PASS
    said = judge >= PASS
    same = float(weights[right == said].sum())
    base = float(weights[right].sum())
    judged = float(weights[said].sum())
    by_chance = base * judged + (1 - base) * (1 - judged)
    middle = (base + judged) / 2
    gwet = 2 * middle * (1 - middle)
    spread = _deviation(human, weights) * _deviation(judge, weights)
    together = float(weights @ ((human - weights @ human) * (judge - weights @ judge)))
    return Agreement(
        both_right=int((right & said).sum()),
        judge_only=int((~right & said).sum()),
        people_only=int((right & ~said).sum()),
        both_wrong=int((~right & ~said).sum()),
        accuracy=same,
        kappa=(same - by_chance) / (1 - by_chance) if by_chance < 1 else None,
        ac1=(same - gwet) / (1 - gwet),
        sensitivity=_rate(said[right], weights[right]),
        specificity=_rate(~said[~right], weights[~right]),
        bias=float(weights @ (judge - human)),
        correlation=together / spread if spread > 0 else None,
    )


def _deviation(values: Floats, weights: Floats) -> float:
    return math.sqrt(float(weights @ (values - weights @ values) ** 2))


def _rate(hits: np.ndarray[tuple[int], np.dtype[np.bool_]], weights: Floats) -> Interval:
    """A weighted share with Wilson's interval at the number of equal labels that it is worth."""
    if not len(hits):
        return Interval(math.nan, None, None, method="wilson", n=0)
    size = float(weights.sum() ** 2 / (weights @ weights))
    share = float(weights[hits].sum() / weights.sum())
    found = wilson(share * size, size)
    return Interval(share, found.lower, found.upper, method="wilson", n=len(hits))
