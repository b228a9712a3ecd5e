"""Two runs on the same problems: tests of the difference of their means, and p-values of many such tests at once."""

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
_ENUMERATED: Final = 16
_MOST_CELLS: Final = 200_000_000


@dataclass(frozen=True, slots=True)
class PairedTest:
    """A test of candidate against baseline; ``effect`` is candidate minus baseline in score units."""

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
        """Whether p is under 5 %."""
        return self.p_value < 0.05


def mcnemar_test(
    worse: int | Mapping[str, int],
    better: int = 0,
    n: int = 0,
    *,
    alternative: Alternative = "less",
) -> PairedTest:
    """Exact McNemar: ``worse`` problems only the baseline solved, ``better`` only the candidate; or, instead of the
    numbers, the ``contingency`` of a flip report. ``alternative="less"`` asks whether the candidate is worse."""
    if not isinstance(worse, int):
        n = sum(worse.values())
        better = worse["candidate_only_correct"]
        worse = worse["baseline_only_correct"]
    effect = (better - worse) / n if n else 0.0
    p_value = _exact_binomial(better, worse + better, alternative)
    return PairedTest(
        "mcnemar", p_value, effect, n=n, n_discordant=worse + better, alternative=alternative
    )


def sign_test(differences: Floats, *, alternative: Alternative = "less") -> PairedTest:
    """Exact sign test of candidate-minus-baseline differences; ties are left out of the test."""
    differences = np.asarray(differences, dtype=np.float64)
    better = int((differences > 0).sum())
    worse = int((differences < 0).sum())
    if len(differences):
        effect = float(differences.mean())
    else:
        effect = 0.0
    p_value = _exact_binomial(better, better + worse, alternative)
    return PairedTest(
        "sign",
        p_value,
        effect,
        n=len(differences),
        n_discordant=better + worse,
        alternative=alternative,
    )


def _exact_binomial(k: int, n: int, alternative: Alternative) -> float:
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
    """Paired permutation test: the sign of each problem's difference is flipped at random. Up to 16 differences, and
    any number of one size (0/1 rewards), are tested exactly; up to 20,000 by drawing, in blocks of bounded memory; more
    by the normal limit of the same distribution."""
    differences = np.asarray(differences, dtype=np.float64)
    moved = differences[differences != 0.0]
    n = len(differences)
    k = len(moved)
    if n:
        effect = float(differences.mean())
    else:
        effect = 0.0
    sizes = np.abs(moved)
    observed = float(moved.sum())
    method = "permutation"
    if k == 0 or np.ptp(sizes) == 0.0:
        p_value = _exact_binomial(int((moved > 0).sum()), k, alternative)
    elif k <= _ENUMERATED:
        sums = np.zeros(1)
        for size in sizes.tolist():
            sums = np.concatenate([sums - size, sums + size])
        p_value = _extreme(sums, observed, alternative, sizes=sizes) / len(sums)
    elif k * n_permutations > _MOST_CELLS:
        below = float(normal_cdf(observed / math.sqrt(float(sizes @ sizes))))
        tails = {"less": below, "greater": 1 - below, "two-sided": 2 * min(below, 1 - below)}
        method = "permutation_limit"
        p_value = tails[alternative]
    else:
        extreme = 0
        rng = np.random.default_rng(seed)
        step = max(1, _CELLS_PER_BLOCK // k)
        for start in range(0, n_permutations, step):
            rows = min(step, n_permutations - start)
            bits = np.unpackbits(rng.integers(0, 256, (rows, -(-k // 8)), dtype=np.uint8), axis=1)
            sums = 2 * (bits[:, :k] @ sizes) - float(sizes.sum())
            extreme += _extreme(sums, observed, alternative, sizes=sizes)
        p_value = (extreme + 1) / (n_permutations + 1)
    return PairedTest(method, p_value, effect, n=n, n_discordant=k, alternative=alternative)


def _extreme(sums: Floats, observed: float, alternative: Alternative, sizes: Floats) -> int:
    """How many sums are at least as far out as the observed one."""
    # Sums that are equal on paper must not differ by rounding.
    slack = 1e-12 * float(sizes.sum())
    if alternative == "less":
        return int((sums <= observed + slack).sum())
    if alternative == "greater":
        return int((sums >= observed - slack).sum())
    return int((np.abs(sums) >= abs(observed) - slack).sum())


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down p-values: the chance of any false finding stays under the level."""
    return _in_order(
        p_values, lambda p: np.maximum.accumulate(np.minimum(1.0, p * np.arange(len(p), 0, -1)))
    )


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's step-up p-values: the expected share of false findings stays under the level."""

    def adjusted(p: Floats) -> Floats:
        return np.minimum.accumulate(np.minimum(1.0, p * len(p) / np.arange(1, len(p) + 1))[::-1])[
            ::-1
        ]

    return _in_order(p_values, adjusted)


def adjust(p_values: Sequence[float], correction: Correction) -> list[float]:
    """Adjusted p-values by the name of the correction."""
    if correction == "holm":
        return holm(p_values)
    if correction == "bh":
        return benjamini_hochberg(p_values)
    return list(p_values)


def _in_order(p_values: Sequence[float], adjusted: Callable[[Floats], Floats]) -> list[float]:
    """What becomes of p-values that are put in order, given back in the order that they came in."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    out = np.empty(len(p))
    out[order] = adjusted(p[order])
    return [float(value) for value in out]
