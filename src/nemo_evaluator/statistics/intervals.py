"""Confidence intervals for a proportion or a mean.

``mean_interval`` picks the one that fits; the others are available by name. ``None`` bounds mean that the data hold no
information about the spread, which differs from an interval of width zero.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np

from nemo_evaluator.statistics._scipy import beta_quantile, gamma_quantile, t_quantile
from nemo_evaluator.statistics.groups import Floats, Ints, is_binary

# See ``shrunk_variance``; both numbers were chosen by simulation.
_PRIOR_WEIGHT: Final = 0.6
_INFORMATION_POWER: Final = 1.5
# With up to so many successes or failures ``wilson_modified`` uses the Poisson bound.
_NEAR_EDGE: Final = 3


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its bounds.

    Attributes:
        value: The estimate.
        lower: The lower bound; None when the data hold no information about the spread.
        upper: The upper bound; None likewise.
        method: The name of the method, recorded as ``ci_method``.
        n: Number of independent units.
    """

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


def shrunk_variance(observed: float, largest: float, informative: float) -> float:
    """Shrink an observed variance towards the largest possible one.

    With very few problems that are ever right (or wrong), the observed variance alone is a matter of chance.

    Args:
        observed: The observed variance.
        largest: The variance at full dependence (or without the judge).
        informative: Number of units that carry the observed variance.
    """
    weight: float = informative**_INFORMATION_POWER
    return (weight * observed + _PRIOR_WEIGHT * largest) / (weight + _PRIOR_WEIGHT)


def wilson(
    successes: float, n: float, *, confidence: float = 0.95, quantile: float | None = None
) -> Interval:
    """Wilson's score interval (1927).

    Args:
        successes: Number of successes; may be fractional.
        n: Number of trials; may be an effective sample size.
        confidence: Confidence level.
        quantile: The quantile z, such as one of Student's t; None for the normal one.
    """
    if n <= 0:
        return Interval(math.nan, None, None, method="wilson", n=0)
    z = z_quantile(confidence) if quantile is None else quantile
    p = successes / n
    denominator = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / denominator
    variance = max(p * (1 - p), 0.0) / n + z * z / (4 * n * n)
    half = z / denominator * math.sqrt(variance)
    lower = 0.0 if p <= 0 else max(0.0, centre - half)
    upper = 1.0 if p >= 1 else min(1.0, centre + half)
    return Interval(p, lower, upper, method="wilson", n=round(n))


def wilson_modified(
    successes: float, n: float, *, confidence: float = 0.95, quantile: float | None = None
) -> Interval:
    """Wilson's interval with Poisson bounds where its coverage is known to be too low (Brown, Cai, DasGupta 2001,
    §4.1.1).

    It differs from ``wilson`` only with one to three successes or failures. The paper stops at two up to n = 50, which
    leaves dips in coverage at n = 20 and n = 50. The arguments are those of ``wilson``.
    """
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
    if lower == plain.lower and upper == plain.upper:
        return plain
    return Interval(plain.value, lower, upper, method="wilson_modified", n=plain.n)


def _poisson_lower(count: float, alpha: float) -> float:
    """The Poisson rate at which ``count`` or more events have probability ``alpha``.

    For whole counts it is found by bisection, so that single 0/1 answers need no scipy.
    """
    if count != int(count):
        return gamma_quantile(alpha, count)
    low = 0.0
    high = float(count)
    for _ in range(60):
        rate = (low + high) / 2
        series = sum(rate**i / math.factorial(i) for i in range(int(count)))
        tail = 1 - math.exp(-rate) * series
        if tail < alpha:
            low = rate
        else:
            high = rate
    return (low + high) / 2


