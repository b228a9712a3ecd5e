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
from nemo_evaluator.statistics.clusters import ClusterSpread, cluster_spread, usable_clusters
from nemo_evaluator.statistics.groups import Floats, Ints, is_binary

# See ``shrunk_variance``; both numbers were chosen by simulation.
_PRIOR_WEIGHT: Final = 0.6
_INFORMATION_POWER: Final = 1.5
# With up to so many successes or failures ``wilson_modified`` uses the Poisson bound.
_NEAR_EDGE: Final = 3
_BISECTION_STEPS: Final = 60


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its bounds.

    Attributes:
        value: The estimate.
        lower: The lower bound; None when the data hold no information about the spread.
        upper: The upper bound; None likewise.
        method: The name of the method, recorded as ``ci_method``.
        n: Number of problems.
    """

    value: float
    lower: float | None
    upper: float | None
    method: str
    n: int

    @classmethod
    def without_bounds(cls, value: float = math.nan, *, method: str, n: int = 0) -> "Interval":
        """An estimate whose data hold no information about the spread.

        Args:
            value: The estimate; NaN when there is none.
            method: The name of the method.
            n: Number of independent units.
        """
        return cls(value, lower=None, upper=None, method=method, n=n)

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

    With very few problems that are ever right (or wrong), the observed variance alone is a matter of chance. The result
    is the weighted mean of both variances; the weight of the observed one grows with the number of units behind it.

    Args:
        observed: The observed variance.
        largest: The variance at full dependence (or without the judge).
        informative: Number of units that carry the observed variance.
    """
    weight: float = informative**_INFORMATION_POWER
    weighted_sum = weight * observed + _PRIOR_WEIGHT * largest
    total_weight = weight + _PRIOR_WEIGHT
    return weighted_sum / total_weight


def wilson(
    successes: float, n: float, *, confidence: float = 0.95, quantile: float | None = None
) -> Interval:
    """Wilson's score interval (1927).

    With the share p and the quantile z, the bounds are
    (p + z²/2n ± z sqrt(p (1 - p) / n + z²/4n²)) / (1 + z²/n).

    Args:
        successes: Number of successes; may be fractional.
        n: Number of trials; may be an effective sample size.
        confidence: Confidence level.
        quantile: The quantile z, such as one of Student's t; None for the normal one.

    Returns:
        The interval within [0, 1]; without bounds when there were no trials.
    """
    if n <= 0:
        return Interval.without_bounds(method="wilson")
    z = z_quantile(confidence) if quantile is None else quantile
    share = successes / n
    denominator = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / denominator
    binomial_variance = max(share * (1 - share), 0.0) / n
    score_variance = binomial_variance + z * z / (4 * n * n)
    half_width = z / denominator * math.sqrt(score_variance)
    # A share of 0 or 1 is itself a bound; computed, the bound could differ from it by a rounding error.
    lower = max(0.0, centre - half_width)
    upper = min(1.0, centre + half_width)
    if share <= 0:
        lower = 0.0
    if share >= 1:
        upper = 1.0
    return Interval(share, lower, upper, method="wilson", n=round(n))


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
    failures = n - successes
    lower = plain.lower
    upper = plain.upper
    if 0 < successes <= _NEAR_EDGE:
        least_success_share = _poisson_lower(successes, alpha) / n
        lower = min(lower, least_success_share)
    if 0 < failures <= _NEAR_EDGE:
        least_failure_share = _poisson_lower(failures, alpha) / n
        upper = max(upper, 1 - least_failure_share)
    is_changed = lower != plain.lower or upper != plain.upper
    if not is_changed:
        return plain
    return Interval(plain.value, lower, upper, method="wilson_modified", n=plain.n)


def _poisson_lower(count: float, alpha: float) -> float:
    """The Poisson rate at which ``count`` or more events have probability ``alpha``.

    For whole counts it is found by bisection, so that single 0/1 answers need no scipy.
    """
    whole_count = int(count)
    if count != whole_count:
        return gamma_quantile(alpha, count)
    low = 0.0
    high = float(count)
    for _ in range(_BISECTION_STEPS):
        rate = (low + high) / 2
        if _poisson_tail(whole_count, rate) < alpha:
            low = rate
        else:
            high = rate
    return (low + high) / 2


def _poisson_tail(count: int, rate: float) -> float:
    """The probability of ``count`` or more events: 1 - exp(-rate) Σ rate^i / i! over all i below ``count``."""
    series = sum(rate**i / math.factorial(i) for i in range(count))
    return 1 - math.exp(-rate) * series


