"""The paired difference of two means: an interval and one-sided tests that keep their level with few changes."""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from nemo_evaluator.statistics._scipy import normal_cdf, t_cdf, t_quantile
from nemo_evaluator.statistics.clusters import (
    ClusterSpread,
    cluster_spread,
    cluster_sums,
    usable_clusters,
)
from nemo_evaluator.statistics.evidence import Centred, Flips, Span
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.intervals import Interval, z_quantile

# How many clusters the assumption counts for that clusters are alike throughout; chosen by simulation.
_PRIOR_CLUSTERS: Final = 5.0
# Smaller sums per problem are rounding errors.
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference and the evidence about it.

    Attributes:
        value: The mean difference, in score units.
        evidence: The test statistic, in units of ``scale``; None when nothing is known about the spread.
        df: Degrees of freedom of Student's t; None for the normal distribution.
        method: The name of the method in reports.
        n: Number of problems.
        scale: The largest possible difference.
    """

    value: float
    evidence: Centred | Span | Flips | None
    df: float | None
    method: str
    n: int
    scale: float

    def interval(self, confidence: float = 0.95) -> Interval:
        """The two-sided interval; it contains the value and stays within [-scale, scale]."""
        if self.evidence is None:
            return Interval.without_bounds(self.value, method=self.method, n=self.n)
        unit_lower, unit_upper = self.evidence.bounds(self._quantile(confidence))
        lower = min(self.scale * unit_lower, self.value)
        upper = max(self.scale * unit_upper, self.value)
        return Interval(
            value=self.value,
            lower=max(lower, -self.scale),
            upper=min(upper, self.scale),
            method=self.method,
            n=self.n,
        )

    def _quantile(self, confidence: float) -> float:
        """The two-sided quantile of the statistic's distribution."""
        if self.df is None:
            return z_quantile(confidence)
        return t_quantile(0.5 + confidence / 2, self.df)

    def p_above(self, bound: float) -> float:
        """One-sided p-value of "the true difference is not above ``bound``"."""
        if self.evidence is None:
            return 1.0
        statistic = self.evidence.at(bound / self.scale)
        return self._cdf(-statistic)

    def p_below(self, bound: float) -> float:
        """One-sided p-value of "the true difference is not below ``bound``"."""
        if self.evidence is None:
            return 1.0
        statistic = self.evidence.at(bound / self.scale)
        return self._cdf(statistic)

    def _cdf(self, statistic: float) -> float:
        """The probability of a smaller statistic."""
        if self.df is None:
            return float(normal_cdf(statistic))
        return t_cdf(statistic, self.df)


def mean_difference(
    differences: Floats, *, bounded: bool = False, scale: float = 1.0, clusters: Ints | None = None
) -> Difference:
    """The mean of per-problem differences and the evidence about it.

    Ten equal differences do not prove that the eleventh is equal too: without any spread, differences count as whole
    flips.

    Args:
        differences: Candidate minus baseline, one per problem, between -``scale`` and ``scale``.
        bounded: Whether ``scale`` is a true limit, as for rewards in [0, 1]. A loss that has not been observed yet then
            has a known largest size, which ``Flips`` allows for. Otherwise Student's t is used.
        scale: The largest possible difference.
        clusters: Problems that belong together; None when they are independent.

    Returns:
        The difference; without evidence when there are no problems.
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) == 0:
        return Difference(math.nan, evidence=None, df=None, method="none", n=0, scale=scale)
    codes = usable_clusters(clusters)
    if codes is not None:
        return _clustered_difference(values, codes, bounded=bounded, scale=scale)
    if np.ptp(values) == 0.0:
        return _equal_difference(values, scale)
    if bounded:
        return _flip_difference(values, scale)
    return _t_difference(values, scale)


def _clustered_difference(
    values: Floats, clusters: Ints, *, bounded: bool, scale: float
) -> Difference:
    """The difference of problems that are alike within clusters.

    Bounded rewards count as flips at the effective number of problems, with the quantile of Student's t; other rewards
    use Student's t alone. A single cluster is no evidence.
    """
    independent = mean_difference(values, bounded=bounded, scale=scale)
    spread = cluster_spread(values / scale, clusters)
    if spread.units < 2:
        return replace(independent, evidence=None, method="cluster_flips")
    flips = independent.evidence
    if not isinstance(flips, Flips):
        standard_error = math.sqrt(spread.variance)
        return replace(
            independent,
            evidence=Centred(independent.value / scale, standard_error),
            df=spread.df,
            method="paired_cluster_t",
        )
    n = len(values)
    size = _effective_problems(values / scale, clusters, spread)
    shrunk_flips = replace(
        flips, worse=flips.worse * size / n, better=flips.better * size / n, n=size
    )
    return replace(
        independent,
        evidence=shrunk_flips,
        df=spread.df,
        method="cluster_flips",
    )


def _effective_problems(differences: Floats, clusters: Ints, spread: ClusterSpread) -> float:
    """The number of independent problems that would give the mean of the differences the same variance.

    It lies between the number for clusters that are alike throughout and the number of problems. Where few clusters
    carry the variance, it is closer to the former: the cluster that would lose most may not have been observed.
    """
    n = len(differences)
    variance = float(differences.var())
    if variance == 0.0:
        return spread.least_n
    sums = cluster_sums(differences, clusters)
    largest_sum = float(np.abs(sums).max())
    if largest_sum <= _ROUNDING * n:
        # The differences cancel within every cluster, which says nothing about other clusters.
        return spread.least_n
    squares = (sums / largest_sum) ** 2
    carrying_clusters = float(squares.sum()) ** 2 / float(squares @ squares)
    weighted_variance = carrying_clusters * spread.variance
    weighted_variance += _PRIOR_CLUSTERS * variance / spread.least_n
    cautious_variance = weighted_variance / (carrying_clusters + _PRIOR_CLUSTERS)
    size = variance / cautious_variance
    return min(max(size, spread.least_n), n)


def _equal_difference(values: Floats, scale: float) -> Difference:
    """The difference of problems that all differ by the same amount: it counts as whole flips."""
    n = len(values)
    mean = float(values.mean())
    gain = n * mean / scale
    flips = Flips(worse=max(-gain, 0.0), better=max(gain, 0.0), n=n)
    return Difference(mean, evidence=flips, df=None, method="flips", n=n, scale=scale)


def _t_difference(values: Floats, scale: float) -> Difference:
    """The difference of rewards without a known limit, by Student's t."""
    n = len(values)
    mean = float(values.mean())
    standard_deviation = float(values.std(ddof=1))
    standard_error = standard_deviation / math.sqrt(n) / scale
    evidence = Centred(mean / scale, standard_error)
    return Difference(mean, evidence=evidence, df=n - 1, method="paired_t", n=n, scale=scale)


