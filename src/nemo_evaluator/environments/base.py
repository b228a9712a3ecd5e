"""The contract of an environment: a source of problems and the judge of answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from nemo_evaluator.core.code_words import class_file, code_words
from nemo_evaluator.core.hashing import digest, digest_parts
from nemo_evaluator.core.local_sources import imported_sources
from nemo_evaluator.core.types import (
    JsonDict,
    Outcome,
    SandboxSpec,
    SeedResult,
    SolveResult,
    Step,
    VerifyResult,
)
from nemo_evaluator.core.values import dataclass

if TYPE_CHECKING:
    from nemo_evaluator.core.types import ModelAccess
    from nemo_evaluator.models import Client
    from nemo_evaluator.sandbox.base import OutsideEndpoint, Sandbox
    from nemo_evaluator.sandbox.manager import SandboxManager

_OURS: Final = "nemo_evaluator."


@dataclass(frozen=True, slots=True)
class EnvironmentFacts:
    """What the engine must know of a benchmark before it asks the first problem."""

    # judge, sandbox, images, tools
    needs: frozenset[str] = frozenset()
    # chat or completions: what its prompts are written for; logprobs: completions with log-likelihoods of prompts.
    endpoint_type: str = "chat"
    # Whether it can say something without the judge that it needs.
    has_fallback: bool = False
    # From the scoring details of all rows to further numbers of the benchmark.
    summary: Callable[..., Mapping[str, float]] | None = None
    # Whether ``run_batch`` runs the whole benchmark at once.
    batch: bool = False

    @property
    def needs_judge(self) -> bool:
        """Whether verdicts are left to a judge."""
        return "judge" in self.needs


@dataclass(slots=True)
class BatchRow:
    """One finished problem of an environment that runs all of them itself: scored, or failed with a cause."""

    problem_idx: int
    seed: SeedResult
    answer: SolveResult
    outcome: Outcome
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class BatchJob:
    """The work of an environment that runs a whole benchmark at once."""

    # The steps that are not finished yet, in order: on resume, those that the journal lacks.
    steps: Sequence[Step]
    # Where its model calls go, so that budgets, cache and traffic hold.
    model: ModelAccess | None
    # A folder for its own files; it stays with the run.
    folder: Path


@dataclass(frozen=True, slots=True)
class WholeRun:
    """What a benchmark that knows its problems only once it has run is run with; see ``RunsFirst``."""

    # Where its model calls go, and how its sandbox reaches that.
    model: ModelAccess
    endpoints: Sequence[OutsideEndpoint]
    protocol: str
    sandboxes: SandboxManager
    folder: Path
    # The solver's settings; what else answers depend on, for the proof that earlier ones may be used.
    settings: JsonDict
    identity: JsonDict
    timeout: float
    max_problems: int | None
    repeats: int
    resume: bool


@runtime_checkable
class RunsFirst(Protocol):
    """An environment whose problems are known only when it has run."""

    async def run_first(self, run: WholeRun) -> None:
        """Called once, before the number of problems is asked."""


class EvalEnvironment(ABC):
    """Every benchmark is one of these.

    Subclasses set ``name`` and give ``seed`` and ``verify``; the rest has defaults. ``scorer_fingerprint`` must
    change when verdicts could change: it is half of the proof that an old verdict may be reused.
    """

    name: str = ""
    # Whether rows repeat the columns that the prompt shows already, and hold the trajectory (``output.rows: full``).
    full_rows: bool = False
    # The dataset: a plain list, or any lazily read sequence.
    _dataset: Sequence[Any] = ()

    @property
    def dataset(self) -> Sequence[Any]:
        """The rows; not necessarily in memory. Subclasses may set them: ``self.dataset = [...]``."""
        return self._dataset

    @dataset.setter
    def dataset(self, rows: Sequence[Any]) -> None:
        self._dataset = rows

    def __len__(self) -> int:
        return len(self.dataset)

    async def dataset_size(self) -> int:
        """How many problems there are."""
        return len(self)

    def expect(self, problems: Sequence[int]) -> None:  # noqa: B027 - most have nothing to gain
        """Told which problems are asked next, in case reading them together is cheaper."""

    @abstractmethod
    async def seed(self, idx: int) -> SeedResult:
        """Problem number ``idx`` as it is asked."""

    @abstractmethod
    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **metadata: Any
    ) -> VerifyResult:
        """What an answer is worth."""

    async def verify_answer(
        self, response: str, seed: SeedResult, sandbox: Sandbox | None = None
    ) -> VerifyResult:
        """What the engine calls. Metadata keys that collide with parameter names of ``verify`` are withheld from
        its keywords; environments that want every column override this method instead."""
        taken = {"response", "expected", "sandbox", "self"}
        metadata = {key: value for key, value in seed.metadata.items() if key not in taken}
        return await self.verify(response, seed.expected_answer, sandbox=sandbox, **metadata)

    def scorer_fingerprint(self) -> str:
        """Identity of the scoring code and its settings: for a user's class the text of its file and of what that
        imports."""
        kind = type(self)
        file = class_file(kind)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if file is None or kind.__module__.startswith(_OURS):
            return name
        text = file.read_text(encoding="utf-8", errors="replace")
        return digest([kind.__qualname__, digest_parts(text), imported_sources([file]).digest()])

    async def sandbox_specs(self) -> list[SandboxSpec] | None:
        """The sandboxes the problems will need, for pre-pulling; None when unknown or none."""
        return None

    @classmethod
    def facts(cls) -> EnvironmentFacts:
        """What the benchmark needs and how it is run; a judge, where the code of the class says ``needs_judge``."""
        seen: set[object] = set()
        own = [kind for kind in cls.__mro__ if kind not in EvalEnvironment.__mro__]
        judged = any(
            "needs_judge" in code_words(part, seen) for kind in own for part in vars(kind).values()
        )
        return EnvironmentFacts(frozenset({"judge"} if judged else ()))

    @property
    def endpoint_type(self) -> str:
        """What its prompts are written for, where that is known only once the benchmark is open."""
        return self.facts().endpoint_type

    def summarize(self, details: Iterable[JsonDict]) -> Mapping[str, float]:
        """From the scoring details of all scored rows to further numbers of the benchmark."""
        summary = self.facts().summary
        if summary is None:
            return {}
        return summary(details)

    def run_batch(self, job: BatchJob) -> AsyncIterator[BatchRow]:
        """Run the whole benchmark, giving rows as they are finished; called when the facts say ``batch``."""
        raise NotImplementedError(f"{type(self).__name__} says batch and has no run_batch")

    async def use_model(self, client: Client) -> None:  # noqa: B027 - a hook, not a duty
        """Told which model will be asked, before a problem is made: some are written in the model's tokens."""

    async def prepare(self) -> None:  # noqa: B027 - a hook, not a duty
        """Called once before the first problem."""

    async def image_build_requests(self) -> list[Any] | None:
        """Images to build before the first problem."""
        return None

    async def close(self) -> None:  # noqa: B027 - a hook, not a duty
        """Called once after the last problem."""
