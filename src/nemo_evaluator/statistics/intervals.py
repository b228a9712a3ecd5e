"""Confidence intervals for a proportion or a mean. ``mean_interval`` picks the one that fits; the others are there by
name. ``None`` bounds mean that the data say nothing about the spread, which is not the same as an interval of width
zero."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from nemo_evaluator.statistics._scipy import beta_quantile, gamma_quantile, t_quantile
from nemo_evaluator.statistics.groups import Floats, Ints, is_binary

# Weight of the largest possible spread when the spread of repeated answers is estimated: with very few problems that
# are ever right (or wrong) the observed spread alone is a matter of luck. Both numbers were chosen by simulation.
_SPREAD_PRIOR: Final = 0.6
_TELLING_POWER: Final = 1.5
_NEAR_EDGE: Final = 3


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its bounds, how they were made, and from how many independent units."""

    value: float
    lower: float | None
    upper: float | None
    method: str
    n: int

    @property
    def mean(self) -> float:
        """Another name of ``value``."""
        return self.value

    @property
    def ci_lower(self) -> float | None:
        """Another name of ``lower``."""
        return self.lower

    @property
    def ci_upper(self) -> float | None:
        """Another name of ``upper``."""
        return self.upper

    @property
    def width(self) -> float | None:
        """Upper minus lower, or ``None`` without bounds."""
        if self.lower is None or self.upper is None:
            return None
        return self.upper - self.lower


@lru_cache(maxsize=64)
def z_quantile(confidence: float) -> float:
    """The two-sided normal quantile of a confidence level: 1.96 for 0.95."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def wilson(
    successes: float, n: float, *, confidence: float = 0.95, quantile: float | None = None
) -> Interval:
    """Wilson's score interval; ``n`` may be an effective sample size, ``quantile`` a t quantile."""
    if n <= 0:
        return Interval(math.nan, None, None, method="wilson", n=0)
    if quantile is None:
        q = z_quantile(confidence)
    else:
        q = quantile
    p = successes / n
    shrink = 1 + q * q / n
    centre = (p + q * q / (2 * n)) / shrink
    half = q / shrink * math.sqrt(max(p * (1 - p), 0.0) / n + q * q / (4 * n * n))
    if p <= 0:
        lower = 0.0
    else:
        lower = max(0.0, centre - half)
    if p >= 1:
        upper = 1.0
    else:
        upper = min(1.0, centre + half)
    return Interval(p, lower, upper, method="wilson", n=round(n))


def wilson_modified(
    successes: float, n: float, *, confidence: float = 0.95, quantile: float | None = None
) -> Interval:
    """Wilson's interval with Poisson ends where it is known to cover too little (Brown, Cai, DasGupta 2001, §4.1.1). It
    differs from ``wilson`` only with one to three successes or failures (the paper stops at two up to n = 50, which
    leaves dips at n = 20 and n = 50)."""
    plain = wilson(successes, n, confidence=confidence, quantile=quantile)
    if plain.lower is None or plain.upper is None:
        return plain
    alpha = 1 - confidence
    lower = plain.lower
    upper = plain.upper
    if 0 < successes <= _NEAR_EDGE:
        lower = min(lower, _poisson_lower(successes, alpha) / n)
    if 0 < n - successes <= _NEAR_EDGE:
        upper = max(upper, 1 - _poisson_lower(n - successes, alpha) / n)
    if (lower, upper) == (plain.lower, plain.upper):
        method = plain.method
    else:
        method = "wilson_modified"
    return Interval(plain.value, lower, upper, method=method, n=plain.n)


def _poisson_lower(count: float, alpha: float) -> float:
    """The rate at which ``count`` or more events have probability ``alpha``."""
    if count != int(count):
        return gamma_quantile(alpha, count)
    low = 0.0
    high = float(count)
    for _ in range(60):
        rate = (low + high) / 2
        tail = 1 - math.exp(-rate) * sum(rate**i / math.factorial(i) for i in range(int(count)))
        low, high = (rate, high) if tail < alpha else (low, rate)
    return (low + high) / 2


def clopper_pearson(successes: int, n: int, *, confidence: float = 0.95) -> Interval:
    """The exact interval: never covers less than it says, usually more."""
    if n <= 0:
        return Interval(math.nan, None, None, method="clopper_pearson", n=0)
    tail = (1 - confidence) / 2
    if successes == 0:
        lower = 0.0
    else:
        lower = beta_quantile(tail, successes, n - successes + 1)
    if successes == n:
        upper = 1.0
    else:
        upper = beta_quantile(1 - tail, successes + 1, n - successes)
    return Interval(successes / n, lower, upper, method="clopper_pearson", n=n)


def beta_binomial(
    successes: int, n: int, *, confidence: float = 0.95, a: float = 0.5, b: float = 0.5
) -> Interval:
    """Equal-tailed credible interval of a proportion under a Beta(a, b) prior (Jeffreys by default)."""
    tail = (1 - confidence) / 2
    lower = beta_quantile(tail, a + successes, b + n - successes)
    upper = beta_quantile(1 - tail, a + successes, b + n - successes)
    return Interval((a + successes) / (a + b + n), lower, upper, method="beta_binomial", n=n)


