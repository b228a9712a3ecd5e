"""Bootstrap intervals for a mean: percentile, BCa and studentised, drawn in blocks to bound the memory used."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from nemo_evaluator.statistics._scipy import normal_cdf, normal_quantile
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.intervals import Interval

RESAMPLES: Final = 10_000
SEED: Final = 42
_CELLS_PER_BLOCK: Final = 4_000_000
# Values with at most so many distinct levels are resampled by their counts.
_FEW_LEVELS: Final = 64


def bootstrap_ci(
    values: Sequence[float] | Floats,
    *,
    n_bootstrap: int = RESAMPLES,
    ci_level: float = 0.95,
    seed: int = SEED,
) -> Interval:
    """Percentile bootstrap interval of the mean (Efron 1979).

    Args:
        values: Independent values.
        n_bootstrap: Number of bootstrap samples.
        ci_level: Confidence level.
        seed: Seed of the random numbers.

    Returns:
        The interval; without bounds for fewer than two values.
    """
    data = np.asarray(values, dtype=np.float64)
    unbounded = _unbounded(data, "bootstrap")
    if len(data) < 2:
        return unbounded
    means, _ = resampled(data, n_bootstrap, seed)
    lower, upper = _central_quantiles(means, ci_level)
    return replace(unbounded, lower=lower, upper=upper)


def _unbounded(data: Floats, method: str) -> Interval:
    """The mean of ``data`` without bounds."""
    mean = float(data.mean()) if len(data) else math.nan
    return Interval(mean, None, None, method=method, n=len(data))


def _central_quantiles(values: Floats, confidence: float) -> tuple[float, float]:
    """The bounds of the central part of some values."""
    lower, upper = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(lower), float(upper)


def resampled(data: Floats, resamples: int = RESAMPLES, seed: int = SEED) -> tuple[Floats, Floats]:
    """Draw bootstrap samples.

    Data with few distinct values are drawn by their counts, at a cost that does not depend on ``len(data)``.

    Returns:
        The means of the bootstrap samples, and their standard errors.
    """
    rng = np.random.default_rng(seed)
    n = len(data)
    levels, counts = _levels(data)
    if levels is not None:
        drawn_counts = rng.multinomial(n, counts / n, size=resamples)
        means = drawn_counts @ levels / n
        mean_squares = drawn_counts @ levels**2 / n
        variances = np.maximum(mean_squares - means**2, 0.0)
        return means, np.sqrt(variances / (n - 1))
    samples_per_block = max(1, _CELLS_PER_BLOCK // n)
    block_means: list[Floats] = []
    block_errors: list[Floats] = []
    for start in range(0, resamples, samples_per_block):
        samples = min(samples_per_block, resamples - start)
        block = data[rng.integers(0, n, size=(samples, n))]
        block_means.append(block.mean(axis=1))
        block_errors.append(block.std(axis=1, ddof=1) / math.sqrt(n))
    return np.concatenate(block_means), np.concatenate(block_errors)


def few_levels(data: Floats) -> bool:
    """Whether the values are cheap to bootstrap because few of them are distinct."""
    return _levels(data)[0] is not None


def _levels(data: Floats) -> tuple[Floats | None, Ints]:
    """The distinct values, or None when they are too many, and how often each occurs."""
    # Checking the first values avoids sorting a long column of distinct ones.
    if len(np.unique(data[:1000])) > _FEW_LEVELS:
        return None, np.empty(0, dtype=np.int64)
    levels, counts = np.unique(data, return_counts=True)
    if len(levels) > _FEW_LEVELS:
        return None, counts
    return levels, counts


def bca_interval(
    values: Sequence[float] | Floats,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Bias-corrected and accelerated bootstrap interval of the mean (Efron 1987).

    Args:
        values: Independent values.
        confidence: Confidence level.
        resamples: Number of bootstrap samples.
        seed: Seed of the random numbers.

    Returns:
        The interval; without bounds for fewer than two distinct values.
    """
    data = np.asarray(values, dtype=np.float64)
    unbounded = _unbounded(data, "bca")
    if len(data) < 2 or np.ptp(data) == 0.0:
        return unbounded
    means, _ = resampled(data, resamples, seed)
    lower, upper = bca_bounds(data, means, confidence=confidence)
    return replace(unbounded, lower=lower, upper=upper)


def bca_bounds(data: Floats, means: Floats, *, confidence: float = 0.95) -> tuple[float, float]:
    """The BCa bounds for given bootstrap means of ``data``.

    The bound at level α is the bootstrap quantile Φ(z0 + (z0 + zα) / (1 - a (z0 + zα))), with the bias correction z0
    and the acceleration a = Σ(x - mean)³ / (6 (Σ(x - mean)²)^1.5).
    """
    means = np.sort(means)
    mean = float(data.mean())
    less = np.searchsorted(means, mean, "left")
    less_or_equal = np.searchsorted(means, mean, "right")
    # Ties count half; a share of 0 or 1 would make the bias correction infinite.
    share_below = (less + less_or_equal) / (2 * len(means))
    half_count = 0.5 / len(means)
    z0 = float(normal_quantile(min(max(share_below, half_count), 1 - half_count)))
    deviation = data - mean
    cubes = float((deviation**3).sum())
    squares = float((deviation**2).sum())
    acceleration = cubes / (6 * squares**1.5)
    z_alpha = normal_quantile(np.array([(1 - confidence) / 2, (1 + confidence) / 2]))
    z = z0 + z_alpha
    levels = normal_cdf(z0 + z / (1 - acceleration * z))
    lower, upper = np.quantile(means, levels)
    return float(lower), float(upper)


def studentised_interval(
    values: Sequence[float] | Floats,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Bootstrap-t interval of the mean: quantiles of t* = (mean* - mean) / se*, inverted with the standard error of the
    data.

    Args:
        values: Independent values.
        confidence: Confidence level.
        resamples: Number of bootstrap samples.
        seed: Seed of the random numbers.

    Returns:
        The interval; without bounds when the data show no spread.
    """
    data = np.asarray(values, dtype=np.float64)
    unbounded = _unbounded(data, "studentised")
    if len(data) < 2:
        return unbounded
    mean = unbounded.value
    error = float(data.std(ddof=1)) / math.sqrt(len(data))
    if error == 0.0:
        return unbounded
    means, errors = resampled(data, resamples, seed)
    spread = errors > 0
    t_star = (means[spread] - mean) / errors[spread]
    if not len(t_star):
        return unbounded
    low, high = _central_quantiles(t_star, confidence)
    return replace(unbounded, lower=mean - high * error, upper=mean - low * error)
