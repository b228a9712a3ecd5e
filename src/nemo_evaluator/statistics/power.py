"""Power analysis: how many problems a difference needs, and which difference a number of problems can detect.

A paired comparison is planned as a one-sample t test on per-problem differences, with the exact noncentral t.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nemo_evaluator.statistics._scipy import noncentral_t_cdf, t_quantile

# No plan asks for more problems than this.
MOST_PROBLEMS: Final = 10_000_000
# With a larger noncentrality the power is 1, and the distribution function loses its digits.
_LARGEST_NONCENTRALITY: Final = 37


def paired_power(effect: float, sd: float, problems: float, *, alpha: float = 0.025) -> float:
    """Power of a one-sided paired t test.

    Args:
        effect: The true mean difference, in score units.
        sd: Standard deviation of a problem's difference.
        problems: Number of problems.
        alpha: Level of the test.
    """
    if problems < 2 or effect <= 0:
        return 0.0
    if sd <= 0:
        return 1.0
    df = problems - 1
    noncentrality = effect / sd * math.sqrt(problems)
    if noncentrality > _LARGEST_NONCENTRALITY:
        return 1.0
    critical_value = t_quantile(1 - alpha, df)
    return 1.0 - noncentral_t_cdf(critical_value, df, noncentrality)


def problems_needed(
    effect: float, sd: float, *, power: float = 0.8, alpha: float = 0.025
) -> int | None:
    """Fewest problems that detect ``effect`` with ``power``; None beyond ten million."""

    def enough(problems: int) -> bool:
        return paired_power(effect, sd, problems, alpha=alpha) >= power

    return first(enough, 2, MOST_PROBLEMS)


def detectable_effect(
    sd: float, problems: int, *, power: float = 0.8, alpha: float = 0.025
) -> float | None:
    """The smallest difference that ``problems`` problems detect with ``power``; None below two problems."""
    if problems < 2:
        return None
    if sd <= 0:
        return 0.0
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
    """The smallest number for which a monotone condition holds, by doubling and bisection.

    Args:
        holds: The condition; once it holds for a number, it must hold for all larger ones.
        low: The first number to try.
        most: The last number to try.

    Returns:
        The number; None when the condition does not hold even for ``most``.
    """
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
    """The variance components of a problem's paired difference.

    Attributes:
        true: Variance of the true difference between problems; repeats do not reduce it.
        noise: Answer noise of both sides together, for one answer each; repeats divide it.
    """

    true: float
    noise: float

    def sd(self, repeats: float = 1.0) -> float:
        """Standard deviation of a problem's difference of mean rewards."""
        return math.sqrt(max(self.true + self.noise / repeats, 0.0))
