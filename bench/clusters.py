"""Do intervals and decisions hold where problems belong to clusters? Simulated with the cluster sizes of the built-ins.

``python -m bench.clusters`` prints the table of docs/statistics.md (some minutes on one core).
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nemo_evaluator.statistics import mean_difference, mean_interval

# How many clusters have 1, 2, 3, ... problems. MGSM and Global MMLU are complete; of SQuAD 2.0 and BoolQ the shares are
# rounded; the others were counted on the datasets (of DROP and HellaSwag on 1,000 rows).
STRUCTURES = {
    "mgsm": (*[0] * 10, 250),
    "global_mmlu": (*[0] * 14, 14042),
    "drop": (156, 111, 65, 32, 19, 7, 7, 5, 3, 2, 1, 0, 0, 0, 1),
    "squad_v2": (0, 0, 5, 10, 12, 5, 5, 7, 12, 21, 9, 4, 2, 2, 1, 1, 1, 1, 1, 1),
    "boolq": (86, 11, 2, 1),
    "hellaswag": (497, 141, 50, 11, 3, 2),
    "winogrande": (706, 279, 1),
    "mmlu": (13444, 59, 76, 41, 14, 3),
    "mmlu_pro": (11869, 55, 15, 2),
    "bfcl": (60, 20, 8, 4, 3, 2, 1, 1, 1),
}
CLUSTERS = (20, 60, 250)
# How much problems of one cluster agree (intraclass correlation).
ALIKE = (0.1, 0.5)
SCORE = 0.7
# The share of problems that get worse, and the drop, which is exactly the limit.
LOSSES = ((0.06, 0.03), (0.15, 0.05))
NOMINAL = 0.025
# Two standard errors of a rate near the nominal one over 1,000 runs.
NOISE = 0.01


@dataclass(frozen=True, slots=True)
class Rates:
    """Simulated rates for one structure and number of clusters, over all correlations and losses.

    Attributes:
        covered: The lowest and highest coverage of the interval of the score.
        independent: The lowest coverage if the clusters are ignored.
        passed: How often a drop on the limit passes: the worst cell.
        breached: How often a drop on the limit is called a breach: the worst cell.
        passed_ignoring: ``passed`` if the clusters are ignored.
    """

    covered: tuple[float, float]
    independent: float
    passed: float
    breached: float
    passed_ignoring: float


def cluster_sizes(rng: np.random.Generator, structure: tuple[int, ...], count: int) -> np.ndarray:
    """Draw the sizes of some clusters."""
    shares = np.array(structure, dtype=float)
    return rng.choice(np.arange(1, len(structure) + 1), size=count, p=shares / shares.sum())


def chances(rng: np.random.Generator, mean: float, alike: float, count: int) -> np.ndarray:
    """Draw the chance of each cluster."""
    weight = 1 / alike - 1
    return rng.beta(mean * weight, (1 - mean) * weight, count)


def score_coverage(
    rng: np.random.Generator, structure: tuple[int, ...], count: int, alike: float, runs: int
) -> tuple[float, float]:
    """Coverage of the interval of a score, with the clusters and without them."""
    covered = np.zeros(2)
    for _ in range(runs):
        clusters = np.repeat(np.arange(count), cluster_sizes(rng, structure, count))
        chance = chances(rng, SCORE, alike, count)[clusters]
        reward = (rng.random(len(clusters)) < chance).astype(float)
        for way, codes in enumerate((clusters, None)):
            found = mean_interval(reward, answers=len(reward), binary=True, clusters=codes)
            assert found.lower is not None and found.upper is not None
            covered[way] += found.lower <= SCORE <= found.upper
    with_clusters, without = covered / runs
    return float(with_clusters), float(without)


def flips(
    rng: np.random.Generator,
    clusters: np.ndarray,
    count: int,
    alike: float,
    loss: float,
    drop: float,
) -> np.ndarray:
    """Differences of a candidate that is worse by ``drop``: clusters lose at different rates."""
    worse = chances(rng, loss, alike, count)[clusters]
    better = (loss - drop) / (1 - loss) * (1 - worse)
    draw = rng.random(len(clusters))
    return np.where(draw < worse, -1.0, np.where(draw > 1 - better, 1.0, 0.0))


def decision_errors(
    rng: np.random.Generator, structure: tuple[int, ...], count: int, alike: float, runs: int
) -> tuple[float, float, float]:
    """How often a drop on the limit passes, is called a breach, and passes if the clusters are ignored."""
    worst = np.zeros(3)
    for loss, drop in LOSSES:
        errors = np.zeros(3)
        for _ in range(runs):
            clusters = np.repeat(np.arange(count), cluster_sizes(rng, structure, count))
            values = flips(rng, clusters, count, alike, loss, drop)
            found = mean_difference(values, bounded=True, clusters=clusters)
            ignoring = mean_difference(values, bounded=True)
            errors += (
                found.p_above(-drop) <= NOMINAL,
                found.p_below(-drop) <= NOMINAL,
                ignoring.p_above(-drop) <= NOMINAL,
            )
        worst = np.maximum(worst, errors / runs)
    passed, breached, ignoring_rate = worst.tolist()
    return passed, breached, ignoring_rate


def rates(name: str, count: int, runs: int) -> Rates:
    """Simulate one structure with one number of clusters."""
    rng = np.random.default_rng([7, count, zlib.crc32(name.encode())])
    structure = STRUCTURES[name]
    covered = [score_coverage(rng, structure, count, alike, runs) for alike in ALIKE]
    errors = [decision_errors(rng, structure, count, alike, runs) for alike in ALIKE]
    with_clusters = [one for one, _ in covered]
    passed, breached, ignoring = np.max(errors, axis=0).tolist()
    return Rates(
        covered=(min(with_clusters), max(with_clusters)),
        independent=min(without for _, without in covered),
        passed=passed,
        breached=breached,
        passed_ignoring=ignoring,
    )


def table(runs: int) -> Iterator[tuple[str, int, Rates]]:
    """Simulate every structure with every number of clusters."""
    for name in STRUCTURES:
        for count in CLUSTERS:
            yield name, count, rates(name, count, runs)


def rows() -> list[dict[str, object]]:
    """The worst rates, for ``python -m bench clusters``."""
    found = [one for _, _, one in table(1000)]
    return [
        {
            "name": "clusters: lowest coverage of a score",
            "value": min(one.covered[0] for one in found),
            "limit": 0.93 - NOISE,
            "at_least": True,
            "unit": "share",
        },
        {
            "name": "clusters: a drop on the limit passes, at most",
            "value": max(one.passed for one in found),
            "limit": NOMINAL + 0.005 + NOISE,
            "unit": "share",
        },
        {
            "name": "clusters: a drop on the limit is a breach, at most",
            "value": max(one.breached for one in found),
            "limit": NOMINAL + 0.005 + NOISE,
            "unit": "share",
        },
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.clusters", description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="simulated runs per cell")
    runs = parser.parse_args().runs
    print(
        "| cluster sizes of | clusters | coverage | clusters ignored | a drop on the limit passes "
        "| is a breach | passes, clusters ignored |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, count, one in table(runs):
        low, high = one.covered
        print(
            f"| `{name}` | {count} | {low:.3f}–{high:.3f} | {one.independent:.3f} | {one.passed:.3f} "
            f"| {one.breached:.3f} | {one.passed_ignoring:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
