"""Each interval against scipy, statsmodels or a published example."""

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from nemo_evaluator.statistics import (
    bca_interval,
    beta_binomial,
    bootstrap_ci,
    clopper_pearson,
    cluster_t,
    cluster_wilson,
    mean_interval,
    studentised_interval,
    t_interval,
    wilson,
    wilson_modified,
)
from nemo_evaluator.statistics.bootstrap import bca_bounds

CASES = [(0, 1), (1, 1), (0, 10), (1, 10), (5, 10), (10, 10), (3, 200), (197, 200), (812, 1319)]


def bounds(interval: object) -> tuple[float, float]:
    return interval.lower, interval.upper  # type: ignore[attr-defined]


@pytest.mark.parametrize(("k", "n"), CASES)
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_proportions_agree_with_scipy(k: int, n: int, confidence: float) -> None:
    test = stats.binomtest(k, n)
    assert bounds(wilson(k, n, confidence=confidence)) == pytest.approx(
        tuple(test.proportion_ci(confidence, method="wilson")), abs=1e-9
    )
    assert bounds(clopper_pearson(k, n, confidence=confidence)) == pytest.approx(
        tuple(test.proportion_ci(confidence, method="exact")), abs=1e-9
    )


def test_modified_wilson_has_the_published_ends() -> None:
    """Brown, Cai, DasGupta (2001): the lower end at x = 1 is -log(1 - alpha) / n, mirrored at x = n - 1."""
    assert wilson_modified(1, 40).lower == pytest.approx(-np.log(0.95) / 40, abs=1e-9)
    assert wilson_modified(39, 40).upper == pytest.approx(1 + np.log(0.95) / 40, abs=1e-9)
    assert wilson_modified(3, 100).lower == pytest.approx(stats.chi2.ppf(0.05, 6) / 200, abs=1e-9)
    assert wilson_modified(20, 40) == wilson(20, 40)
    assert wilson_modified(4, 40) == wilson(4, 40)
    assert wilson_modified(40, 40) == wilson(40, 40)


@pytest.mark.parametrize(("k", "n"), CASES)
def test_beta_binomial_agrees_with_scipy(k: int, n: int) -> None:
    found = beta_binomial(k, n, a=1, b=1)
    assert bounds(found) == pytest.approx(stats.beta(1 + k, 1 + n - k).interval(0.95), abs=1e-9)
    assert found.value == pytest.approx((k + 1) / (n + 2))


def test_t_agrees_with_scipy() -> None:
    values = np.random.default_rng(0).normal(3, 2, 17)
    expected = stats.t.interval(0.95, 16, values.mean(), stats.sem(values))
    assert bounds(t_interval(values)) == pytest.approx(expected, abs=1e-9)
    assert t_interval(np.full(9, 0.1)).lower is None
    assert t_interval(np.array([1.0])).lower is None


def test_cluster_t_agrees_with_statsmodels() -> None:
    rng = np.random.default_rng(1)
    # With clusters of equal size, CR2 is the usual correction for few clusters.
    clusters = np.arange(204) % 12
    values = rng.normal(0, 1, 12)[clusters] + rng.normal(0, 1, 204)
    fit = sm.OLS(values, np.ones(204)).fit(
        cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True
    )
    assert bounds(cluster_t(values, clusters)) == pytest.approx(tuple(fit.conf_int()[0]), abs=1e-9)


def test_one_cluster_has_no_bounds() -> None:
    assert cluster_t(np.arange(5.0), np.zeros(5, int)).lower is None


def test_effective_size_lies_between_problems_and_answers() -> None:
    """Wilson on problems is the widest, Wilson on answers the narrowest it can be (up to the t quantile)."""
    rng = np.random.default_rng(2)
    for alike in (0.0, 0.5, 1.0):
        ease = np.where(rng.random(60) < alike, (rng.random(60) < 0.6).astype(float), 0.6)
        values = rng.binomial(8, ease) / 8
        found = cluster_wilson(values, binary=True, answers=480)
        quantile = float(stats.t.ppf(0.975, 118))
        widest = wilson(values.mean() * 60, 60, quantile=quantile)
        narrowest = wilson(values.mean() * 480, 480, quantile=quantile)
        assert narrowest.width - 1e-9 <= found.width <= widest.width + 1e-9


def test_answers_cannot_tell_more_than_independent_ones() -> None:
    """Two of four right on every problem: less spread than chance allows is chance, not precision."""
    found = cluster_wilson(np.full(60, 0.5), binary=True, answers=240)
    expected = wilson(120, 240, quantile=float(stats.t.ppf(0.975, 118)))
    assert bounds(found) == pytest.approx(bounds(expected), abs=1e-9)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=60), st.booleans())
def test_bounds_enclose_the_value_and_stay_in_range(values: list[float], binary: bool) -> None:
    found = mean_interval(np.array(values), binary=binary, answers=4 * len(values))
    assert 0.0 <= found.lower <= found.value + 1e-12
    assert found.value - 1e-12 <= found.upper <= 1.0
    assert found.width > 0.0


def test_bca_agrees_with_scipy_on_the_same_resamples() -> None:
    data = np.random.default_rng(3).exponential(1.0, 25)
    theirs = stats.bootstrap(
        (data,), np.mean, n_resamples=2000, method="BCa", rng=np.random.default_rng(4)
    )
    found = bca_bounds(data, theirs.bootstrap_distribution)
    assert found == pytest.approx(tuple(theirs.confidence_interval), abs=1e-9)


def test_bootstraps_agree_with_a_plain_loop() -> None:
    data = np.random.default_rng(5).exponential(1.0, 80)
    rng = np.random.default_rng(42)
    samples = [data[rng.integers(0, 80, 80)] for _ in range(10_000)]
    means = np.array([sample.mean() for sample in samples])
    assert bounds(bootstrap_ci(data)) == pytest.approx(
        tuple(np.quantile(means, [0.025, 0.975])), abs=1e-9
    )
    ratios = (means - data.mean()) / np.array(
        [sample.std(ddof=1) / np.sqrt(80) for sample in samples]
    )
    low, high = np.quantile(ratios, [0.025, 0.975]) * data.std(ddof=1) / np.sqrt(80)
    assert bounds(studentised_interval(data)) == pytest.approx(
        (data.mean() - high, data.mean() - low), abs=1e-9
    )


@pytest.mark.parametrize("method", [bootstrap_ci, bca_interval, studentised_interval])
def test_bootstraps_of_few_levels_match_those_of_many(method: object) -> None:
    data = np.random.default_rng(6).binomial(4, 0.7, 300) / 4
    counted = method(data)  # type: ignore[operator]
    drawn = method(data + np.random.default_rng(7).normal(0, 1e-9, 300))  # type: ignore[operator]
    assert bounds(counted) == pytest.approx(bounds(drawn), abs=3e-3)
    assert method(np.full(5, 0.3)).width in (None, 0.0)  # type: ignore[operator]