def t_interval(values: Floats, *, confidence: float = 0.95) -> Interval:
    """Student's interval for the mean of independent values; no bounds when the values cannot show a spread."""
    return replace(cluster_t(values, None, confidence=confidence), method="t")


@dataclass(frozen=True, slots=True)
class ClusterSpread:
    """The cluster-robust variance of a mean, its degrees of freedom, and the size at full dependence."""

    variance: float
    df: int
    least_n: float


def cluster_spread(values: Floats, clusters: Ints | None) -> ClusterSpread:
    """Variance of the mean of ``values`` when values of one cluster may move together."""
    n = len(values)
    # The mean of equal values may differ from them by a rounding error, which is not a spread.
    if np.ptp(values) > 0:
        residual: Any | np.ndarray[tuple[int], np.dtype[np.float64]] = values - values.mean()
    else:
        residual = np.zeros(n)
    if clusters is None:
        return ClusterSpread(float(residual @ residual) / (n * max(n - 1, 1)), n - 1, float(n))
    _, code, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    groups = len(sizes)
    sums = np.bincount(code, weights=residual, minlength=groups)
    # With one cluster nothing can be learnt about the spread between clusters.
    if groups > 1:
        variance = float(sums @ sums) * groups / (groups - 1) / n**2
    else:
        variance = 0.0
    return ClusterSpread(variance, groups - 1, n * n / float(sizes @ sizes))


def cluster_t(values: Floats, clusters: Ints | None, *, confidence: float = 0.95) -> Interval:
    """Cluster-robust interval with Student's t on (clusters - 1) degrees of freedom."""
    values = np.asarray(values, dtype=np.float64)
    if not len(values):
        return Interval(math.nan, None, None, method="cluster_t", n=0)
    spread = cluster_spread(values, clusters)
    mean = float(values.mean())
    if spread.df < 1 or spread.variance == 0.0:
        return Interval(mean, None, None, method="cluster_t", n=spread.df + 1)
    half = t_quantile(0.5 + confidence / 2, spread.df) * math.sqrt(spread.variance)
    return Interval(mean, mean - half, mean + half, method="cluster_t", n=spread.df + 1)


def cluster_wilson(
    values: Floats,
    clusters: Ints | None = None,
    *,
    binary: bool = False,
    answers: float | None = None,
    confidence: float = 0.95,
) -> Interval:
    """Interval for the mean of values in [0, 1]: Wilson's at the effective sample size, with a t quantile. The
    effective size is mean x (1 - mean) / variance of the mean: between the number of problems (repeated answers all
    alike) and the number of ``answers`` (all independent). ``binary`` says that the values are means of 0/1 rewards,
    for which a share of problems that are ever right can be counted on to be informative."""
    n = len(values)
    if n == 0:
        return Interval(math.nan, None, None, method="cluster_wilson", n=0)
    mean = min(1.0, max(0.0, float(values.mean())))
    spread = cluster_spread(values, clusters)
    if spread.df < 1:
        return wilson(mean * spread.least_n, spread.least_n, confidence=confidence)
    widest = mean * (1 - mean) / spread.least_n
    variance = spread.variance
    if binary:
        telling = min(int((values > 0).sum()), int((values < 1).sum())) ** _TELLING_POWER
        variance = (telling * variance + _SPREAD_PRIOR * widest) / (telling + _SPREAD_PRIOR)
    if variance > 0:
        size = widest * spread.least_n / variance
    else:
        size = spread.least_n
    size = max(size, spread.least_n)
    if binary and answers is not None:
        size = min(size, float(answers))
    # Bounded from both sides, the spread of 0/1 rewards is known about twice as well as a free one.
    quantile = t_quantile(0.5 + confidence / 2, spread.df * 2 if binary else spread.df)
    found = wilson_modified(mean * size, size, confidence=confidence, quantile=quantile)
    return Interval(mean, found.lower, found.upper, method="cluster_wilson", n=n)


def mean_interval(
    values: Floats,
    *,
    answers: float | None = None,
    binary: bool = False,
    clusters: Ints | None = None,
    confidence: float = 0.95,
) -> Interval:
    """The interval that fits per-problem values. One 0/1 answer per problem: Wilson. Anything else in [0, 1]: Wilson at
    the cluster-robust effective size. Values beyond [0, 1]: cluster-robust t, clipped to nothing because the range is
    not known."""
    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    if n == 0:
        return Interval(math.nan, None, None, method="none", n=0)
    if binary and clusters is None and (answers is None or answers == n) and is_binary(values):
        return wilson_modified(float(values.sum()), n, confidence=confidence)
    if values.min() >= 0.0 and values.max() <= 1.0:
        return cluster_wilson(
            values, clusters, binary=binary, answers=answers, confidence=confidence
        )
    return cluster_t(values, clusters, confidence=confidence)
