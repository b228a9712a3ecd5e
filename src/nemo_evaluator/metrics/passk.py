"""pass@k (at least one of k answers is right) and pass^k (all k are), estimated without bias from n answers."""

import math

import numpy as np

from nemo_evaluator.metrics.alpha_spending import PLANNED, Spending
from nemo_evaluator.metrics.groups import Floats, Ints, Problems
from nemo_evaluator.metrics.intervals import Interval


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that one of ``k`` answers drawn from ``n``, ``c`` of them right, is right."""
    _check(n, c, k)
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """The chance that all of ``k`` answers drawn from ``n``, ``c`` of them right, are right."""
    _check(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def _check(n: int, c: int, k: int) -> None:
    if k < 1 or n < k:
        raise ValueError(f"cannot draw k={k} answers from n={n}")
    if not 0 <= c <= n:
        raise ValueError(f"c={c} right answers of n={n}")


def useful_ks(repeats: int) -> list[int]:
    """1, 2, 4, 8, ... up to ``repeats``, and ``repeats`` itself."""
    ks = {1 << i for i in range(repeats.bit_length()) if 1 << i <= repeats}
    return sorted(ks | {max(repeats, 1)})


def pass_values(counts: Ints, correct: Ints, k: int, *, every: bool = False) -> Floats:
    """pass@k (or pass^k with ``every``) of each problem; the formula runs once per distinct (answers, right) pair."""
    estimate = pass_hat_k if every else pass_at_k
    width = int(counts.max()) + 1
    pairs, inverse = np.unique(counts * width + correct, return_inverse=True)
    table = np.array([estimate(int(p) // width, int(p) % width, k) for p in pairs], dtype=np.float64)
    return np.asarray(table[inverse], dtype=np.float64)


def pass_intervals(
    problems: Problems,
    k: int,
    *,
    every: bool = False,
    clusters: Ints | None = None,
    confidence: float = 0.95,
    spending: Spending = PLANNED,
) -> tuple[Interval, Floats]:
    """pass@k over the problems that have at least ``k`` answers, with its interval and the per-problem values."""
    enough = problems.counts >= k
    counts = problems.counts[enough]
    if not len(counts):
        return Interval(math.nan, None, None, "none", 0), np.empty(0)
    values = pass_values(counts, np.rint(problems.totals[enough]).astype(np.int64), k, every=every)
    found = spending.mean_interval(
        values,
        # With k answers used up per estimate, a problem holds at most answers / k independent ones.
        answers=max(int(counts.sum()) / k, len(counts)),
        binary=True,
        clusters=None if clusters is None else clusters[enough],
        confidence=confidence,
    )
    return found, values
