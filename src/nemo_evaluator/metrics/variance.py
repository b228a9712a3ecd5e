"""Where the noise of a score comes from: different problems, or different answers to the same problem."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nemo_evaluator.metrics.groups import Floats, Ints, by_problem

Advice = Literal["more problems", "more repeats", "unknown without repeats"]


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """Variance of a single answer, split in two; ``repeats`` is the (harmonic) mean number of answers."""

    between: float
    within: float
    problems: int
    repeats: float
    advice: Advice


def variance_components(problem: Ints, reward: Floats) -> VarianceComponents:
    """One-way analysis of variance with problems as random groups; groups of unequal size are allowed."""
    reward = np.asarray(reward, dtype=np.float64)
    problems = by_problem(problem, reward)
    groups, rows = len(problems), problems.rows
    if groups < 2:
        return VarianceComponents(math.nan, math.nan, groups, float(rows), "more problems")
    repeats = groups / float((1 / problems.counts).sum())
    if rows == groups:
        return VarianceComponents(float(reward.var(ddof=1)), math.nan, groups, 1.0, "unknown without repeats")
    squares = float((reward**2).sum())
    explained = float((problems.totals**2 / problems.counts).sum())
    within = max(squares - explained, 0.0) / (rows - groups)
    total = float(problems.totals.sum())
    between_squares = (explained - total * total / rows) / (groups - 1)
    size = (rows - float((problems.counts.astype(np.float64) ** 2).sum()) / rows) / (groups - 1)
    between = max((between_squares - within) / size, 0.0)
    # Another answer to each problem helps more than another problem when its noise is the larger part.
    advice: Advice = "more repeats" if within / repeats > between else "more problems"
    return VarianceComponents(between, within, groups, repeats, advice)