def _flip_difference(values: Floats, scale: float) -> Difference:
    """The difference of bounded rewards, as flips of one size that have the same mean and variance.

    With the differences d from -1 to 1, the usual size of a flip is Σ d² / Σ |d|; worsenings and improvements are the
    sums of the negative and of the positive differences, in units of it.
    """
    n = len(values)
    unit_differences = values / scale
    sizes = np.abs(unit_differences)
    total_size = float(sizes.sum())
    sum_of_squares = float((unit_differences * unit_differences).sum())
    flip_size = sum_of_squares / total_size
    gain = float(unit_differences.sum())
    worse = (total_size - gain) / 2 / flip_size
    better = (total_size + gain) / 2 / flip_size
    single_answers = bool(((sizes == 0.0) | (sizes == 1.0)).all())
    least_variance: float | None = None
    degrees_of_freedom: int | None = None
    if not single_answers:
        # The observed variance of mean rewards counts too. Both ends of its range are known, so it is known about
        # twice as well as a free one.
        least_variance = float(unit_differences.var())
        degrees_of_freedom = 2 * (n - 1)
    return Difference(
        value=float(values.mean()),
        evidence=Flips(worse, better, n, size=flip_size, least=least_variance),
        df=degrees_of_freedom,
        method="flips",
        n=n,
        scale=scale,
    )


def unpaired_difference(
    baseline: Floats, candidate: Floats, *, confidence: float = 0.95
) -> Interval:
    """Welch's interval (1947) of candidate minus baseline, for problems that do not pair.

    The degrees of freedom are Welch and Satterthwaite's: (v1 + v2)² / (v1² / (n1 - 1) + v2² / (n2 - 1)), with the
    squared standard errors v1 and v2 of the two means.

    Args:
        baseline: The mean rewards of the baseline's problems.
        candidate: Those of the candidate's problems.
        confidence: Confidence level.

    Returns:
        The interval; without bounds when neither side has any spread, without a value below two problems on a side.
    """
    baseline = np.asarray(baseline, dtype=np.float64)
    candidate = np.asarray(candidate, dtype=np.float64)
    baseline_size = len(baseline)
    candidate_size = len(candidate)
    if baseline_size < 2 or candidate_size < 2:
        return Interval.without_bounds(method="welch")
    problems = baseline_size + candidate_size
    difference = float(candidate.mean() - baseline.mean())
    baseline_variance = float(baseline.var(ddof=1)) / baseline_size
    candidate_variance = float(candidate.var(ddof=1)) / candidate_size
    variance = baseline_variance + candidate_variance
    if variance == 0.0:
        return Interval.without_bounds(difference, method="welch", n=problems)
    baseline_term = baseline_variance**2 / (baseline_size - 1)
    candidate_term = candidate_variance**2 / (candidate_size - 1)
    degrees_of_freedom = variance**2 / (baseline_term + candidate_term)
    standard_error = math.sqrt(variance)
    half_width = t_quantile(0.5 + confidence / 2, degrees_of_freedom) * standard_error
    return Interval(
        value=difference,
        lower=difference - half_width,
        upper=difference + half_width,
        method="welch",
        n=problems,
    )
