"""Rows gathered into problems: the step between row columns and every interval; and which of the two a score's noise
comes from, different problems or different answers to one."""

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
    """Rewards gathered by problem: one entry per problem, in the order of their ids."""

    ids: Ints
    counts: Ints
    totals: Floats
    first: Ints
    # One row a problem: the columns are the rows' own, nothing was copied.
    single: bool = False

    @property
    def means(self) -> Floats:
        return self.totals if self.single else self.totals / self.counts

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def __len__(self) -> int:
        return len(self.ids)


def by_problem(problem: Ints, reward: Floats) -> Problems:
    """Gather rows by problem id; rows already in order of their problem cost no sort."""
    reward = np.asarray(reward, dtype=np.float64)
    problem = np.asarray(problem)
    if len(problem) != len(reward):
        raise ValueError(f"{len(problem)} problem ids for {len(reward)} rewards")
    if len(problem) and bool((problem[1:] > problem[:-1]).all()):
        ones = np.broadcast_to(np.int64(1), len(problem))
        return Problems(
            problem, ones, reward, first=np.arange(len(problem), dtype=np.int32), single=True
        )
    if len(problem) and bool((problem[1:] >= problem[:-1]).all()):
        starts = np.flatnonzero(np.r_[True, problem[1:] != problem[:-1]])
        counts = np.diff(np.r_[starts, len(problem)])
        return Problems(problem[starts], counts, np.add.reduceat(reward, starts), first=starts)
    ids, first, inverse, counts = np.unique(
        problem, return_index=True, return_inverse=True, return_counts=True
    )
    totals = np.asarray(np.bincount(inverse, weights=reward, minlength=len(ids)), dtype=np.float64)
    return Problems(ids, counts, totals, first=first)


def is_binary(reward: Floats) -> bool:
    """Whether every reward is exactly 0 or 1."""
    return bool(((reward == 0.0) | (reward == 1.0)).all())


def is_fractional(rewards: NDArray[np.float64] | list[float]) -> bool:
    """Whether any reward is something other than 0 or 1."""
    return not is_binary(np.asarray(rewards, dtype=np.float64))


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
    groups = len(problems)
    rows = problems.rows
    if groups < 2:
        return VarianceComponents(
            math.nan, math.nan, groups, repeats=float(rows), advice="more problems"
        )
    repeats = groups / float((1 / problems.counts).sum())
    if rows == groups:
        return VarianceComponents(
            float(reward.var(ddof=1)),
            math.nan,
            groups,
            repeats=1.0,
            advice="unknown without repeats",
        )
    squares = float((reward**2).sum())
    explained = float((problems.totals**2 / problems.counts).sum())
    within = max(squares - explained, 0.0) / (rows - groups)
    total = float(problems.totals.sum())
    between_squares = (explained - total * total / rows) / (groups - 1)
    size = (rows - float((problems.counts.astype(np.float64) ** 2).sum()) / rows) / (groups - 1)
    between = max((between_squares - within) / size, 0.0)
    # Another answer to each problem helps more than another problem when its noise is the larger part.
    if within / repeats > between:
        advice: Advice = "more repeats"
    else:
        advice = "more problems"
    return VarianceComponents(between, within, groups, repeats=repeats, advice=advice)
