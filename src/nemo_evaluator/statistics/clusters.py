"""The variance of a mean over clusters of problems that belong together, such as the questions on one passage.

Bell and McCaffrey (2002): each cluster's residuals are scaled up by the share that the cluster has in the mean (CR2),
and Student's t gets Satterthwaite's degrees of freedom. Few clusters, or some large ones among small ones, then give
wider intervals.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nemo_evaluator.statistics.groups import Floats, Ints

# Comparisons and gates do not decide on fewer clusters; the reason is the table in docs/statistics.md.
LEAST_CLUSTERS: Final = 20


@dataclass(frozen=True, slots=True)
class ClusterSpread:
    """The cluster-robust variance of a mean.

    Attributes:
        variance: The variance of the mean.
        df: Its degrees of freedom; less than 1 when there are fewer than two clusters.
        least_n: The effective sample size if values within a cluster were all alike: n² / Σ size².
        units: Number of clusters, or of values when they are independent.
    """

    variance: float
    df: float
    least_n: float
    units: int


def usable_clusters(clusters: Ints | None) -> NDArray[np.int64] | None:
    """The clusters as numbers from 0; None when every value has a cluster of its own."""
    if clusters is None:
        return None
    codes = np.unique(clusters, return_inverse=True)[1]
    if len(codes) and int(codes.max()) + 1 == len(codes):
        return None
    return codes.astype(np.int64)


def cluster_spread(values: Floats, clusters: Ints | None) -> ClusterSpread:
    """Variance of the mean of ``values`` when values of one cluster may be correlated (CR2).

    With the share w of each cluster in the n values and the sum s of its residuals, the variance is
    Σ s² / (1 - w) / n².

    Args:
        values: The values.
        clusters: The cluster of each value; None when all values are independent.
    """
    n = len(values)
    residuals = _residuals(values)
    if clusters is None:
        sum_of_squares = float(residuals @ residuals)
        variance_of_mean = sum_of_squares / (n * max(n - 1, 1))
        return ClusterSpread(variance_of_mean, df=n - 1, least_n=float(n), units=n)
    _, cluster_of_value, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    groups = len(sizes)
    least_n = n * n / float(sizes @ sizes)
    # One cluster holds no information about the variance between clusters.
    if groups < 2:
        return ClusterSpread(variance=0.0, df=0.0, least_n=least_n, units=groups)
    shares = sizes / n
    sums = cluster_sums(residuals, cluster_of_value)
    variance_of_mean = float((sums**2 / (1 - shares)).sum()) / n**2
    likeness = _likeness(residuals, sums, sizes)
    degrees_of_freedom = _satterthwaite(shares, n, likeness)
    return ClusterSpread(variance_of_mean, df=degrees_of_freedom, least_n=least_n, units=groups)


def cluster_sums(residuals: Floats, clusters: Ints) -> Floats:
    """The sum over each cluster of the values' distances from their mean.

    Args:
        residuals: The values, or these distances.
        clusters: The cluster of each value, as numbers from 0.
    """
    sums = np.bincount(clusters, weights=residuals - residuals.mean())
    return np.asarray(sums, dtype=np.float64)


def codes_of_clusters(cluster: Ints, problem: Ints) -> NDArray[np.int64] | None:
    """The cluster of each row as numbers from 0; None when no row names one.

    Args:
        cluster: The cluster of each row, 0 where it names none; its problem is then a cluster of its own.
        problem: The problem of each row.
    """
    cluster = np.asarray(cluster)
    is_named = cluster != 0
    if not is_named.any():
        return None
    named_codes = np.unique(cluster, return_inverse=True)[1]
    problem_codes = np.unique(problem, return_inverse=True)[1]
    return np.where(is_named, named_codes, len(cluster) + problem_codes).astype(np.int64)


def clusters_like(codes: Ints | None, count: int) -> Ints | None:
    """Clusters of the same sizes for another number of problems.

    Args:
        codes: The cluster of each problem, as numbers from 0; None when problems are independent.
        count: The number of problems.
    """
    if codes is None or not len(codes):
        return None
    round_of_problem = np.arange(count) // len(codes)
    clusters_per_round = int(codes.max()) + 1
    return np.resize(codes, count) + round_of_problem * clusters_per_round


def design_effect(values: Floats, clusters: Ints | None) -> float:
    """How many problems in clusters are worth one independent problem, at least 1.

    Args:
        values: One value per problem.
        clusters: The cluster of each value; None when all values are independent.
    """
    codes = usable_clusters(clusters)
    if codes is None or len(values) < 2:
        return 1.0
    independent = cluster_spread(values, None)
    spread = cluster_spread(values, codes)
    largest = len(values) / spread.least_n
    if independent.variance == 0.0:
        return largest
    return min(max(spread.variance / independent.variance, 1.0), largest)


def _residuals(values: Floats) -> Floats:
    """The values minus their mean; exactly 0 for equal values, whose mean may differ from them by a rounding error."""
    has_spread = np.ptp(values) > 0
    if not has_spread:
        return np.zeros(len(values))
    residuals: Floats = values - values.mean()
    return residuals


def _likeness(residuals: Floats, cluster_sums: Floats, sizes: Ints) -> float:
    """The intraclass correlation by analysis of variance, from 0 to 1."""
    n = len(residuals)
    groups = len(sizes)
    between = float((cluster_sums**2 / sizes).sum())
    within = max(float(residuals @ residuals) - between, 0.0)
    if groups == n:
        return 0.0
    mean_square_between = between / (groups - 1)
    mean_square_within = within / (n - groups)
    usual_size = (n - float(sizes @ sizes) / n) / (groups - 1)
    total = mean_square_between + (usual_size - 1) * mean_square_within
    if total <= 0:
        return 0.0
    likeness = (mean_square_between - mean_square_within) / total
    return min(max(likeness, 0.0), 1.0)


def _satterthwaite(shares: Floats, n: int, likeness: float) -> float:
    """Degrees of freedom of the CR2 variance of a mean: (tr B)² / tr B².

    B is the covariance of the clusters' scaled residual sums when values of one cluster correlate by r (``likeness``)
    and others do not. With the shares w, a = w² / (1 - w) and c = Σ w²:
    B_gg = (1 - r) w / n + r a (1 - 2w + c), and elsewhere B_gh = √(a_g a_h) (k - r w_g - r w_h), where
    k = r c - (1 - r) / n. The sums over all pairs are expanded, so the cost grows with the clusters and not with
    their square.
    """
    r = likeness
    c = float(shares @ shares)
    a = shares**2 / (1 - shares)
    k = r * c - (1 - r) / n
    diagonal = (1 - r) * shares / n + r * a * (1 - 2 * shares + c)
    a0 = float(a.sum())
    a1 = float(a @ shares)
    a2 = float(a @ shares**2)
    all_pairs = k**2 * a0**2 + 2 * r**2 * (a0 * a2 + a1**2) - 4 * k * r * a0 * a1
    own_pairs = float((a**2 * (k - 2 * r * shares) ** 2).sum())
    trace = float(diagonal.sum())
    trace_of_square = float(diagonal @ diagonal) + all_pairs - own_pairs
    return trace**2 / trace_of_square
