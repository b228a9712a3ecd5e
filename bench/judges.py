"""Are scores that labels correct what they say? Coverage of the corrected score, and errors of corrected comparisons.

``python -m bench.judges`` prints the tables of docs/statistics.md (some minutes on one core).
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass

import numpy as np

from bench.coverage import Cell, summary
from nemo_evaluator.statistics.corrected_score import corrected_difference, corrected_mean
from nemo_evaluator.statistics.ppi import Labelled

ROWS = 2000
# Sensitivity and specificity of the judges.
JUDGES = ((0.6, 0.6), (0.9, 0.85), (0.99, 0.6), (0.6, 0.99), (0.99, 0.99))
TRUTHS = (0.05, 0.2, 0.5, 0.8, 0.95)
LABELS = (50, 100, 200, 500)
# Labels a side of a comparison, and whether they are of the same problems.
SIZES = ((100, True), (100, False), (300, True))
DRAWS = ("uniform", "uncertainty", "uncertainty, graded judge")


@dataclass(frozen=True, slots=True)
class Judged:
    """Coverage of one cell, and the half-width beside that of the labels alone."""

    cell: Cell
    half: float
    alone: float


def drawn(
    rng: np.random.Generator, labels: int, truth: float, judge: tuple[float, float], draw: str
) -> Labelled:
    """A made-up run with its labels. Half of the problems are hard: there the judge is unsure, and errs more."""
    right = (rng.random(ROWS) < truth).astype(float)
    hard = rng.random(ROWS) < 0.5
    often = np.where(hard, 1.8, 0.2) if draw != "uniform" else 1.0
    errs = np.minimum(np.where(right == 1, 1 - judge[0], 1 - judge[1]) * often, 0.95)
    said = np.where(rng.random(ROWS) < errs, 1 - right, right)
    if draw == "uniform":
        human = np.full(ROWS, np.nan)
        at = rng.choice(ROWS, labels, replace=False)
        human[at] = right[at]
        return Labelled(said, human)
    unsure = np.where(hard, 0.9, 0.1)
    if "graded" in draw:
        sure = np.where(hard, rng.uniform(0.55, 0.8, ROWS), rng.uniform(0.85, 0.99, ROWS))
        said = np.where(said == 1, sure, 1 - sure)
        unsure = 4 * said * (1 - said)
    chance = np.clip(labels * (0.5 * unsure / unsure.sum() + 0.5 / ROWS), 0, 1)
    return Labelled(said, np.where(rng.random(ROWS) < chance, right, np.nan), chance)


def scores(
    runs: int, labels: tuple[int, ...] = LABELS, truths: tuple[float, ...] = TRUTHS, seed: int = 11
) -> dict[str, list[Judged]]:
    """Coverage of the corrected score over the grid."""
    found: dict[str, list[Judged]] = {}
    for draw in DRAWS:
        for at, (n, judge, truth) in enumerate(itertools.product(labels, JUDGES, truths)):
            rng = np.random.default_rng([seed, at, DRAWS.index(draw)])
            hits, half, alone = 0, 0.0, 0.0
            for _ in range(runs):
                one = corrected_mean(drawn(rng, n, truth, judge, draw))
                lower, upper = one.interval.lower, one.interval.upper
                assert lower is not None and upper is not None
                hits += lower <= truth <= upper
                half += (upper - lower) / 2 / runs
                alone += (one.alone.width or 0.0) / 2 / runs
            where = {"labels": n, "truth": truth, "sensitivity": judge[0], "specificity": judge[1]}
            wrong = truth * (1 - judge[0]) + (1 - truth) * (1 - judge[1])
            cell = Cell(where, hits / runs, runs, n * min(truth, 1 - truth, wrong))
            found.setdefault(draw, []).append(Judged(cell, half, alone))
    return found


def comparisons(
    runs: int, sizes: tuple[tuple[int, bool], ...] = SIZES, seed: int = 12
) -> list[tuple[str, float, float, float]]:
    """Two models without a true difference, 1,000 problems: how often raw and corrected 95 % intervals exclude zero.

    The last number is how often the corrected one finds a true difference of ten points.
    """
    table = []
    cases = {
        "the judge errs alike on both": ((0.9, 0.85), (0.9, 0.85)),
        "it is milder with the candidate": ((0.9, 0.85), (0.95, 0.75)),
        "it favours the candidate": ((0.8, 0.9), (0.97, 0.7)),
    }
    for at, (name, judges) in enumerate(cases.items()):
        for labels, same in sizes:
            rng = np.random.default_rng([seed, at, labels, same])
            raw = corrected = power = 0
            for number in range(2 * runs):
                gain = 0.1 if number >= runs else 0.0
                sides = _two(rng, judges, labels, same, gain)
                moved = sides[1].judge - sides[0].judge
                found = corrected_difference(*sides).interval()
                assert found.lower is not None and found.upper is not None
                excluded = not found.lower <= 0 <= found.upper
                if gain:
                    power += excluded
                else:
                    corrected += excluded
                    raw += abs(moved.mean()) > 1.96 * moved.std() / np.sqrt(len(moved))
            who = f"{name}; {labels} labels a side, {'the same' if same else 'different'} problems"
            table.append((who, raw / runs, corrected / runs, power / runs))
    return table


def _two(
    rng: np.random.Generator,
    judges: tuple[tuple[float, float], ...],
    labels: int,
    same: bool,
    gain: float,
) -> tuple[Labelled, Labelled]:
    n = 1000
    ease = rng.beta(1.4, 0.6, n)
    at = rng.choice(n, labels, replace=False)
    sides = []
    for judge, more in zip(judges, (0.0, gain), strict=True):
        right = (rng.random(n) < np.clip(ease + more, 0, 1)).astype(float)
        said = np.where(right == 1, rng.random(n) < judge[0], rng.random(n) >= judge[1]).astype(
            float
        )
        human = np.full(n, np.nan)
        human[at] = right[at]
        sides.append(Labelled(said, human))
        at = at if same else rng.choice(n, labels, replace=False)
    return sides[0], sides[1]


def rows() -> list[dict[str, object]]:
    """For ``python -m bench judges``."""
    out: list[dict[str, object]] = []
    for draw, cells in scores(1000).items():
        usual = [one.cell for one in cells if not one.cell.few]
        outside = 1 - summary(usual)["inside"]
        low = sum(one.cell.low for one in cells) / len(cells)
        out.append(
            {
                "name": f"corrected score, {draw}: outside 93-97 %",
                "value": outside,
                "unit": "share",
                "limit": 0.02,
            }
        )
        out.append(
            {
                "name": f"corrected score, {draw}: below",
                "value": low,
                "unit": "share",
                "limit": 0.02,
            }
        )
    for name, _, corrected, _ in comparisons(1000):
        out.append(
            {
                "name": f"corrected comparison: {name}",
                "value": corrected,
                "unit": "",
                "limit": 0.071,
            }
        )
    return out


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(prog="python -m bench.judges", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="simulated runs a cell")
    runs = parser.parse_args().runs
    print(
        "| draw | labels | cells | mean coverage | lowest | highest | inside 93–97 % | below | half-width | alone |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for draw, cells in scores(runs).items():
        for labels, few in itertools.product(LABELS, (False, True)):
            part = [
                one for one in cells if one.cell.where["labels"] == labels and one.cell.few is few
            ]
            if part:
                told = summary([one.cell for one in part])
                half, alone = (
                    float(np.mean([getattr(one, name) for one in part]))
                    for name in ("half", "alone")
                )
                print(
                    f"| {draw} | {labels}{', rare' if few else ''} | {len(part)} | {told['mean']:.3f} | "
                    f"{told['lowest']:.3f} | {told['highest']:.3f} | {told['inside']:.0%} | {told['below']:.0%} | "
                    f"{half:.3f} | {alone:.3f} |",
                    flush=True,
                )
    print(
        "\n| no true difference | raw errs | corrected errs | corrected finds 10 points |\n|---|---|---|---|"
    )
    for name, raw, corrected, power in comparisons(runs):
        print(f"| {name} | {raw:.3f} | {corrected:.3f} | {power:.3f} |", flush=True)


if __name__ == "__main__":
    main()
