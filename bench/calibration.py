"""Are the numbers what they say? Coverage, error rates and power by simulation, seeded.

``python -m bench.calibration`` prints the tables of docs/statistics.md (about ten minutes on one core); ``--quick``
runs the small grid that the tests run. 0/1 rewards with one answer per problem need no simulation: their coverage is
a sum over all outcomes.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import betaln

from nemo_evaluator.config.gate_policy import PolicyDefaults
from nemo_evaluator.decisions.gate import Measurement, aggregate, settle
from nemo_evaluator.decisions.gate_report import BenchmarkGate, GateVerdict, Status
from nemo_evaluator.decisions.pairing import Pairing, Side
from nemo_evaluator.decisions.thresholds import measure
from nemo_evaluator.metrics import (
    MeanSequence,
    mcnemar_test,
    mean_difference,
    mean_interval,
    pass_intervals,
    sequential,
    unpaired_difference,
    wilson_modified,
)
from nemo_evaluator.metrics.groups import Problems

BAND = (0.93, 0.97)
# Wealth at which a bet on one side is won, at 95 % confidence for both sides together.
GOAL = float(np.log(2 / 0.05))


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of a grid: where, and how often the truth was covered (or an error made)."""

    where: dict[str, float]
    rate: float
    runs: int
    # Whether any rule could be inside the band here; few outcomes leave large jumps.
    attainable: bool = True

    @property
    def noise(self) -> float:
        """Three standard errors of the simulation."""
        return 3 * float(np.sqrt(self.rate * (1 - self.rate) / self.runs)) if self.runs else 0.0

    @property
    def low(self) -> bool:
        """Covers less than the band, beyond chance."""
        return round(self.rate + self.noise, 3) < BAND[0]

    @property
    def high(self) -> bool:
        """Covers more than the band, beyond chance, where something inside it could be had."""
        return self.attainable and round(self.rate - self.noise, 3) > BAND[1]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much to simulate."""

    n: tuple[int, ...]
    p: tuple[float, ...]
    repeats: tuple[int, ...]
    alike: tuple[float, ...]
    runs: int


QUICK = Sizes((10, 50, 300), (0.05, 0.5, 0.9), (2, 8), (0.0, 0.3, 1.0), 400)
LONG = Sizes((10, 30, 100, 300, 1000, 2000), (0.01, 0.05, 0.2, 0.5, 0.8, 0.99), (2, 4, 16), (0.0, 0.3, 0.8), 1500)


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
        cells.append(Cell({"n": n, "p": p}, float(covered), 0, _attainable(weights)))
    return cells


def _attainable(weights: np.ndarray) -> bool:
    """Whether some run of neighbouring outcomes around the most likely one has a probability inside the band."""
    total = np.r_[0.0, np.cumsum(weights)]
    mode = int(np.argmax(weights))
    sums = total[None, mode + 1 :] - total[: mode + 1, None]
    return bool(((sums >= BAND[0]) & (sums <= BAND[1])).any())


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
    for at, (n, p, m, alike) in enumerate(itertools.product(sizes.n, sizes.p, sizes.repeats, sizes.alike)):
        rng = np.random.default_rng([seed, at])
        values = rng.binomial(m, ease(rng, p, alike, (sizes.runs, n))) / m
        covered = np.mean([_covers(row, p, binary=True, answers=n * m) for row in values])
        cells.append(Cell({"n": n, "p": p, "repeats": m, "alike": alike}, float(covered), sizes.runs))
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
            found, _ = pass_intervals(Problems(ids, counts, right.astype(float), ids), k, every=every)
            hits += found.lower is not None and found.upper is not None and found.lower <= truth <= found.upper
        cells.append(Cell({"n": n, "p": p, "k": k, "alike": alike, "every": every}, hits / runs, runs))
    return cells


def _covers(values: np.ndarray, truth: float, **options: object) -> bool:
    found = mean_interval(values, **options)  # type: ignore[arg-type]
    return found.lower is not None and found.upper is not None and found.lower <= truth <= found.upper


def clustered_problems(sizes: Sizes, seed: int = 1) -> list[Cell]:
    """Coverage of pass@1 when ten problems share a passage."""
    cells = []
    for at, (groups, p, alike) in enumerate(itertools.product((10, 30, 100), sizes.p, (0.1, 0.5))):
        rng = np.random.default_rng([seed, at])
        clusters = np.repeat(np.arange(groups), 10)
        hits = 0
        for _ in range(sizes.runs):
            reward = (rng.random(groups * 10) < ease(rng, p, alike, (groups,))[clusters]).astype(float)
            hits += _covers(reward, p, binary=True, answers=len(reward), clusters=clusters)
        where = {"clusters": groups, "p": p, "alike": alike}
        cells.append(Cell(where, hits / sizes.runs, sizes.runs))
    return cells


def fractional_rewards(sizes: Sizes, seed: int = 2) -> list[Cell]:
    """Coverage of mean_reward for partial credit: beta-distributed, and mostly-all-or-nothing."""
    shapes: dict[str, tuple[Callable[[np.random.Generator, tuple[int, int]], np.ndarray], float]] = {
        "beta(2,1)": (lambda rng, size: rng.beta(2, 1, size), 2 / 3),
        "beta(.5,.5)": (lambda rng, size: rng.beta(0.5, 0.5, size), 0.5),
        "thirds": (lambda rng, size: rng.binomial(3, 0.7, size) / 3, 0.7),
    }
    cells = []
    for at, (n, (draw, truth)) in enumerate(itertools.product(sizes.n, shapes.values())):
        values = draw(np.random.default_rng([seed, at]), (sizes.runs, n))
        covered = np.mean([_covers(row, truth) for row in values])
        cells.append(Cell({"n": n, "shape": at % len(shapes)}, float(covered), sizes.runs))
    return cells


def _pairs(
    rng: np.random.Generator, runs: int, n: int, m: int, drop: float, alike: float, p: float = 0.65
) -> tuple[np.ndarray, np.ndarray, float]:
    """Two sides on the same problems, the second lower by ``drop`` on average; returns means and the true drop."""
    if drop < 0:
        better, worse, _ = _pairs(rng, runs, n, m, -drop, alike, p)
        return worse, better, drop
    base = ease(rng, p, alike, (runs, n))
    # Scaling keeps chances between 0 and 1, so that the mean drops by exactly as much as is asked.
    other = base * (1 - drop / p)
    return rng.binomial(m, base) / m, rng.binomial(m, other) / m, drop


def paired_intervals(sizes: Sizes, seed: int = 3) -> list[Cell]:
    """Coverage of the paired difference."""
    cells = []
    grid = itertools.product(sizes.n, (1, *sizes.repeats[:2]), (0.0, 0.05, 0.2), (0.3, 0.8))
    for at, (n, m, drop, alike) in enumerate(grid):
        left, right, truth = _pairs(np.random.default_rng([seed, at]), sizes.runs, n, m, drop, alike)
        hits = 0
        for values in right - left:
            found = mean_difference(values, lattice=True).interval()
            assert found.lower is not None and found.upper is not None
            hits += found.lower <= -truth <= found.upper
        where = {"n": n, "repeats": m, "drop": drop, "alike": alike}
        cells.append(Cell(where, hits / sizes.runs, sizes.runs))
    return cells


def paired_tests(runs: int, seed: int = 4) -> Iterator[tuple[str, dict[str, float]]]:
    """Level and power of the paired tests beside the unpaired one, 5 % one-sided, n = 300."""
    for name, drop in (("no drop", 0.0), ("drop of 0.05", 0.05), ("drop of 0.10", 0.10)):
        rng = np.random.default_rng([seed, int(drop * 100)])
        left, right, _ = _pairs(rng, runs, 300, 1, drop, alike=0.7)
        found: dict[str, list[bool]] = {"mcnemar": [], "paired difference": [], "unpaired (Welch)": []}
        for before, after in zip(left, right, strict=True):
            worse, better = int(((before - after) > 0).sum()), int(((after - before) > 0).sum())
            found["mcnemar"].append(mcnemar_test(worse, better, 300).p_value <= 0.05)
            found["paired difference"].append(mean_difference(after - before, lattice=True).p_below(0.0) <= 0.05)
            upper = unpaired_difference(before, after, confidence=0.90).upper
            found["unpaired (Welch)"].append(upper is not None and upper < 0)
        yield name, {test: float(np.mean(hits)) for test, hits in found.items()}


def gate_errors(runs: int, seed: int = 5, benchmarks: int = 20) -> dict[str, float]:
    """How often a gate over 20 benchmarks errs, at the worst place: drops exactly on the limit.

    False GO: one benchmark drops by its limit, the others not. False NO-GO: all drop by their limit, none by more.
    """
    rng = np.random.default_rng(seed)
    limit, n = 0.05, 400
    false_go = false_no_go = 0
    for _ in range(runs):
        false_go += _gate(rng, [limit] + [0.0] * (benchmarks - 1), n, limit) is GateVerdict.GO
        false_no_go += _gate(rng, [limit] * benchmarks, n, limit) is GateVerdict.NO_GO
    return {"false GO": false_go / runs, "false NO-GO": false_no_go / runs, "nominal": 0.025}


def _gate(rng: np.random.Generator, drops: list[float], n: int, limit: float) -> GateVerdict:
    """The decision of the gate itself on made-up runs."""
    rules = PolicyDefaults(max_drop=limit)
    found = []
    for at, drop in enumerate(drops):
        left, right, _ = _pairs(rng, 1, n, 1, drop, alike=0.9)
        keys, ones = np.arange(n), np.ones(n, dtype=np.int64)
        sides = [Side(keys, values[0], ones, keys, True, n, 0) for values in (left, right)]
        pairing = Pairing("content", sides[0], sides[1], 0, 0, ())
        entry = BenchmarkGate(f"b{at}", "supporting", Status.INSUFFICIENT, "pass@1", "higher_is_better", limit, None)
        found.append(Measurement(entry, measure(pairing, rules, confidence=0.95, sequential=False), pairing))
    settle(found, correction="holm", alpha=0.025)
    return aggregate([one.entry for one in found])[0]


def peeking(runs: int, seed: int = 6, most: int = 1500) -> dict[str, float]:
    """How often the truth is ever outside, looking after every problem: confidence sequences and a fixed interval."""
    missed = {
        "mean, confidence sequence": 0,
        "paired difference, confidence sequence": 0,
        "mean, fixed 95 % interval": 0,
    }
    for at in range(runs):
        rng = np.random.default_rng([seed, at])
        values = (rng.random(most) < 0.7).astype(float)
        missed["mean, confidence sequence"] += _ever_outside(values, 0.0, 0.7)
        left, right, truth = _pairs(rng, 1, most, 1, 0.05, alike=0.7)
        missed["paired difference, confidence sequence"] += _ever_outside((right - left)[0], -1.0, -truth)
        counts = np.cumsum(values)
        n = np.arange(1, most + 1)
        share = counts / n
        half = 1.96 * np.sqrt(np.maximum(share * (1 - share), 1e-12) / n)
        missed["mean, fixed 95 % interval"] += bool((np.abs(share - 0.7) > half)[29:].any())
    return {name: count / runs for name, count in missed.items()}


def _ever_outside(values: np.ndarray, low: float, truth: float) -> bool:
    above, below = _wealth(values, low, truth)
    return bool(max(above.max(), below.max()) >= GOAL)


def _wealth(values: np.ndarray, low: float, m: float) -> tuple[np.ndarray, np.ndarray]:
    """The log wealth of both gamblers after every value: what ``MeanSequence`` would say, all looks at once."""
    unit, mean = (values - low) / (1.0 - low), (m - low) / (1.0 - low)
    paths = []
    for gains in (unit / mean - 1, (1 - unit) / (1 - mean) - 1):
        logs = np.cumsum(np.log1p(np.outer(sequential.SHARES, gains)), axis=1)
        paths.append(np.logaddexp.reduce(logs + sequential.LOG_WEIGHTS[:, None], axis=0))
    sequence = MeanSequence(low=low, high=1.0)
    sequence.add(values)
    assert np.isclose(sequence.p_above(m), np.exp(-max(0.0, paths[0][-1])), atol=1e-9)
    return paths[0], paths[1]


def sequential_savings(runs: int, seed: int = 7, most: int = 1319) -> Iterator[tuple[str, float, float]]:
    """Share of a GSM8K-sized benchmark used, and how often the decision is wrong, by true difference."""
    for name, drop, limit, alike in (
        ("10 points worse, limit 0", 0.10, 0.0, 0.7),
        ("10 points worse, limit 0.015", 0.10, 0.015, 0.7),
        ("10 points better, limit 0.015", -0.10, 0.015, 0.7),
        ("10 points worse, limit 0, noisy answers", 0.10, 0.0, 0.2),
        ("10 points worse, limit 0.015, noisy answers", 0.10, 0.015, 0.2),
        ("no difference, limit 0", 0.0, 0.0, 0.7),
        ("drop on the limit of 0.05", 0.05, 0.05, 0.7),
    ):
        used, wrong = [], 0
        for at in range(runs):
            rng = np.random.default_rng([seed, at, int(1000 * (drop + 1))])
            left, right, _ = _pairs(rng, 1, most, 1, drop, alike=alike)
            count, decision = _decide((right - left)[0], -limit)
            used.append(count / most)
            surely = "worse" if drop > limit else "fine" if drop < limit else "open"
            wrong += decision not in ("open", surely)
        yield name, float(np.mean(used)), wrong / runs


def _decide(values: np.ndarray, limit: float, floor: int = 30) -> tuple[int, str]:
    above, below = _wealth(values, -1.0, limit)
    decided = np.flatnonzero((np.maximum(above, below) >= GOAL)[floor - 1 :])
    if not len(decided):
        return len(values), "open"
    at = int(decided[0]) + floor - 1
    return at + 1, "fine" if above[at] >= GOAL else "worse"


def summary(cells: list[Cell]) -> dict[str, float]:
    """A grid in a few numbers."""
    rates = np.array([cell.rate for cell in cells])
    return {
        "cells": len(cells),
        "mean": float(rates.mean()),
        "lowest": float(rates.min()),
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


def rows() -> list[dict[str, object]]:
    """For ``python -m bench calibration``: the worst numbers of the long grid."""
    out: list[dict[str, object]] = []
    for name, grid in GRIDS.items():
        found = summary(grid(LONG))
        out.append({"name": f"{name}: mean coverage", "value": found["mean"], "unit": "", "limit": None})
        out.append({"name": f"{name}: cells under 93 %", "value": found["below"], "unit": "share", "limit": 0.05})
    gate = gate_errors(2000)
    out += [
        {"name": f"gate of 20: {k}", "value": gate[k], "unit": "", "limit": 0.035} for k in ("false GO", "false NO-GO")
    ]
    looked = peeking(400)
    out += [
        {"name": f"peeking: {name}", "value": rate, "unit": "", "limit": 0.05}
        for name, rate in looked.items()
        if "sequence" in name
    ]
    return out


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(prog="python -m bench.calibration", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the small grid of the tests")
    quick = parser.parse_args().quick
    sizes, runs = (QUICK, 200) if quick else (LONG, 2000)
    print(
        "| interval | cells | mean coverage | lowest | inside 93-97 % | below | above |\n|---|---|---|---|---|---|---|"
    )
    for name, grid in GRIDS.items():
        cells = grid(sizes)
        found = summary(cells)
        print(
            f"| {name} | {found['cells']:.0f} | {found['mean']:.3f} | {found['lowest']:.3f} | {found['inside']:.0%}"
            f" | {found['below']:.0%} | {found['above']:.0%} |"
        )
        _outliers(name, cells)
    print("\n| truth | test | found |\n|---|---|---|")
    for truth, tests in paired_tests(runs):
        for test, rate in tests.items():
            print(f"| {truth} | {test} | {rate:.3f} |")
    print("\n| gate of 20 benchmarks | rate |\n|---|---|")
    for name, rate in gate_errors(runs).items():
        print(f"| {name} | {rate:.4f} |")
    print("\n| looking after every problem | ever wrong |\n|---|---|")
    for name, rate in peeking(runs // 4).items():
        print(f"| {name} | {rate:.3f} |")
    print("\n| sequential comparison, 1,319 problems | used on average | wrong decisions |\n|---|---|---|")
    for name, used, wrong in sequential_savings(runs // 10):
        print(f"| {name} | {used:.0%} | {wrong:.3f} |")


def _outliers(name: str, cells: list[Cell]) -> None:
    low = sorted((cell for cell in cells if cell.low), key=lambda cell: cell.rate)[:5]
    for cell in low:
        print(f"<!-- {name}: {cell.rate:.3f} at {cell.where} -->")


if __name__ == "__main__":
    main()
