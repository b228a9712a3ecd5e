"""Bootstrap intervals for a mean: percentile, BCa and studentised, drawn in blocks so that memory stays flat."""

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
_FEW: Final = 64


def bootstrap_ci(
    values: Sequence[float] | Floats,
    *,
    n_bootstrap: int = RESAMPLES,
    ci_level: float = 0.95,
    seed: int = SEED,
) -> Interval:
    """Percentile bootstrap of the mean; fewer than two values have no bounds."""
    data, plain = _unbounded(values, "bootstrap")
    if len(data) < 2:
        return plain
    means, _ = resampled(data, n_bootstrap, seed)
    lower, upper = np.quantile(means, [(1 - ci_level) / 2, (1 + ci_level) / 2])
    return replace(plain, lower=float(lower), upper=float(upper))


def _unbounded(values: Sequence[float] | Floats, method: str) -> tuple[Floats, Interval]:
    data = np.asarray(values, dtype=np.float64)
    return data, Interval(
        float(data.mean()) if len(data) else math.nan, None, None, method=method, n=len(data)
    )


def resampled(data: Floats, resamples: int = RESAMPLES, seed: int = SEED) -> tuple[Floats, Floats]:
    """Means of bootstrap samples and their standard errors; data of few distinct values need only their counts,
    whatever their number."""
    rng = np.random.default_rng(seed)
    n = len(data)
    levels, counts = _levels(data)
    if levels is not None:
        drawn = rng.multinomial(n, counts / n, size=resamples)
        means = drawn @ levels / n
        squares = drawn @ levels**2 / n
        return means, np.sqrt(np.maximum(squares - means**2, 0.0) / (n - 1))
    step = max(1, _CELLS_PER_BLOCK // n)
    found = []
    for start in range(0, resamples, step):
        block = data[rng.integers(0, n, size=(min(step, resamples - start), n))]
        found.append((block.mean(axis=1), block.std(axis=1, ddof=1) / math.sqrt(n)))
    return np.concatenate([means for means, _ in found]), np.concatenate(
        [errors for _, errors in found]
    )


def few_levels(data: Floats) -> bool:
    """Whether a bootstrap of these values is cheap: they take few distinct values."""
    return _levels(data)[0] is not None


def _levels(data: Floats) -> tuple[Floats | None, Ints]:
    # A look at the first values spares sorting a long column of distinct ones.
    if len(np.unique(data[:1000])) > _FEW:
        return None, np.empty(0, dtype=np.int64)
    levels, counts = np.unique(data, return_counts=True)
    return (levels if len(levels) <= _FEW else None), counts


def bca_interval(
    values: Sequence[float] | Floats,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Bias-corrected and accelerated bootstrap of the mean (Efron 1987)."""
    data, plain = _unbounded(values, "bca")
    if len(data) < 2 or np.ptp(data) == 0.0:
        return plain
    lower, upper = bca_bounds(data, resampled(data, resamples, seed)[0], confidence=confidence)
    return replace(plain, lower=lower, upper=upper)


def bca_bounds(data: Floats, means: Floats, *, confidence: float = 0.95) -> tuple[float, float]:
    """The BCa bounds for given bootstrap means of ``data``."""
    means = np.sort(means)
    mean = float(data.mean())
    below = (np.searchsorted(means, mean, "left") + np.searchsorted(means, mean, "right")) / (
        2 * len(means)
    )
    bias = float(normal_quantile(min(max(below, 0.5 / len(means)), 1 - 0.5 / len(means))))
    deviation = data - mean
    acceleration = float((deviation**3).sum()) / (6 * float((deviation**2).sum()) ** 1.5)
    z = bias + normal_quantile(np.array([(1 - confidence) / 2, (1 + confidence) / 2]))
    lower, upper = np.quantile(means, normal_cdf(bias + z / (1 - acceleration * z)))
    return float(lower), float(upper)


def studentised_interval(
    values: Sequence[float] | Floats,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Bootstrap-t of the mean: quantiles of (mean* - mean) / se*, turned back with the se of the data."""
    data, plain = _unbounded(values, "studentised")
    if len(data) > 1:
        error = float(data.std(ddof=1)) / math.sqrt(len(data))
    else:
        error = 0.0
    if error == 0.0:
        return plain
    means, errors = resampled(data, resamples, seed)
    ratios = (means[errors > 0] - plain.value) / errors[errors > 0]
    if not len(ratios):
        return plain
    low, high = np.quantile(ratios, [(1 - confidence) / 2, (1 + confidence) / 2])
    return replace(
        plain, lower=plain.value - float(high) * error, upper=plain.value - float(low) * error
    )