def clopper_pearson(successes: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Clopper and Pearson's exact interval (1934): its coverage is at least the confidence level, usually more."""
    if n <= 0:
        return Interval(math.nan, None, None, method="clopper_pearson", n=0)
    failures = n - successes
    tail = (1 - confidence) / 2
    lower = 0.0 if successes == 0 else beta_quantile(tail, successes, failures + 1)
    upper = 1.0 if failures == 0 else beta_quantile(1 - tail, successes + 1, failures)
    return Interval(successes / n, lower, upper, method="clopper_pearson", n=n)


def beta_binomial(
    successes: int, n: int, *, confidence: float = 0.95, a: float = 0.5, b: float = 0.5
) -> Interval:
    """Equal-tailed credible interval of a proportion under a Beta(a, b) prior (Jeffreys' by default).

    The value is the posterior mean.
    """
    tail = (1 - confidence) / 2
    posterior_a = a + successes
    posterior_b = b + n - successes
    lower = beta_quantile(tail, posterior_a, posterior_b)
    upper = beta_quantile(1 - tail, posterior_a, posterior_b)
    posterior_mean = posterior_a / (a + b + n)
    return Interval(posterior_mean, lower, upper, method="beta_binomial", n=n)


def t_interval(values: Floats, *, confidence: float = 0.95) -> Interval:
    """Student's interval for the mean of independent values; without bounds when the values show no spread."""
    interval = cluster_t(values, None, confidence=confidence)
    return replace(interval, method="t")


@dataclass(frozen=True, slots=True)
class ClusterSpread:
    """The cluster-robust variance of a mean.

    Attributes:
        variance: The variance of the mean.
        df: Its degrees of freedom: clusters - 1.
        least_n: The effective sample size if values within a cluster were all alike: n² / Σ size².
    """

    variance: float
    df: int
    least_n: float


def cluster_spread(values: Floats, clusters: Ints | None) -> ClusterSpread:
    """Variance of the mean of ``values`` when values of one cluster may be correlated (Liang and Zeger 1986).

    Args:
        values: The values.
        clusters: The cluster of each value; None when all values are independent.
    """
    n = len(values)
    # The mean of equal values may differ from them by a rounding error, which is not a spread.
    residual: Floats = values - values.mean() if np.ptp(values) > 0 else np.zeros(n)
    if clusters is None:
        variance = float(residual @ residual) / (n * max(n - 1, 1))
        return ClusterSpread(variance, n - 1, float(n))
    _, cluster_of_value, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    groups = len(sizes)
    cluster_sums = np.bincount(cluster_of_value, weights=residual, minlength=groups)
    # One cluster holds no information about the variance between clusters.
    if groups > 1:
        variance = float(cluster_sums @ cluster_sums) * groups / (groups - 1) / n**2
    else:
        variance = 0.0
    least_n = n * n / float(sizes @ sizes)
    return ClusterSpread(variance, groups - 1, least_n)


def cluster_t(values: Floats, clusters: Ints | None, *, confidence: float = 0.95) -> Interval:
    """Cluster-robust interval with Student's t on (clusters - 1) degrees of freedom.

    Args:
        values: The values.
        clusters: The cluster of each value; None when all values are independent.
        confidence: Confidence level.

    Returns:
        The interval; without bounds when the values show no spread.
    """
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
    """Interval for the mean of values in [0, 1]: Wilson's at the effective sample size, with a t quantile.

    The effective size is mean (1 - mean) / variance of the mean. It lies between the number of problems (repeated
    answers all alike) and the number of answers (all independent).

    Args:
        values: The mean reward of each problem.
        clusters: The cluster of each problem; None when problems are independent.
        binary: Whether the values are means of 0/1 rewards; then problems that are neither always right nor always
            wrong carry the variance, and few of them make it uncertain.
        answers: Number of answers.
        confidence: Confidence level.
    """
    n = len(values)
    if n == 0:
        return Interval(math.nan, None, None, method="cluster_wilson", n=0)
    mean = min(1.0, max(0.0, float(values.mean())))
    spread = cluster_spread(values, clusters)
    if spread.df < 1:
        return wilson(mean * spread.least_n, spread.least_n, confidence=confidence)
    largest_variance = mean * (1 - mean) / spread.least_n
    variance = spread.variance
    df = spread.df
    if binary:
        ever_right = int((values > 0).sum())
        ever_wrong = int((values < 1).sum())
        variance = shrunk_variance(variance, largest_variance, min(ever_right, ever_wrong))
        # Bounded from both sides, the variance of 0/1 rewards is known about twice as well as a free one.
        df = spread.df * 2
    size = spread.least_n
    if variance > 0:
        size = max(largest_variance * spread.least_n / variance, spread.least_n)
    if binary and answers is not None:
        size = min(size, float(answers))
    quantile = t_quantile(0.5 + confidence / 2, df)
    wilson_bounds = wilson_modified(mean * size, size, confidence=confidence, quantile=quantile)
    return Interval(mean, wilson_bounds.lower, wilson_bounds.upper, method="cluster_wilson", n=n)


def mean_interval(
    values: Floats,
    *,
    answers: float | None = None,
    binary: bool = False,
    clusters: Ints | None = None,
    confidence: float = 0.95,
) -> Interval:
    """The interval that fits per-problem values.

    - One 0/1 answer per problem: Wilson, modified near 0 and 1.
    - Anything else in [0, 1]: Wilson at the cluster-robust effective size.
    - Values beyond [0, 1]: cluster-robust t, not clipped because the range is unknown.

    The arguments are those of ``cluster_wilson``.
    """
    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    if n == 0:
        return Interval(math.nan, None, None, method="none", n=0)
    one_answer_each = answers is None or answers == n
    if binary and clusters is None and one_answer_each and is_binary(values):
        return wilson_modified(float(values.sum()), n, confidence=confidence)
    if values.min() >= 0.0 and values.max() <= 1.0:
        return cluster_wilson(
            values, clusters, binary=binary, answers=answers, confidence=confidence
        )
    return cluster_t(values, clusters, confidence=confidence)
