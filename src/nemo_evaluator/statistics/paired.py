"""Tests of two runs on the same problems, and corrections for many such tests at once."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from nemo_evaluator.statistics._scipy import binomial_cdf, normal_cdf
from nemo_evaluator.statistics.groups import Floats

Alternative = Literal["less", "greater", "two-sided"]
Correction: TypeAlias = Literal["holm", "bh", "none"]

_CELLS_PER_BLOCK: Final = 8_000_000
# Up to so many differences, all sign patterns are enumerated; above so many cells, the normal limit is used.
_MOST_ENUMERATED: Final = 16
_MOST_CELLS: Final = 200_000_000


@dataclass(frozen=True, slots=True)
class PairedTest:
    """A test of candidate against baseline.

    Attributes:
        method: The name of the test.
        p_value: Its p-value.
        effect: Candidate minus baseline, in score units.
        n: Number of problems.
        n_discordant: Number of problems whose reward differs.
        alternative: "less" tests whether the candidate is worse.
    """

    method: str
    p_value: float
    effect: float
    n: int
    n_discordant: int
    alternative: Alternative

    @property
    def effect_size(self) -> float:
        """The effect as a drop: positive when the candidate is worse."""
        return -self.effect

    @property
    def significant(self) -> bool:
        """Whether the p-value is below 5 %."""
        return self.p_value < 0.05


def mcnemar_test(
    worse: int | Mapping[str, int],
    better: int = 0,
    n: int = 0,
    *,
    alternative: Alternative = "less",
) -> PairedTest:
    """Exact McNemar test (1947): a binomial test of the discordant problems.

    Args:
        worse: Problems that only the baseline solved; or the ``contingency`` of a flip report, instead of the numbers.
        better: Problems that only the candidate solved.
        n: Number of problems.
        alternative: "less" tests whether the candidate is worse.
    """
    if not isinstance(worse, int):
        contingency = worse
        n = sum(contingency.values())
        better = contingency["candidate_only_correct"]
        worse = contingency["baseline_only_correct"]
    discordant = worse + better
    return PairedTest(
        method="mcnemar",
        p_value=_exact_binomial(better, discordant, alternative),
        effect=(better - worse) / n if n else 0.0,
        n=n,
        n_discordant=discordant,
        alternative=alternative,
    )


def sign_test(differences: Floats, *, alternative: Alternative = "less") -> PairedTest:
    """Exact sign test of candidate-minus-baseline differences, without the ties."""
    differences = np.asarray(differences, dtype=np.float64)
    better = int((differences > 0).sum())
    worse = int((differences < 0).sum())
    discordant = better + worse
    return PairedTest(
        method="sign",
        p_value=_exact_binomial(better, discordant, alternative),
        effect=_mean_or_zero(differences),
        n=len(differences),
        n_discordant=discordant,
        alternative=alternative,
    )


def _mean_or_zero(differences: Floats) -> float:
    return float(differences.mean()) if len(differences) else 0.0


def _exact_binomial(k: int, n: int, alternative: Alternative) -> float:
    """P-value of ``k`` successes in ``n`` fair trials."""
    if n == 0:
        return 1.0
    if alternative == "less":
        return binomial_cdf(k, n, 0.5)
    if alternative == "greater":
        return 1.0 - binomial_cdf(k - 1, n, 0.5)
    return min(1.0, 2 * binomial_cdf(min(k, n - k), n, 0.5))


def permutation_test(
    differences: Floats,
    *,
    alternative: Alternative = "less",
    n_permutations: int = 10_000,
    seed: int = 42,
) -> PairedTest:
    """Paired permutation test (Fisher): under the null hypothesis the sign of each problem's difference is random.

    Differences of one size (0/1 rewards) and up to 16 others are tested exactly; up to 20,000 by drawing; more by the
    normal limit of the same distribution.

    Args:
        differences: Candidate minus baseline, one per problem.
        alternative: "less" tests whether the candidate is worse.
        n_permutations: Number of drawn sign patterns.
        seed: Seed of the random numbers.
    """
    differences = np.asarray(differences, dtype=np.float64)
    nonzero = differences[differences != 0.0]
    sizes = np.abs(nonzero)
    k = len(nonzero)
    observed = float(nonzero.sum())
    method = "permutation"
    if k == 0 or np.ptp(sizes) == 0.0:
        p_value = _exact_binomial(int((nonzero > 0).sum()), k, alternative)
    elif k <= _MOST_ENUMERATED:
        p_value = _enumerated_p(sizes, observed, alternative)
    elif k * n_permutations > _MOST_CELLS:
        method = "permutation_limit"
        p_value = _normal_limit_p(sizes, observed, alternative)
    else:
        rng = np.random.default_rng(seed)
        p_value = _drawn_p(sizes, observed, alternative, n_permutations=n_permutations, rng=rng)
    return PairedTest(
        method=method,
        p_value=p_value,
        effect=_mean_or_zero(differences),
        n=len(differences),
        n_discordant=k,
        alternative=alternative,
    )


def _enumerated_p(sizes: Floats, observed: float, alternative: Alternative) -> float:
    """P-value from all 2^k sign patterns."""
    sums = np.zeros(1)
    for size in sizes.tolist():
        sums = np.concatenate([sums - size, sums + size])
    return _count_extreme(sums, observed, alternative, sizes=sizes) / len(sums)


def _normal_limit_p(sizes: Floats, observed: float, alternative: Alternative) -> float:
    """P-value from the normal limit: the sum has mean 0 and variance Σ size²."""
    below = float(normal_cdf(observed / math.sqrt(float(sizes @ sizes))))
    if alternative == "less":
        return below
    if alternative == "greater":
        return 1 - below
    return 2 * min(below, 1 - below)


def _drawn_p(
    sizes: Floats,
    observed: float,
    alternative: Alternative,
    *,
    n_permutations: int,
    rng: np.random.Generator,
) -> float:
    """P-value from random sign patterns, drawn as bits in blocks that bound the memory used."""
    k = len(sizes)
    total = float(sizes.sum())
    bytes_per_pattern = -(-k // 8)
    patterns_per_block = max(1, _CELLS_PER_BLOCK // k)
    extreme = 0
    for start in range(0, n_permutations, patterns_per_block):
        patterns = min(patterns_per_block, n_permutations - start)
        random_bytes = rng.integers(0, 256, (patterns, bytes_per_pattern), dtype=np.uint8)
        signs = np.unpackbits(random_bytes, axis=1)[:, :k]
        sums = 2 * (signs @ sizes) - total
        extreme += _count_extreme(sums, observed, alternative, sizes=sizes)
    # The observed pattern counts as one of the draws (Phipson and Smyth 2010).
    return (extreme + 1) / (n_permutations + 1)


def _count_extreme(
    sums: Floats, observed: float, alternative: Alternative, *, sizes: Floats
) -> int:
    """How many sums are at least as extreme as the observed one."""
    # Sums that are equal in exact arithmetic must not differ by rounding.
    slack = 1e-12 * float(sizes.sum())
    if alternative == "less":
        return int((sums <= observed + slack).sum())
    if alternative == "greater":
        return int((sums >= observed - slack).sum())
    return int((np.abs(sums) >= abs(observed) - slack).sum())


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values (1979), which control the family-wise error rate."""

    def step_down(ascending: Floats) -> Floats:
        hypotheses_left = np.arange(len(ascending), 0, -1)
        bonferroni = np.minimum(1.0, ascending * hypotheses_left)
        return np.maximum.accumulate(bonferroni)

    return _adjust_sorted(p_values, step_down)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's step-up adjusted p-values (1995), which control the false discovery rate."""

    def step_up(ascending: Floats) -> Floats:
        ranks = np.arange(1, len(ascending) + 1)
        scaled = np.minimum(1.0, ascending * len(ascending) / ranks)
        from_largest = scaled[::-1]
        return np.minimum.accumulate(from_largest)[::-1]

    return _adjust_sorted(p_values, step_up)


def adjust(p_values: Sequence[float], correction: Correction) -> list[float]:
    """Adjusted p-values by the name of the correction."""
    if correction == "holm":
        return holm(p_values)
    if correction == "bh":
        return benjamini_hochberg(p_values)
    return list(p_values)


def _adjust_sorted(
    p_values: Sequence[float], adjust_ascending: Callable[[Floats], Floats]
) -> list[float]:
    """Sort the p-values, adjust them, and return them in the original order."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = adjust_ascending(p[order])
    return [float(value) for value in adjusted]
