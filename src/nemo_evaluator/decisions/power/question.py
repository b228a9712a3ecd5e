"""What a plan is asked for: the drop to detect with its error rates, and the price of an answer."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PowerQuestion:
    """The drop to detect, and the error rates.

    Attributes:
        drop: The drop, in score units.
        power: The probability of detecting it.
        confidence: Confidence level of the interval.
        correlation: The assumed correlation between the answers of the two sides.
        benchmarks: The size of the suite; None for the number of planned benchmarks.
        repeats: The numbers of repeats to plan for; empty for the default ones.
    """

    drop: float
    power: float = 0.8
    confidence: float = 0.95
    correlation: float = 0.5
    benchmarks: int | None = None
    repeats: Sequence[int] = ()

    @property
    def alpha(self) -> float:
        """The one-sided level of a comparison on its own."""
        return (1 - self.confidence) / 2

    @property
    def suite(self) -> int:
        """The number of benchmarks in the suite."""
        return self.benchmarks or 1


@dataclass(frozen=True, slots=True)
class AnswerPrice:
    """The cost of one answer; unknown parts are None."""

    tokens: float | None = None
    usd: float | None = None
    seconds: float | None = None
