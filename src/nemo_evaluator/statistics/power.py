"""Planning: how many problems a difference needs, and what difference a number of problems can show. A paired
comparison is planned as a one-sample t test on per-problem differences, with the exact non-central t."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nemo_evaluator.statistics._scipy import noncentral_t_cdf, t_quantile

MOST_PROBLEMS: Final = 10_000_000


def paired_power(effect: float, sd: float, problems: float, *, alpha: float = 0.025) -> float:
    """Chance that a one-sided test at ``alpha`` finds a true mean difference of ``effect`` (in score units)."""
    if problems < 2 or effect <= 0:
        return 0.0
    if sd <= 0:
        return 1.0
    df = problems - 1
    shift = effect / sd * math.sqrt(problems)
    # The distribution function loses its digits far out, where the answer is 1 anyway.
    if shift > 37:
        return 1.0
    return 1.0 - noncentral_t_cdf(t_quantile(1 - alpha, df), df, shift)


def problems_needed(
    effect: float, sd: float, *, power: float = 0.8, alpha: float = 0.025
) -> int | None:
    """Fewest problems that find ``effect`` with ``power``; ``None`` beyond ten million."""
    return first(lambda n: paired_power(effect, sd, n, alpha=alpha) >= power, 2, MOST_PROBLEMS)


def detectable_effect(
    sd: float, problems: int, *, power: float = 0.8, alpha: float = 0.025
) -> float | None:
    """The smallest difference that ``problems`` problems find with ``power``."""
    if problems < 2 or sd <= 0:
        return None if problems < 2 else 0.0
    low = 0.0
    high = sd
    while paired_power(high, sd, problems, alpha=alpha) < power:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if paired_power(middle, sd, problems, alpha=alpha) < power:
            low = middle
        else:
            high = middle
    return high


def first(holds: Callable[[int], bool], low: int, most: int) -> int | None:
    """The smallest number from ``low`` to ``most`` that ``holds``, as all larger ones must; None when none does."""
    high = low
    while not holds(high):
        if high >= most:
            return None
        low = high + 1
        high = min(2 * high, most)
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high


@dataclass(frozen=True, slots=True)
class Spread:
    """What the noise of a paired difference is made of, per problem. ``true`` is the variance of the true per-problem
    difference, ``noise`` the summed answer noise of both sides for one answer each: it shrinks with repeats, the other
    does not."""

    true: float
    noise: float

    def sd(self, repeats: float = 1.0) -> float:
        """Standard deviation of a problem's difference of mean rewards."""
        return math.sqrt(max(self.true + self.noise / repeats, 0.0))
