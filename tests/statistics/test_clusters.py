"""Intervals and decisions over clusters of problems, against matrix formulas and simulations."""

import numpy as np
import pytest
from scipy import stats

from nemo_evaluator.statistics import cluster_t, mean_difference, mean_interval
from nemo_evaluator.statistics.clusters import cluster_spread, codes_of_clusters, usable_clusters


def _bell_mccaffrey(
    values: np.ndarray, clusters: np.ndarray, covariance: np.ndarray
) -> tuple[float, float]:
    """CR2 variance and Satterthwaite's degrees of freedom of a mean, by the matrices of the paper."""
    n = len(values)
    design = np.ones((n, 1))
    bread = np.linalg.inv(design.T @ design)
    hat = design @ bread @ design.T
    residual_maker = np.eye(n) - hat
    residuals = residual_maker @ values
    variance = 0.0
    columns = []
    for cluster in np.unique(clusters):
        rows = np.flatnonzero(clusters == cluster)
        eigenvalues, vectors = np.linalg.eigh(np.eye(len(rows)) - hat[np.ix_(rows, rows)])
        adjustment = vectors @ np.diag(eigenvalues**-0.5) @ vectors.T
        direction = adjustment @ design[rows] @ bread
        variance += float((residuals[rows] @ direction)[0] ** 2)
        columns.append((residual_maker[:, rows] @ direction)[:, 0])
    stacked = np.stack(columns, axis=1)
    products = stacked.T @ covariance @ stacked
    return variance, float(np.trace(products) ** 2 / np.trace(products @ products))


@pytest.mark.parametrize("alike", [0.0, 1.5])
def test_unequal_clusters_follow_bell_and_mccaffrey(alike: float) -> None:
    rng = np.random.default_rng(3)
    sizes = np.array([1, 2, 3, 5, 8, 13, 21, 4])
    clusters = np.repeat(np.arange(8), sizes)
    values = alike * rng.normal(0, 1, 8)[clusters] + rng.normal(0, 1, len(clusters))
    spread = cluster_spread(values, clusters)
    same = (clusters[:, None] == clusters[None, :]).astype(float)
    n = len(values)
    centred = values - values.mean()
    means = np.bincount(clusters, weights=centred) / sizes
    between = float(sizes @ means**2) / 7
    within = float(((centred - means[clusters]) ** 2).sum()) / (n - 8)
    usual_size = (n - float(sizes @ sizes) / n) / 7
    likeness = max((between - within) / (between + (usual_size - 1) * within), 0.0)
    covariance = (1 - likeness) * np.eye(n) + likeness * same
    variance, df = _bell_mccaffrey(values, clusters, covariance)
    assert spread.variance == pytest.approx(variance, rel=1e-9)
    assert spread.df == pytest.approx(df, rel=1e-9)
    assert spread.df < 7
    interval = cluster_t(values, clusters)
    half_width = stats.t.ppf(0.975, df) * variance**0.5
    assert interval.lower == pytest.approx(values.mean() - half_width, rel=1e-9)


def _flips(rng: np.random.Generator, clusters: int, size: int, drop: float) -> np.ndarray:
    """Differences of which whole clusters flip at different rates, ``drop`` on average."""
    worse = rng.beta(0.05, 0.95, clusters).repeat(size)
    better = (0.05 - drop) / 0.95 * (1 - worse)
    draw = rng.random(clusters * size)
    return np.where(draw < worse, -1.0, np.where(draw > 1 - better, 1.0, 0.0))


@pytest.mark.parametrize("clusters", [20, 60])
def test_a_drop_on_the_limit_seldom_passes_with_few_clusters(clusters: int) -> None:
    rng = np.random.default_rng(clusters)
    codes = np.repeat(np.arange(clusters), 11)
    passed = 0
    for _ in range(400):
        difference = mean_difference(_flips(rng, clusters, 11, 0.03), bounded=True, clusters=codes)
        passed += difference.p_above(-0.03) <= 0.025
    # Nominal are 10 of 400; 20 are three standard errors above.
    assert passed <= 20


def test_clusters_without_any_difference_count_as_single_problems() -> None:
    codes = np.repeat(np.arange(20), 50)
    clustered = mean_difference(np.zeros(1000), bounded=True, clusters=codes).interval()
    alone = mean_difference(np.zeros(20), bounded=True).interval()
    independent = mean_difference(np.zeros(1000), bounded=True).interval()
    assert clustered.lower is not None and alone.lower is not None
    assert independent.lower is not None
    assert clustered.lower <= alone.lower < 10 * independent.lower < 0


def test_one_cluster_proves_nothing() -> None:
    difference = mean_difference(np.r_[-np.ones(9), 0.0], bounded=True, clusters=np.zeros(10, int))
    assert difference.interval().lower is None
    assert difference.p_below(-0.01) == 1.0


def test_clusters_of_one_problem_change_nothing() -> None:
    values = (np.random.default_rng(0).random(80) < 0.4).astype(float)
    codes = np.arange(80) + 7
    assert usable_clusters(codes) is None
    assert mean_interval(values, binary=True, clusters=codes) == mean_interval(values, binary=True)
    assert mean_difference(-values, clusters=codes) == mean_difference(-values)


def test_a_row_without_a_cluster_is_one_of_its_own() -> None:
    assert codes_of_clusters(np.zeros(3, int), np.arange(3)) is None
    codes = codes_of_clusters(np.array([5, 5, 0, 0]), np.array([0, 1, 2, 3]))
    assert codes is not None
    assert codes[0] == codes[1]
    assert len(set(codes.tolist())) == 3


def test_differences_that_cancel_within_each_cluster_count_as_single_problems() -> None:
    values = np.array([1.0, -1.0, *[0.0] * 38])
    codes = np.repeat(np.arange(20), 2)
    clustered = mean_difference(values, bounded=True, clusters=codes).interval()
    independent = mean_difference(values, bounded=True).interval()
    assert clustered.width is not None
    assert independent.width is not None
    assert clustered.width > 1.2 * independent.width
