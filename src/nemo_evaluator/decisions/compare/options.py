"""How to compare two runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from nemo_evaluator.decisions.pairing import PairBy

if TYPE_CHECKING:
    from nemo_evaluator.config.gate_policy import Direction

TestName: TypeAlias = Literal["auto", "mcnemar", "sign", "permutation"]

DEFAULT_MAX_DROP: Final = 0.05


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How to compare.

    Attributes:
        max_drop: The largest acceptable drop.
        correct_above: A problem is right when its mean reward is above this; for flips and McNemar's test.
        test: The additional significance test.
        confidence: Confidence level of the interval.
        pair_by: Pair problems by content or by index.
        seed: Seed of the permutation test.
        direction: Whether a higher reward is better.
    """

    max_drop: float = DEFAULT_MAX_DROP
    correct_above: float = 0.0
    test: TestName = "auto"
    confidence: float = 0.95
    pair_by: PairBy = "auto"
    seed: int = 42
    direction: Direction = "higher_is_better"

    @property
    def alpha(self) -> float:
        """The one-sided level."""
        return (1 - self.confidence) / 2

    @property
    def better(self) -> float:
        """The sign of a good difference: 1 when a higher reward is better, else -1."""
        return 1.0 if self.direction == "higher_is_better" else -1.0
