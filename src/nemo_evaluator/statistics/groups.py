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
        if self.single:
            return self.totals
        return self.totals / self.counts

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
    if rows == 0:
        return _unsorted_problems(problem, reward)
    following = problem[1:]
    preceding = problem[:-1]
    if bool((following > preceding).all()):
        return _single_problems(problem, reward)
    if bool((following >= preceding).all()):
        return _sorted_problems(problem, reward)
    return _unsorted_problems(problem, reward)


def _single_problems(problem: Ints, reward: Floats) -> Problems:
    """Problems with one row each: no column is copied, and counts take no memory."""
    rows = len(problem)
    return Problems(
        ids=problem,
        counts=np.broadcast_to(np.int64(1), rows),
        totals=reward,
        first=np.arange(rows, dtype=np.int32),
        single=True,
    )


def _sorted_problems(problem: Ints, reward: Floats) -> Problems:
    """Problems whose rows follow each other."""
    is_start = np.r_[True, problem[1:] != problem[:-1]]
    starts = np.flatnonzero(is_start)
    ends = np.r_[starts, len(problem)]
    return Problems(
        ids=problem[starts],
        counts=np.diff(ends),
        totals=np.add.reduceat(reward, starts),
        first=starts,
    )


def _unsorted_problems(problem: Ints, reward: Floats) -> Problems:
    """Problems whose rows are in any order."""
    ids, first, problem_of_row, counts = np.unique(
        problem, return_index=True, return_inverse=True, return_counts=True
    )
    sums = np.bincount(problem_of_row, weights=reward, minlength=len(ids))
    totals = np.asarray(sums, dtype=np.float64)
    return Problems(ids=ids, counts=counts, totals=totals, first=first)


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

    Args:
        problem: The problem id of each row.
        reward: The reward of each row.

    Returns:
        The components; NaN for those that the data cannot show.
    """
    reward = np.asarray(reward, dtype=np.float64)
    problems = by_problem(problem, reward)
    if len(problems) < 2:
        return VarianceComponents(
            between=math.nan,
            within=math.nan,
            problems=len(problems),
            repeats=float(problems.rows),
            advice="more problems",
        )
    if problems.rows == len(problems):
        return VarianceComponents(
            between=float(reward.var(ddof=1)),
            within=math.nan,
            problems=len(problems),
            repeats=1.0,
            advice="unknown without repeats",
        )
    between, within = _between_and_within(problems, float((reward**2).sum()))
    repeats = len(problems) / float((1 / problems.counts).sum())
    # Another answer to each problem helps more than another problem when the answer noise is the larger component.
    answer_noise = within / repeats
    return VarianceComponents(
        between=between,
        within=within,
        problems=len(problems),
        repeats=repeats,
        advice="more repeats" if answer_noise > between else "more problems",
    )


def _between_and_within(problems: Problems, sum_of_squares: float) -> tuple[float, float]:
    """The variance of the true problem means, and that of answers to one problem; see ``variance_components``.

    Args:
        problems: At least two problems, of which one has several rows.
        sum_of_squares: The sum of the squared rewards of all rows.
    """
    groups = len(problems)
    rows = problems.rows
    total = float(problems.totals.sum())
    group_sizes = problems.counts.astype(np.float64)
    explained = float((problems.totals**2 / problems.counts).sum())
    unexplained = max(sum_of_squares - explained, 0.0)
    within = unexplained / (rows - groups)
    mean_square_between = (explained - total * total / rows) / (groups - 1)
    sum_of_squared_sizes = float((group_sizes**2).sum())
    average_size = (rows - sum_of_squared_sizes / rows) / (groups - 1)
    between = max((mean_square_between - within) / average_size, 0.0)
    return between, within
