"""Planning: how many problems a difference needs, and what difference a number of problems can show.

A paired comparison is planned as a one-sample t test on per-problem differences, with the exact non-central t.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from nemo_evaluator.metrics._scipy import noncentral_t_cdf, t_quantile

_MOST_PROBLEMS = 10_000_000


def paired_power(effect: float, sd: float, problems: float, *, alpha: float = 0.025) -> float:
    """Chance that a one-sided test at ``alpha`` finds a true mean difference of ``effect`` (in score units)."""
    if problems < 2 or effect <= 0:
        return 0.0
    if sd <= 0:
        return 1.0
    df = problems - 1
    shift = effect / sd * math.sqrt(problems)
    # The distribution function loses its digits far out, where the answer is 1 anyway.
    return 1.0 if shift > 37 else 1.0 - noncentral_t_cdf(t_quantile(1 - alpha, df), df, shift)


def problems_needed(effect: float, sd: float, *, power: float = 0.8, alpha: float = 0.025) -> int | None:
    """Fewest problems that find ``effect`` with ``power``; ``None`` beyond ten million."""
    return _smallest(lambda n: paired_power(effect, sd, n, alpha=alpha) >= power, 2, _MOST_PROBLEMS)


def detectable_effect(sd: float, problems: int, *, power: float = 0.8, alpha: float = 0.025) -> float | None:
    """The smallest difference that ``problems`` problems find with ``power``."""
    if problems < 2 or sd <= 0:
        return None if problems < 2 else 0.0
    low, high = 0.0, sd
    while paired_power(high, sd, problems, alpha=alpha) < power:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if paired_power(middle, sd, problems, alpha=alpha) < power else (low, middle)
    return high


def _smallest(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    bound = low
    while not holds(bound):
        if bound >= high:
            return None
        bound = min(bound * 2, high)
    first = max(low, bound // 2)
    while first < bound:
        middle = (first + bound) // 2
        first, bound = (first, middle) if holds(middle) else (middle + 1, bound)
    return bound


@dataclass(frozen=True, slots=True)
class Spread:
    """What the noise of a paired difference is made of, per problem.

    ``true`` is the variance of the true per-problem difference, ``noise`` the summed answer noise of both sides for
    one answer each: it shrinks with repeats, the other does not.
    """

    true: float
    noise: float

    def sd(self, repeats: float = 1.0) -> float:
        """Standard deviation of a problem's difference of mean rewards."""
        return math.sqrt(max(self.true + self.noise / repeats, 0.0))
