"""The contract of a metric: one async call from an answer to a reward, and an identity for fingerprints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, Self, runtime_checkable

from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.core.values import dataclass, field

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.base import Sandbox
    from nemo_evaluator.store.journal_record import JudgeCheck

# Wrong, rude and careless at once, so that it is worse by most rubrics.
_WRONG: Final = "berlin, obviously. what a stupid question"


@dataclass(slots=True)
class MetricInput:
    """One answer to judge.

    Attributes:
        response: The answer.
        seed: The problem.
        sandbox: The sandbox of the sample, if it has one.
        found: The score of the benchmark's own scorer.
    """

    response: str
    seed: SeedResult
    sandbox: Sandbox | None = None
    found: JsonDict = field(default_factory=dict)


@dataclass(slots=True)
class MetricResult:
    """A reward, and the details that a row keeps of it."""

    reward: float
    details: JsonDict = field(default_factory=dict)


@runtime_checkable
class Metric(Protocol):
    """One measurement of ``scoring.metrics``.

    A method ``aggregate(details of every scored row)`` may return further scores by name.

    Attributes:
        name: The name in the config and in results.
        fingerprint: Changes when a reward could change.
    """

    name: str
    fingerprint: str

    async def measure(self, sample: MetricInput) -> MetricResult:
        """Judge one answer.

        Raises:
            JudgeError, ScorerError, SandboxError: If the harness failed: such a row is failed, never a 0.
        """


@dataclass(frozen=True, slots=True)
class Canary:
    """A problem with a right and a wrong answer, which a judge must tell apart.

    Attributes:
        seed: The problem.
        right: The right answer.
        wrong: The wrong answer.
        sure: Whether the rubric must pass the right one and fail the wrong one; else the grades must only differ.
    """

    seed: SeedResult = field(
        default_factory=lambda: SeedResult("What is the capital of France?", "Paris")
    )
    right: str = "The capital of France is Paris."
    wrong: str = _WRONG
    sure: bool = True

    @classmethod
    def of(cls, seed: SeedResult) -> Self | None:
        """Create a canary from a problem of the benchmark, whose reference is the right answer.

        Returns:
            The canary; None when the problem has no reference.
        """
        if not seed.expected_answer.strip():
            return None
        return cls(
            seed, seed.expected_answer, "I will not answer that. what a stupid question", sure=False
        )


@runtime_checkable
class Checkable(Protocol):
    """A metric that is checked before it is used."""

    name: str

    async def check(self, first: SeedResult) -> JudgeCheck:
        """Judge the canaries.

        Args:
            first: A problem of the benchmark.

        Raises:
            JudgeError: The judge fails them.
        """
