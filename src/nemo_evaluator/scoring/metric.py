"""The contract of a metric: one async call from an answer to a reward, and an identity for fingerprints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, Self, runtime_checkable

from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.core.values import dataclass, field

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.base import Sandbox

# Wrong, rude and careless at once, so that it is worse by most rubrics.
_WRONG: Final = "berlin, obviously. what a stupid question"


@dataclass(slots=True)
class MetricInput:
    """One answer, the problem it answers, the sandbox if there is one, and what the benchmark's own scorer found."""

    response: str
    seed: SeedResult
    sandbox: Sandbox | None = None
    found: JsonDict = field(default_factory=dict)


@dataclass(slots=True)
class MetricResult:
    """A reward and what stands behind it."""

    reward: float
    details: JsonDict = field(default_factory=dict)


@runtime_checkable
class Metric(Protocol):
    """One measurement of ``scoring.metrics``. ``fingerprint`` changes when a reward could change. ``measure`` raises
    JudgeError, ScorerError or SandboxError when the harness failed: such a row is failed, never a 0. A method
    ``aggregate(details of every scored row)`` may give further scores by name."""

    name: str
    fingerprint: str

    async def measure(self, sample: MetricInput) -> MetricResult: ...


@dataclass(frozen=True, slots=True)
class Canary:
    """A problem with a right and a wrong answer. ``sure`` says that the judge's rubric can only mean it so."""

    seed: SeedResult = field(
        default_factory=lambda: SeedResult("What is the capital of France?", "Paris")
    )
    right: str = "The capital of France is Paris."
    wrong: str = _WRONG
    sure: bool = True

    @classmethod
    def of(cls, seed: SeedResult) -> Self | None:
        """From a problem of the benchmark: its reference is the right answer. None when it has no reference."""
        if not seed.expected_answer.strip():
            return None
        return cls(
            seed, seed.expected_answer, "I will not answer that. what a stupid question", sure=False
        )


@runtime_checkable
class Checkable(Protocol):
    """A metric that is checked before it is used."""

    name: str

    # What became of the canaries; ``first`` is a problem of the benchmark. Raises JudgeError when one failed.
    async def check(self, first: SeedResult) -> JsonDict: ...
