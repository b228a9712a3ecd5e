"""The only module that loads scipy, and only ``scipy.special``.

scipy is imported at the first call. A run with one answer per problem makes none, so it does not pay for the import.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nemo_evaluator.core.lazy import Lazy, optional

Floats = NDArray[np.float64]
_special: Final = Lazy(load=lambda: optional("scipy.special", extra="stats", what="scipy"))


def t_quantile(probability: float, df: float) -> float:
    """Quantile of Student's t."""
    return float(_special.stdtrit(df, probability))


def t_cdf(value: float, df: float) -> float:
    """Distribution function of Student's t."""
    return float(_special.stdtr(df, value))


def noncentral_t_cdf(value: float, df: float, shift: float) -> float:
    """Distribution function of the noncentral t; ``shift`` is the noncentrality parameter."""
    return float(_special.nctdtr(df, shift, value))


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Quantile of the Beta(a, b) distribution."""
    return float(_special.betaincinv(a, b, probability))


def gamma_quantile(probability: float, shape: float) -> float:
    """Quantile of the gamma distribution with scale 1."""
    return float(_special.gammaincinv(shape, probability))


def binomial_cdf(k: int, n: int, p: float) -> float:
    """P(X <= k) for X ~ Binomial(n, p)."""
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    return float(_special.bdtr(k, n, p))


def normal_cdf(value: ArrayLike) -> Floats:
    """Distribution function of the standard normal, elementwise."""
    return np.asarray(_special.ndtr(value), dtype=np.float64)


def normal_quantile(probability: ArrayLike) -> Floats:
    """Quantile of the standard normal, elementwise."""
    return np.asarray(_special.ndtri(probability), dtype=np.float64)


def beta_quantiles(probabilities: ArrayLike, a: float, b: float) -> Floats:
    """Quantiles of the beta distribution."""
    quantiles: Floats = _special.betaincinv(a, b, probabilities)
    return quantiles


def normal_cdfs(values: ArrayLike) -> Floats:
    """The distribution function of the standard normal distribution, at each value."""
    shares: Floats = _special.ndtr(values)
    return shares