def clopper_pearson(successes: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Clopper and Pearson's exact interval (1934): its coverage is at least the confidence level, usually more.

    Args:
        successes: Number of successes.
        n: Number of trials.
        confidence: Confidence level.

    Returns:
        The interval; without bounds when there were no trials.
    """
    if n <= 0:
        return Interval.without_bounds(method="clopper_pearson")
    failures = n - successes
    tail = (1 - confidence) / 2
    lower = 0.0
    upper = 1.0
    if successes:
        lower = beta_quantile(tail, successes, failures + 1)
    if failures:
        upper = beta_quantile(1 - tail, successes + 1, failures)
    return Interval(successes / n, lower, upper, method="clopper_pearson", n=n)


def beta_binomial(
    successes: int, n: int, *, confidence: float = 0.95, a: float = 0.5, b: float = 0.5
) -> Interval:
    """Equal-tailed credible interval of a proportion under a Beta(a, b) prior (Jeffreys' by default).

    Args:
        successes: Number of successes.
        n: Number of trials.
        confidence: Probability of the interval.
        a: First parameter of the prior.
        b: Second parameter of the prior.

    Returns:
        The interval; its value is the posterior mean.
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


def cluster_t(values: Floats, clusters: Ints | None, *, confidence: float = 0.95) -> Interval:
    """Cluster-robust interval (CR2) with Student's t on Satterthwaite's degrees of freedom.

    Args:
        values: The values.
        clusters: The cluster of each value; None when all values are independent.
        confidence: Confidence level.

    Returns:
        The interval; without bounds when the values show no spread.
    """
    values = np.asarray(values, dtype=np.float64)
    if not len(values):
        return Interval.without_bounds(method="cluster_t")
    mean = float(values.mean())
    spread = cluster_spread(values, clusters)
    if spread.units < 2 or spread.variance == 0.0:
        return Interval.without_bounds(mean, method="cluster_t", n=len(values))
    standard_error = math.sqrt(spread.variance)
    half_width = t_quantile(0.5 + confidence / 2, spread.df) * standard_error
    return Interval(
        value=mean,
        lower=mean - half_width,
        upper=mean + half_width,
        method="cluster_t",
        n=len(values),
    )


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
        answers: Number of answers; None when it is unknown.
        confidence: Confidence level.

    Returns:
        The interval; without bounds when there are no values. Wilson's, at the least effective size, when there is only
        one cluster.
    """
    n = len(values)
    if n == 0:
        return Interval.without_bounds(method="cluster_wilson")
    mean = min(1.0, max(0.0, float(values.mean())))
    spread = cluster_spread(values, clusters)
    if spread.units < 2:
        return wilson(mean * spread.least_n, spread.least_n, confidence=confidence)
    variance = spread.variance
    degrees_of_freedom = spread.df
    if binary:
        variance = _binary_variance(values, mean, spread)
        # Bounded from both sides, the variance of 0/1 rewards is known about twice as well as a free one.
        degrees_of_freedom = 2 * spread.df
    size = effective_size(mean, variance, spread.least_n)
    if binary and answers is not None:
        size = min(size, float(answers))
    quantile = t_quantile(0.5 + confidence / 2, degrees_of_freedom)
    bounds = wilson_modified(mean * size, size, confidence=confidence, quantile=quantile)
    return replace(bounds, value=mean, method="cluster_wilson", n=n)


def _binary_variance(values: Floats, mean: float, spread: ClusterSpread) -> float:
    """The variance of the mean of 0/1 rewards, shrunk when few problems are neither always right nor always wrong."""
    ever_right = int((values > 0).sum())
    ever_wrong = int((values < 1).sum())
    largest_variance = mean * (1 - mean) / spread.least_n
    informative = min(ever_right, ever_wrong)
    return shrunk_variance(spread.variance, largest_variance, informative)


def effective_size(mean: float, variance: float, least_size: float) -> float:
    """The number of independent 0/1 answers whose mean would have the same variance, at least ``least_size``.

    Args:
        mean: The mean, from 0 to 1.
        variance: The variance of the mean.
        least_size: The smallest possible result; also that for a variance of 0, which says nothing.
    """
    if variance > 0:
        largest_variance = mean * (1 - mean) / least_size
        return max(largest_variance * least_size / variance, least_size)
    return least_size


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

    Returns:
        The interval; without bounds when the data hold no information about the spread.
    """
    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    if n == 0:
        return Interval.without_bounds(method="none")
    single_answers = answers is None or answers == n
    clusters = usable_clusters(clusters)
    independent = clusters is None
    if binary and independent and single_answers and is_binary(values):
        successes = float(values.sum())
        return wilson_modified(successes, n, confidence=confidence)
    within_unit_range = values.min() >= 0.0 and values.max() <= 1.0
    if not within_unit_range:
        return cluster_t(values, clusters, confidence=confidence)
    return cluster_wilson(
        values,
        clusters,
        binary=binary,
        answers=answers,
        confidence=confidence,
    )
