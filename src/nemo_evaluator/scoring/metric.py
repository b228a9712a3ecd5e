"""The contract of a metric: one async call from an answer to a reward, and an identity for fingerprints. And canaries:
a right and a wrong answer that a judge must tell apart before it may judge, which catches one that says yes to all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol, Self, runtime_checkable

from nemo_evaluator.core.errors import JudgeError
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.core.values import dataclass, field

if TYPE_CHECKING:
    from nemo_evaluator.models import Client
    from nemo_evaluator.sandbox.base import Sandbox

# Wrong, rude and careless at once, so that it is worse by most rubrics.
_WRONG: Final = "berlin, obviously. what a stupid question"
_HINT: Final = (
    "use another judge or fix the rubric, then run again with --resume (finished answers are reused); for a rubric "
    "that rightly gives both the same grade, set canaries: false on the metric"
)


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

    seed: SeedResult = field(default_factory=lambda: SeedResult("What is the capital of France?", "Paris"))
    right: str = "The capital of France is Paris."
    wrong: str = _WRONG
    sure: bool = True

    @classmethod
    def of(cls, seed: SeedResult) -> Self | None:
        """From a problem of the benchmark: its reference is the right answer. None when it has no reference."""
        if not seed.expected_answer.strip():
            return None
        return cls(seed, seed.expected_answer, "I will not answer that. what a stupid question", sure=False)


@runtime_checkable
class Checkable(Protocol):
    """A metric that is checked before it is used."""

    name: str

    # What became of the canaries; ``first`` is a problem of the benchmark. Raises JudgeError when one failed.
    async def check(self, first: SeedResult) -> JsonDict: ...


async def run_canaries(
    wanted: bool, judge: Client, canary: Canary | None, measure: Callable[[MetricInput], Awaitable[MetricResult]]
) -> JsonDict:
    """Judge both answers, where that is ``wanted``. Raises JudgeError when the judge does not tell them apart."""
    if not wanted:
        return {"skipped": "canaries: false"}
    if canary is None:
        return {"skipped": "the benchmark has its own question for the judge and no reference answer"}
    right, wrong = [await measure(MetricInput(text, canary.seed)) for text in (canary.right, canary.wrong)]
    told = right.reward > 0.5 > wrong.reward if canary.sure else right.reward != wrong.reward
    if not told:
        raise JudgeError(
            f"the judge {judge.endpoint.name!r} cannot tell a right answer from a wrong one: it gave "
            f"{right.reward:.2g} to {canary.right[:80]!r} and {wrong.reward:.2g} to {canary.wrong[:80]!r}",
            hint=_HINT,
        )
    facts: JsonDict = {"right": right.reward, "wrong": wrong.reward}
    for key in ("judge_tokens", "judge_cost_usd"):
        spent = [one.details[key] for one in (right, wrong) if one.details.get(key) is not None]
        if spent:
            facts[key] = sum(spent)
    return facts
