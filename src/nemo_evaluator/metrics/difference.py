"""The paired difference of two means, with an interval that stays honest when few problems differ."""

from __future__ import annotations

import math

import numpy as np

from nemo_evaluator.metrics._scipy import t_quantile
from nemo_evaluator.metrics.groups import Floats, Ints
from nemo_evaluator.metrics.intervals import Interval, cluster_t, z_quantile


def paired_difference(
    differences: Floats,
    *,
    lattice: bool = False,
    scale: float = 1.0,
    clusters: Ints | None = None,
    confidence: float = 0.95,
) -> Interval:
    """Interval of the mean of per-problem differences.

    ``lattice`` says that the rewards are 0 or 1, so that most differences may be zero: then two made-up problems, one
    of each sign, are added (Bonett and Price 2012). The same is done, in units of ``scale``, when no difference
    shows a spread, because ten equal differences do not prove that the eleventh is equal too. Otherwise Student's t.
    """
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    if n == 0:
        return Interval(math.nan, None, None, "none", 0)
    if clusters is not None:
        found = cluster_t(values, clusters, confidence=confidence)
        if found.lower is not None:
            return Interval(found.value, found.lower, found.upper, "paired_cluster_t", found.n)
    if lattice or n == 1 or np.ptp(values) == 0.0:
        return _with_made_up_pair(values, scale, confidence)
    mean = float(values.mean())
    half = t_quantile(0.5 + confidence / 2, n - 1) * float(values.std(ddof=1)) / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, "paired_t", n)


def _with_made_up_pair(values: Floats, scale: float, confidence: float) -> Interval:
    n = len(values)
    moved = values[values != 0.0]
    size = math.sqrt(float((moved**2).mean())) if len(moved) else scale
    mean = float(values.sum()) / (n + 2)
    square = (float((values**2).sum()) + 2 * size * size) / (n + 2)
    error = math.sqrt(max(square - mean * mean, 0.0) / (n + 2))
    # With one answer a side the published interval holds as it is; means of repeated answers need the wider t.
    single = bool((np.abs(moved) == scale).all())
    half = (z_quantile(confidence) if single else t_quantile(0.5 + confidence / 2, n + 1)) * error
    centre = float(values.mean())
    lower, upper = min(mean - half, centre), max(mean + half, centre)
    return Interval(centre, max(lower, -scale), min(upper, scale), "bonett_price", n)


def unpaired_difference(baseline: Floats, candidate: Floats, *, confidence: float = 0.95) -> Interval:
    """Welch's interval of the difference of two means, for problems that do not pair."""
    a, b = np.asarray(baseline, dtype=np.float64), np.asarray(candidate, dtype=np.float64)
    if len(a) < 2 or len(b) < 2:
        return Interval(math.nan, None, None, "welch", 0)
    value = float(b.mean() - a.mean())
    va, vb = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
    if va + vb == 0.0:
        return Interval(value, None, None, "welch", len(a) + len(b))
    df = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    half = t_quantile(0.5 + confidence / 2, df) * math.sqrt(va + vb)
    return Interval(value, value - half, value + half, "welch", len(a) + len(b))
