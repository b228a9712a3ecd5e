"""The contract of a metric: one async call from an answer to a reward, and an identity for fingerprints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.core.values import dataclass, field

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.base import Sandbox


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
