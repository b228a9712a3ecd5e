"""How often do nominal 95 % intervals cover the truth? Grids of sizes, chances, repeats and clusters, seeded.

0/1 rewards with one answer per problem need no simulation: their coverage is a sum over all outcomes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import betaln

from nemo_evaluator.statistics import (
    mean_difference,
    mean_interval,
    pass_intervals,
    wilson_modified,
)
from nemo_evaluator.statistics.groups import Problems

BAND = (0.93, 0.97)
# With this many problems of the rarer kind or fewer, outcomes are too few for a rate of 95 %: coverage jumps.
FEW = 5


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of a grid: where, and how often the truth was covered (or an error made)."""

    where: dict[str, float]
    rate: float
    runs: int
    # How many problems of the rarer kind are expected: right or wrong ones, or those that flip.
    rare: float

    @property
    def noise(self) -> float:
        """Three standard errors of a simulated rate at the edge of the band."""
        return 3 * float(np.sqrt(BAND[1] * (1 - BAND[1]) / self.runs)) if self.runs else 0.0

    @property
    def few(self) -> bool:
        """Whether outcomes are so few that no rule can be near 95 % everywhere."""
        return round(self.rare, 9) <= FEW

    @property
    def low(self) -> bool:
        """Covers less than the band, beyond chance."""
        return round(self.rate + self.noise, 3) < BAND[0]

    @property
    def high(self) -> bool:
        """Covers more than the band, beyond chance."""
        return round(self.rate - self.noise, 3) > BAND[1]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much to simulate."""

    n: tuple[int, ...]
    p: tuple[float, ...]
    repeats: tuple[int, ...]
    alike: tuple[float, ...]
    runs: int


QUICK = Sizes((10, 50, 300), (0.05, 0.5, 0.9), (2, 8), (0.0, 0.3, 1.0), 400)
LONG = Sizes(
    (10, 30, 100, 300, 1000, 2000),
    (0.01, 0.05, 0.2, 0.5, 0.8, 0.99),
    (2, 4, 16),
    (0.0, 0.3, 0.8),
    1500,
)


def single_answer(sizes: Sizes) -> list[Cell]:
    """Exact coverage of the headline interval, one 0/1 answer per problem."""
    cells = []
    for n, p in itertools.product(sizes.n, sizes.p):
        weights = stats.binom.pmf(np.arange(n + 1), n, p)
        outcomes = np.flatnonzero(weights > 1e-12)
        covered = 0.0
        for k in outcomes.tolist():
            found = wilson_modified(k, n)
            assert found.lower is not None and found.upper is not None
            covered += weights[k] * (found.lower <= p <= found.upper)
        cells.append(Cell({"n": n, "p": p}, float(covered), 0, n * min(p, 1 - p)))
    return cells


def ease(rng: np.random.Generator, p: float, alike: float, size: tuple[int, ...]) -> np.ndarray:
    """Chances of problems: mean ``p``; ``alike`` is how much answers to one problem agree (0 to 1)."""
    if alike == 0.0:
        return np.full(size, p)
    if alike == 1.0:
        return (rng.random(size) < p).astype(float)
    weight = 1 / alike - 1
    return rng.beta(p * weight, (1 - p) * weight, size)


def repeated_answers(sizes: Sizes, seed: int = 0) -> list[Cell]:
    """Coverage of pass@1 with repeats, over problems that are alike to a degree."""
    cells = []
    for at, (n, p, m, alike) in enumerate(
        itertools.product(sizes.n, sizes.p, sizes.repeats, sizes.alike)
    ):
        rng = np.random.default_rng([seed, at])
        values = rng.binomial(m, ease(rng, p, alike, (sizes.runs, n))) / m
        covered = np.mean([_covers(row, p, binary=True, answers=n * m) for row in values])
        where = {"n": n, "p": p, "repeats": m, "alike": alike}
        cells.append(Cell(where, float(covered), sizes.runs, n * min(p, 1 - p)))
    return cells


def several_answers(sizes: Sizes, seed: int = 8) -> list[Cell]:
    """Coverage of pass@k and pass^k from eight answers per problem."""
    cells = []
    grid = itertools.product(sizes.n[:4], (0.05, 0.3, 0.7), (2, 4), (0.05, 0.3, 0.8), (False, True))
    for at, (n, p, k, alike, every) in enumerate(grid):
        rng = np.random.default_rng([seed, at])
        a, b = p * (1 / alike - 1), (1 - p) * (1 / alike - 1)
        log_truth = betaln(a + k, b) - betaln(a, b) if every else betaln(a, b + k) - betaln(a, b)
        truth = float(np.exp(log_truth)) if every else 1 - float(np.exp(log_truth))
        ids, counts, runs = np.arange(n), np.full(n, 8), sizes.runs // 3
        hits = 0
        for right in rng.binomial(8, rng.beta(a, b, (runs, n))):
            found, _ = pass_intervals(
                Problems(ids, counts, right.astype(float), ids), k, every=every
            )
            hits += (
                found.lower is not None
                and found.upper is not None
                and found.lower <= truth <= found.upper
            )
        where = {"n": n, "p": p, "k": k, "alike": alike, "every": every}
        cells.append(Cell(where, hits / runs, runs, n * min(truth, 1 - truth)))
    return cells


def _covers(values: np.ndarray, truth: float, **options: object) -> bool:
    found = mean_interval(values, **options)  # type: ignore[arg-type]
    return (
        found.lower is not None and found.upper is not None and found.lower <= truth <= found.upper
    )


def clustered_problems(sizes: Sizes, seed: int = 1) -> list[Cell]:
    """Coverage of pass@1 when ten problems share a passage."""
    cells = []
    for at, (groups, p, alike) in enumerate(itertools.product((10, 30, 100), sizes.p, (0.1, 0.5))):
        rng = np.random.default_rng([seed, at])
        clusters = np.repeat(np.arange(groups), 10)
        hits = 0
        for _ in range(sizes.runs):
            reward = (rng.random(groups * 10) < ease(rng, p, alike, (groups,))[clusters]).astype(
                float
            )
            hits += _covers(reward, p, binary=True, answers=len(reward), clusters=clusters)
        where = {"clusters": groups, "p": p, "alike": alike}
        cells.append(Cell(where, hits / sizes.runs, sizes.runs, groups * min(p, 1 - p)))
    return cells


def fractional_rewards(sizes: Sizes, seed: int = 2) -> list[Cell]:
    """Coverage of mean_reward for partial credit: beta-distributed, and mostly-all-or-nothing."""
    shapes: dict[
        str, tuple[Callable[[np.random.Generator, tuple[int, int]], np.ndarray], float]
    ] = {
        "beta(2,1)": (lambda rng, size: rng.beta(2, 1, size), 2 / 3),
        "beta(.5,.5)": (lambda rng, size: rng.beta(0.5, 0.5, size), 0.5),
        "thirds": (lambda rng, size: rng.binomial(3, 0.7, size) / 3, 0.7),
    }
    cells = []
    for at, (n, (draw, truth)) in enumerate(itertools.product(sizes.n, shapes.values())):
        values = draw(np.random.default_rng([seed, at]), (sizes.runs, n))
        covered = np.mean([_covers(row, truth) for row in values])
        cells.append(
            Cell(
                {"n": n, "shape": at % len(shapes)},
                float(covered),
                sizes.runs,
                n * min(truth, 1 - truth),
            )
        )
    return cells


def paired_sides(
    rng: np.random.Generator, runs: int, n: int, m: int, drop: float, alike: float, p: float = 0.65
) -> tuple[np.ndarray, np.ndarray, float]:
    """Two sides on the same problems, the second lower by ``drop`` on average; returns means and the true drop."""
    if drop < 0:
        better, worse, _ = paired_sides(rng, runs, n, m, -drop, alike, p)
        return worse, better, drop
    base = ease(rng, p, alike, (runs, n))
    # Scaling keeps chances between 0 and 1, so that the mean drops by exactly as much as is asked.
    other = base * (1 - drop / p)
    return rng.binomial(m, base) / m, rng.binomial(m, other) / m, drop


def paired_intervals(sizes: Sizes, seed: int = 3) -> list[Cell]:
    """Coverage of the paired difference."""
    cells = []
    grid = itertools.product(sizes.n, (1, *sizes.repeats[:2]), (0.0, 0.05, 0.2), (0.3, 0.8, 1.0))
    for at, (n, m, drop, alike) in enumerate(grid):
        left, right, truth = paired_sides(
            np.random.default_rng([seed, at]), sizes.runs, n, m, drop, alike
        )
        hits = 0
        for values in right - left:
            found = mean_difference(values, bounded=True).interval()
            assert found.lower is not None and found.upper is not None
            hits += found.lower <= -truth <= found.upper
        where = {"n": n, "repeats": m, "drop": drop, "alike": alike}
        flips = float((left != right).sum(axis=1).mean())
        cells.append(Cell(where, hits / sizes.runs, sizes.runs, flips))
    return cells


def summary(cells: list[Cell]) -> dict[str, float]:
    """A grid in a few numbers."""
    rates = np.array([cell.rate for cell in cells])
    return {
        "cells": len(cells),
        "mean": float(rates.mean()),
        "lowest": float(rates.min()),
        "highest": float(rates.max()),
        "inside": float(np.mean([not cell.low and not cell.high for cell in cells])),
        "below": float(np.mean([cell.low for cell in cells])),
        "above": float(np.mean([cell.high for cell in cells])),
    }


GRIDS: dict[str, Callable[[Sizes], list[Cell]]] = {
    "pass@1, one answer (exact)": single_answer,
    "pass@1, repeats": repeated_answers,
    "pass@k and pass^k": several_answers,
    "pass@1, clusters of ten": clustered_problems,
    "mean_reward, partial credit": fractional_rewards,
    "paired difference": paired_intervals,
}


def print_table(sizes: Sizes) -> None:
    """The coverage table of docs/statistics.md, and the cells outside the band."""
    print(
        "| interval | rarer kind | cells | mean coverage | lowest | highest | inside 93-97 % | below |"
    )
    print("|---|---|---|---|---|---|---|---|")
    outside = []
    for name, grid in GRIDS.items():
        cells = grid(sizes)
        for kind, few in ((f"more than {FEW}", False), (f"{FEW} or fewer", True)):
            group = [cell for cell in cells if cell.few is few]
            if not group:
                continue
            found = summary(group)
            print(
                f"| {name} | {kind} | {found['cells']:.0f} | {found['mean']:.3f} | {found['lowest']:.3f}"
                f" | {found['highest']:.3f} | {found['inside']:.0%} | {found['below']:.0%} |"
            )
            outside += [(name, cell) for cell in group if cell.low or (cell.high and not few)]
    for name, cell in outside:
        print(f"<!-- {name}: {cell.rate:.3f} at {cell.where} -->")
