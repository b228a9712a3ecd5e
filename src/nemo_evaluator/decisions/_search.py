"""The smallest number from which on something holds."""

from __future__ import annotations

from collections.abc import Callable


def first(holds: Callable[[int], bool], low: int, most: int) -> int | None:
    """The smallest number from ``low`` to ``most`` that ``holds``, as all larger ones must; None when none does."""
    high = low
    while not holds(high):
        if high >= most:
            return None
        low, high = high + 1, min(2 * high, most)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high
