"""Rows grouped by problem, and the variance between and within problems.

Every interval starts here: the problem is the unit of sampling, not the row.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.integer[Any]]
Advice = Literal["more problems", "more repeats", "unknown without repeats"]


@dataclass(frozen=True, slots=True)
class Problems:
    """Rewards grouped by problem: one entry per problem, in the order of their ids.

    Attributes:
        ids: The id of each problem.
        counts: Its number of rows.
        totals: The sum of its rewards.
        first: The place of its first row.
        single: Every problem has one row; then the columns are those of the rows, without a copy.
    """

    ids: Ints
    counts: Ints
    totals: Floats
    first: Ints
    single: bool = False

    @property
    def means(self) -> Floats:
        """The mean reward of each problem."""
        return self.totals if self.single else self.totals / self.counts

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.counts.sum())

    def __len__(self) -> int:
        return len(self.ids)


def by_problem(problem: Ints, reward: Floats) -> Problems:
    """Group rows by problem id.

    Rows that are already in the order of their problems need no sort.

    Args:
        problem: The problem id of each row.
        reward: The reward of each row.

    Raises:
        ValueError: The columns have different lengths.
    """
    reward = np.asarray(reward, dtype=np.float64)
    problem = np.asarray(problem)
    rows = len(problem)
    if rows != len(reward):
        raise ValueError(f"{rows} problem ids for {len(reward)} rewards")
    if rows and bool((problem[1:] > problem[:-1]).all()):
        answers_per_problem = np.broadcast_to(np.int64(1), rows)
        row_numbers = np.arange(rows, dtype=np.int32)
        return Problems(problem, answers_per_problem, reward, first=row_numbers, single=True)
    if rows and bool((problem[1:] >= problem[:-1]).all()):
        starts = np.flatnonzero(np.r_[True, problem[1:] != problem[:-1]])
        counts = np.diff(np.r_[starts, rows])
        return Problems(problem[starts], counts, np.add.reduceat(reward, starts), first=starts)
    ids, first, inverse, counts = np.unique(
        problem, return_index=True, return_inverse=True, return_counts=True
    )
    sums = np.bincount(inverse, weights=reward, minlength=len(ids))
    return Problems(ids, counts, np.asarray(sums, dtype=np.float64), first=first)


def is_binary(reward: Floats) -> bool:
    """Whether every reward is exactly 0 or 1."""
    return bool(((reward == 0.0) | (reward == 1.0)).all())


def is_fractional(rewards: NDArray[np.float64] | list[float]) -> bool:
    """Whether any reward is something other than 0 or 1."""
    return not is_binary(np.asarray(rewards, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """The variance of a single answer, split into its components.

    Attributes:
        between: Variance of the true problem means, σ²_between.
        within: Variance of answers to one problem, σ²_within; NaN without repeats.
        problems: Number of problems.
        repeats: Harmonic mean of the number of answers per problem.
        advice: What would narrow the interval more.
    """

    between: float
    within: float
    problems: int
    repeats: float
    advice: Advice


def variance_components(problem: Ints, reward: Floats) -> VarianceComponents:
    """Estimate the variance components by a one-way analysis of variance with problems as random groups.

    Groups may differ in size: σ²_between = (MS_between - MS_within) / n0, where
    n0 = (N - Σ n² / N) / (groups - 1) is the average group size (Searle, Casella, McCulloch 1992).
    """
    reward = np.asarray(reward, dtype=np.float64)
    problems = by_problem(problem, reward)
    groups = len(problems)
    rows = problems.rows
    if groups < 2:
        return VarianceComponents(
            between=math.nan,
            within=math.nan,
            problems=groups,
            repeats=float(rows),
            advice="more problems",
        )
    if rows == groups:
        return VarianceComponents(
            between=float(reward.var(ddof=1)),
            within=math.nan,
            problems=groups,
            repeats=1.0,
            advice="unknown without repeats",
        )
    group_sizes = problems.counts.astype(np.float64)
    total = float(problems.totals.sum())
    sum_of_squares = float((reward**2).sum())
    explained = float((problems.totals**2 / problems.counts).sum())
    within = max(sum_of_squares - explained, 0.0) / (rows - groups)
    mean_square_between = (explained - total * total / rows) / (groups - 1)
    average_size = (rows - float((group_sizes**2).sum()) / rows) / (groups - 1)
    between = max((mean_square_between - within) / average_size, 0.0)
    repeats = groups / float((1 / problems.counts).sum())
    # Another answer to each problem helps more than another problem when the answer noise is the larger component.
    advice: Advice = "more repeats" if within / repeats > between else "more problems"
    return VarianceComponents(between, within, groups, repeats=repeats, advice=advice)
