"""Differences and tests of two runs on the same problems."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize, special, stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.descriptivestats import sign_test as their_sign_test
from statsmodels.stats.multitest import multipletests

from nemo_evaluator.statistics import (
    adjust,
    benjamini_hochberg,
    holm,
    mcnemar_test,
    mean_difference,
    missing_bounds,
    permutation_test,
    sign_test,
    unpaired_difference,
    variance_components,
)
from nemo_evaluator.statistics.evidence import Flips

AIRWAYS = np.array([-1.0] * 7 + [1.0] + [0.0] * 13)


def test_tango_as_published() -> None:
    """Fagerland, Lydersen, Laake (2014), airway example: 7 against 1 discordant of 21."""
    score = Flips(worse=7, better=1, n=21, least=0.0).bounds(stats.norm.ppf(0.975))
    assert [round(bound, 3) for bound in score] == [-0.517, -0.026]
    found = mean_difference(AIRWAYS, bounded=True).interval()
    assert found.value == pytest.approx(-6 / 21)
    assert found.lower <= score[0] + 1e-9 < score[1] <= found.upper + 1e-9


@pytest.mark.parametrize("limit", [-0.3, -0.05, 0.0, 0.12])
@pytest.mark.parametrize(("worse", "better"), [(7, 2), (20, 0), (1, 9)])
def test_flips_are_the_weaker_of_score_and_likelihood_ratio(
    limit: float, worse: int, better: int
) -> None:
    """The most likely shares under the limit by a search, instead of the closed form."""
    counts = np.array([worse, better, 80 - worse - better])
    values = np.repeat([-1.0, 1.0, 0.0], counts)

    def shares(share: float) -> np.ndarray:
        return np.array([share, share + limit, 1 - 2 * share - limit])

    low, high = max(0.0, -limit) + 1e-12, (1 - limit) / 2 - 1e-12
    best = optimize.minimize_scalar(
        lambda share: -special.xlogy(counts, shares(share)).sum(),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-13},
    ).x
    away = values.mean() - limit
    score = abs(away) / np.sqrt((2 * best + limit - limit**2) / 80)
    ratio = np.sqrt(
        2 * (special.xlogy(counts, counts / 80) - special.xlogy(counts, shares(best))).sum()
    )
    found = mean_difference(values, bounded=True)
    z = np.sign(away) * min(score, ratio)
    assert found.p_below(limit) == pytest.approx(stats.norm.cdf(z), abs=1e-6)
    assert found.p_above(limit) == pytest.approx(stats.norm.sf(z), abs=1e-6)


@pytest.mark.parametrize("drop", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("n", [60, 100, 300, 500])
def test_a_drop_on_the_limit_is_rarely_waved_through(n: int, drop: float) -> None:
    """Exact, at the worst place: nothing but flips to the worse. Also at the level of one benchmark among twenty."""
    counts = np.arange(n + 1)
    weights = stats.binom.pmf(counts, n, drop)
    few = counts[weights > 1e-9]
    found = [
        mean_difference(np.repeat([-1.0, 0.0], [k, n - k]), bounded=True) for k in few.tolist()
    ]
    for alpha, slack in ((0.025, 1.2), (0.025 / 20, 1.6)):
        passed = np.array([one.p_above(-drop) <= alpha for one in found])
        blocked = np.array([one.p_below(-drop) <= alpha for one in found])
        assert weights[few][passed].sum() <= slack * alpha
        assert weights[few][blocked].sum() <= slack * alpha


def test_bounds_are_where_the_test_turns() -> None:
    for values in (AIRWAYS, AIRWAYS * np.r_[np.full(5, 0.25), np.full(16, 0.75)]):
        found = mean_difference(values, bounded=True)
        interval = found.interval()
        assert found.p_above(interval.lower) == pytest.approx(0.025, abs=1e-9)
        assert found.p_below(interval.upper) == pytest.approx(0.025, abs=1e-9)


def test_a_wider_scale_widens_the_difference_alike() -> None:
    small, large = (
        mean_difference(AIRWAYS, bounded=True).interval(),
        mean_difference(5 * AIRWAYS, bounded=True, scale=5.0).interval(),
    )
    assert (large.lower, large.upper) == pytest.approx((5 * small.lower, 5 * small.upper))


def test_paired_t_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(30), rng.random(30)
    found = mean_difference(b - a).interval()
    expected = stats.ttest_rel(b, a).confidence_interval(0.95)
    assert (found.lower, found.upper) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_paired_clusters_agree_with_statsmodels() -> None:
    rng = np.random.default_rng(1)
    clusters = np.repeat(np.arange(15), 8)
    values = rng.normal(0, 0.2, 15)[clusters] + rng.normal(0, 0.2, 120)
    fit = sm.OLS(values, np.ones(120)).fit(
        cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True
    )
    found = mean_difference(values, clusters=clusters).interval()
    assert (found.lower, found.upper) == pytest.approx(tuple(fit.conf_int()[0]), abs=1e-9)


@pytest.mark.parametrize("difference", [0.0, -0.4])
def test_equal_differences_are_no_proof_of_certainty(difference: float) -> None:
    few, many = (
        mean_difference(np.full(10, difference)).interval(),
        mean_difference(np.full(1000, difference)).interval(),
    )
    assert few.width > many.width > 0
    assert few.lower <= difference <= few.upper
    assert many.lower <= difference <= many.upper


def test_no_flip_in_a_thousand_is_tight() -> None:
    found = mean_difference(np.zeros(1000), bounded=True).interval()
    assert found.upper == -found.lower < 0.004


def test_unpaired_agrees_with_welch() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random(30), rng.random(50)
    found = unpaired_difference(a, b)
    expected = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    assert (found.lower, found.upper) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(
    ("worse", "better"), [(0, 0), (5, 0), (9, 3), (3, 9), (40, 41), (500, 420)]
)
def test_mcnemar_agrees(worse: int, better: int) -> None:
    two_sided = mcnemar([[10, worse], [better, 10]], exact=True).pvalue if worse + better else 1.0
    assert mcnemar_test(worse, better, 2000, alternative="two-sided").p_value == pytest.approx(
        two_sided, abs=1e-9
    )
    one_sided = (
        stats.binomtest(worse, worse + better, alternative="greater").pvalue
        if worse + better
        else 1.0
    )
    assert mcnemar_test(worse, better, 2000).p_value == pytest.approx(one_sided, abs=1e-9)
    assert mcnemar_test(worse, better, 2000).effect == (better - worse) / 2000


def test_sign_test_agrees() -> None:
    values = np.array([-0.2, -0.1, 0.0, 0.3, -0.5, -0.6, 0.0, -0.1, -0.2, 0.1])
    assert sign_test(values, alternative="two-sided").p_value == pytest.approx(
        their_sign_test(values)[1], abs=1e-9
    )
    assert sign_test(values).p_value == pytest.approx(
        stats.binomtest(2, 8, alternative="less").pvalue, abs=1e-9
    )
    assert sign_test(values).n_discordant == 8


@pytest.mark.parametrize("alternative", ["less", "greater", "two-sided"])
def test_permutation_is_exact_for_few(alternative: str) -> None:
    values = np.random.default_rng(3).normal(-0.3, 1, 11)
    theirs = stats.permutation_test(
        (values,), np.mean, permutation_type="samples", alternative=alternative, n_resamples=np.inf
    )
    # scipy doubles the smaller tail; with signs flipped at random the distribution is symmetric, so both are one.
    assert permutation_test(values, alternative=alternative).p_value == pytest.approx(
        theirs.pvalue, abs=1e-9
    )


def test_permutation_of_0_and_1_is_mcnemar() -> None:
    values = np.array([-1.0] * 40 + [1.0] * 22 + [0.0] * 500)
    assert permutation_test(values).p_value == mcnemar_test(40, 22, 562).p_value


def test_drawn_permutations_are_near_the_normal_limit() -> None:
    values = np.random.default_rng(4).normal(-0.01, 0.3, 3000)
    drawn, limit = (
        permutation_test(values, n_permutations=9999),
        permutation_test(values, n_permutations=100_000),
    )
    assert (drawn.method, limit.method) == ("permutation", "permutation_limit")
    assert limit.p_value == pytest.approx(
        stats.norm.cdf(values.sum() / np.sqrt((values**2).sum())), abs=1e-9
    )
    assert 0.02 < drawn.p_value == pytest.approx(limit.p_value, abs=0.01)


def test_multiplicity_agrees_with_statsmodels() -> None:
    p = np.random.default_rng(5).random(40) ** 3
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)
    assert benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1], abs=1e-12)
    assert adjust(p, "none") == list(p)
    assert adjust([], "holm") == []


def test_variance_components_agree_with_the_anova_table() -> None:
    rng = np.random.default_rng(6)
    rewards = rng.normal(0, 0.5, (40, 1)) + rng.normal(0, 1.0, (40, 6))
    found = variance_components(np.repeat(np.arange(40), 6), rewards.ravel())
    ratio = stats.f_oneway(*rewards).statistic
    assert (found.within + 6 * found.between) / found.within == pytest.approx(ratio, abs=1e-9)
    assert found.within == pytest.approx(rewards.var(axis=1, ddof=1).mean(), abs=1e-9)
    assert found.between + found.within / 6 == pytest.approx(
        rewards.mean(axis=1).var(ddof=1), abs=1e-9
    )


def test_advice_follows_the_larger_part() -> None:
    rng = np.random.default_rng(7)
    problem = np.repeat(np.arange(100), 2)
    noisy = rng.normal(0, 0.1, 100)[problem] + rng.normal(0, 1, 200)
    steady = rng.normal(0, 1, 100)[problem] + rng.normal(0, 0.1, 200)
    assert variance_components(problem, noisy).advice == "more repeats"
    assert variance_components(problem, steady).advice == "more problems"
    assert variance_components(np.arange(100), noisy[:100]).advice == "unknown without repeats"


def test_missing_bounds() -> None:
    found = missing_bounds(60.0, 90, 100)
    assert (found.lower, found.upper, found.missing) == (0.6, 0.7, 10)
    assert missing_bounds(0.0, 0, 0) is None
