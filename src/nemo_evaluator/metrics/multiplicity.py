"""Many tests at once: adjusted p-values that keep the error of the whole family."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

Correction: TypeAlias = Literal["holm", "bh", "none"]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down p-values: the chance of any false finding stays under the level."""
    p, order = _ordered(p_values)
    adjusted = np.maximum.accumulate(np.minimum(1.0, p * np.arange(len(p), 0, -1)))
    return _restored(adjusted, order)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's step-up p-values: the expected share of false findings stays under the level."""
    p, order = _ordered(p_values)
    ranks = np.arange(1, len(p) + 1)
    adjusted = np.minimum.accumulate(np.minimum(1.0, p * len(p) / ranks)[::-1])[::-1]
    return _restored(adjusted, order)


def adjust(p_values: Sequence[float], correction: Correction) -> list[float]:
    """Adjusted p-values by the name of the correction."""
    if correction == "holm":
        return holm(p_values)
    return benjamini_hochberg(p_values) if correction == "bh" else list(p_values)


def _ordered(p_values: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    return p[order], order


def _restored(adjusted: np.ndarray, order: np.ndarray) -> list[float]:
    out = np.empty(len(order))
    out[order] = adjusted
    return [float(value) for value in out]
