"""Bootstrap intervals for a mean: percentile, BCa and studentised, drawn in blocks to bound the memory used."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

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
    """Percentile bootstrap interval of the mean (Efron 1979): the central quantiles of the bootstrap means.

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
    samples = resampled(data, n_bootstrap, seed)
    lower, upper = central_quantiles(samples.means, ci_level)
    return replace(unbounded, lower=lower, upper=upper)


def _unbounded(data: Floats, method: str) -> Interval:
    """The mean of ``data`` without bounds."""
    mean = float(data.mean()) if len(data) else math.nan
    return Interval.without_bounds(mean, method=method, n=len(data))


def central_quantiles(values: Floats, confidence: float) -> tuple[float, float]:
    """The bounds that leave out the same share of the values on either side.

    Args:
        values: The values.
        confidence: The share of the values between the bounds.

    Returns:
        The lower and the upper bound.
    """
    lower_level = (1 - confidence) / 2
    upper_level = (1 + confidence) / 2
    lower, upper = np.quantile(values, [lower_level, upper_level])
    return float(lower), float(upper)


class BootstrapSamples(NamedTuple):
    """Samples drawn with replacement from some data, each as large as the data.

    Attributes:
        means: The mean of each sample.
        standard_errors: The standard error of each mean, estimated from the sample.
    """

    means: Floats
    standard_errors: Floats


def resampled(data: Floats, resamples: int = RESAMPLES, seed: int = SEED) -> BootstrapSamples:
    """Draw bootstrap samples.

    Data with few distinct values are drawn by their counts, at a cost that does not depend on ``len(data)``.

    Args:
        data: At least two independent values.
        resamples: Number of bootstrap samples.
        seed: Seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    levels = _levels(data)
    if levels is not None:
        return _resampled_counts(levels, resamples, rng)
    return _resampled_values(data, resamples, rng)


def few_levels(data: Floats) -> bool:
    """Whether the values are cheap to bootstrap because few of them are distinct."""
    return _levels(data) is not None


class _Levels(NamedTuple):
    """The distinct values of some data, and how often each occurs."""

    values: Floats
    counts: Ints


def _levels(data: Floats) -> _Levels | None:
    """The distinct values and their counts; None when they are too many."""
    # Checking the first values avoids sorting a long column of distinct ones.
    first_levels = np.unique(data[:1000])
    if len(first_levels) > _FEW_LEVELS:
        return None
    values, counts = np.unique(data, return_counts=True)
    if len(values) > _FEW_LEVELS:
        return None
    return _Levels(values, counts)


def _resampled_counts(
    levels: _Levels, resamples: int, rng: np.random.Generator
) -> BootstrapSamples:
    """Draw how often each level occurs in a sample, which is multinomial."""
    n = levels.counts.sum()
    shares = levels.counts / n
    drawn_counts = rng.multinomial(n, shares, size=resamples)
    means = drawn_counts @ levels.values / n
    mean_squares = drawn_counts @ levels.values**2 / n
    # A variance of zero may come out negative by rounding.
    variances = np.maximum(mean_squares - means**2, 0.0)
    standard_errors = np.sqrt(variances / (n - 1))
    return BootstrapSamples(means, standard_errors)


def _resampled_values(data: Floats, resamples: int, rng: np.random.Generator) -> BootstrapSamples:
    """Draw the values themselves, in blocks that bound the memory used."""
    n = len(data)
    samples_per_block = max(1, _CELLS_PER_BLOCK // n)
    block_means: list[Floats] = []
    block_errors: list[Floats] = []
    for start in range(0, resamples, samples_per_block):
        samples = min(samples_per_block, resamples - start)
        positions = rng.integers(0, n, size=(samples, n))
        block = data[positions]
        standard_deviations = block.std(axis=1, ddof=1)
        block_means.append(block.mean(axis=1))
        block_errors.append(standard_deviations / math.sqrt(n))
    means = np.concatenate(block_means)
    standard_errors = np.concatenate(block_errors)
    return BootstrapSamples(means, standard_errors)


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
    samples = resampled(data, resamples, seed)
    lower, upper = bca_bounds(data, samples.means, confidence=confidence)
    return replace(unbounded, lower=lower, upper=upper)


def bca_bounds(data: Floats, means: Floats, *, confidence: float = 0.95) -> tuple[float, float]:
    """The BCa bounds for given bootstrap means of ``data``.

    The bound at level α is the bootstrap quantile Φ(z0 + (z0 + zα) / (1 - a (z0 + zα))), with the bias correction z0
    and the acceleration a.

    Args:
        data: The values.
        means: The bootstrap means.
        confidence: Confidence level.

    Returns:
        The lower and the upper bound.
    """
    sorted_means = np.sort(means)
    bias_correction = _bias_correction(sorted_means, float(data.mean()))
    acceleration = _acceleration(data)
    lower_level = (1 - confidence) / 2
    upper_level = (1 + confidence) / 2
    shifted = bias_correction + normal_quantile(np.array([lower_level, upper_level]))
    accelerated = shifted / (1 - acceleration * shifted)
    levels = normal_cdf(bias_correction + accelerated)
    lower, upper = np.quantile(sorted_means, levels)
    return float(lower), float(upper)


def _bias_correction(sorted_means: Floats, mean: float) -> float:
    """The normal quantile z0 of the share of bootstrap means below the mean of the data."""
    less = np.searchsorted(sorted_means, mean, "left")
    less_or_equal = np.searchsorted(sorted_means, mean, "right")
    # Ties count half.
    share_below = (less + less_or_equal) / (2 * len(sorted_means))
    # A share of 0 or 1 would make the bias correction infinite.
    least_share = 0.5 / len(sorted_means)
    bounded_share = min(max(share_below, least_share), 1 - least_share)
    return float(normal_quantile(bounded_share))


def _acceleration(data: Floats) -> float:
    """The acceleration a = Σ(x - mean)³ / (6 (Σ(x - mean)²)^1.5) of the mean."""
    deviations = data - float(data.mean())
    sum_of_cubes = float((deviations**3).sum())
    sum_of_squares = float((deviations**2).sum())
    acceleration: float = sum_of_cubes / (6 * sum_of_squares**1.5)
    return acceleration


def studentised_interval(
    values: Sequence[float] | Floats,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Bootstrap-t interval of the mean (Efron and Tibshirani 1993, §12.5).

    Quantiles of t* = (mean* - mean) / se* over the bootstrap samples, times the standard error of the data.

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
    standard_error = float(data.std(ddof=1)) / math.sqrt(len(data))
    if standard_error == 0.0:
        return unbounded
    samples = resampled(data, resamples, seed)
    has_spread = samples.standard_errors > 0
    deviations = samples.means[has_spread] - mean
    t_values = deviations / samples.standard_errors[has_spread]
    if len(t_values) == 0:
        return unbounded
    low_t, high_t = central_quantiles(t_values, confidence)
    # The largest t belongs to samples above the truth, so it sets the lower bound.
    return replace(
        unbounded,
        lower=mean - high_t * standard_error,
        upper=mean - low_t * standard_error,
    )
