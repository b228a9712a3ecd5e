"""The paired difference of two means: an interval and tests that stay honest when few problems differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nemo_evaluator.metrics._scipy import normal_cdf, t_cdf, t_quantile
from nemo_evaluator.metrics.groups import Floats, Ints
from nemo_evaluator.metrics.intervals import Interval, cluster_spread, z_quantile


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference with its standard error; ``centre`` is where the interval is centred.

    ``df`` is None where the normal distribution applies; ``error`` is None when nothing is known about the spread.
    """

    value: float
    centre: float
    error: float | None
    df: float | None
    method: str
    n: int
    scale: float

    def interval(self, confidence: float = 0.95) -> Interval:
        """Two-sided bounds."""
        if self.error is None:
            return Interval(self.value, None, None, self.method, self.n)
        level = 0.5 + confidence / 2
        half = self.error * (z_quantile(confidence) if self.df is None else t_quantile(level, self.df))
        lower, upper = min(self.centre - half, self.value), max(self.centre + half, self.value)
        return Interval(self.value, max(lower, -self.scale), min(upper, self.scale), self.method, self.n)

    def p_above(self, bound: float) -> float:
        """One-sided p-value of "the true difference is not above ``bound``"."""
        if self.error is None:
            return 1.0
        return 1.0 - self._cdf((self.centre - bound) / self.error)

    def p_below(self, bound: float) -> float:
        """One-sided p-value of "the true difference is not below ``bound``"."""
        return 1.0 if self.error is None else self._cdf((self.centre - bound) / self.error)

    def _cdf(self, value: float) -> float:
        return float(normal_cdf(value)) if self.df is None else t_cdf(value, self.df)


def mean_difference(
    differences: Floats,
    *,
    lattice: bool = False,
    scale: float = 1.0,
    clusters: Ints | None = None,
    made_up: float | None = None,
) -> Difference:
    """The mean of per-problem differences.

    ``lattice`` says that the rewards are 0 or 1, so that most differences may be zero: then two made-up problems, one
    of each sign, are added (Bonett and Price 2012). The same is done, in units of ``scale``, when no difference
    shows a spread, because ten equal differences do not prove that the eleventh is equal too. Otherwise Student's t.
    ``made_up`` sets the size of the added pair; without it, it is the usual size of the differences that are not zero.
    """
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    if n == 0:
        return Difference(math.nan, math.nan, None, None, "none", 0, scale)
    mean = float(values.mean())
    if clusters is not None:
        spread = cluster_spread(values, clusters)
        if spread.df >= 1 and spread.variance > 0:
            error = math.sqrt(spread.variance)
            return Difference(mean, mean, error, spread.df, "paired_cluster_t", spread.df + 1, scale)
    if lattice or n == 1 or np.ptp(values) == 0.0:
        return _with_made_up_pair(values, scale, made_up)
    return Difference(mean, mean, float(values.std(ddof=1)) / math.sqrt(n), n - 1, "paired_t", n, scale)


def _with_made_up_pair(values: Floats, scale: float, size: float | None) -> Difference:
    n = len(values)
    moved = values[values != 0.0]
    if size is None:
        size = math.sqrt(float((moved**2).mean())) if len(moved) else scale
    centre = float(values.sum()) / (n + 2)
    square = (float((values**2).sum()) + 2 * size * size) / (n + 2)
    error = math.sqrt(max(square - centre * centre, 0.0) / (n + 2))
    # With one answer a side the published interval holds as it is; means of repeated answers need the wider t.
    single = bool((np.abs(moved) == scale).all())
    return Difference(float(values.mean()), centre, error, None if single else n + 1, "bonett_price", n, scale)


def paired_difference(
    differences: Floats,
    *,
    lattice: bool = False,
    scale: float = 1.0,
    clusters: Ints | None = None,
    confidence: float = 0.95,
) -> Interval:
    """The interval of ``mean_difference``."""
    return mean_difference(differences, lattice=lattice, scale=scale, clusters=clusters).interval(confidence)


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
