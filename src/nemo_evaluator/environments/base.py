"""The interface of an environment: it provides problems and scores answers."""

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
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.environments.clusters import (
    ClusterKey,
    Independent,
    checked_column,
    cluster_label,
)

if TYPE_CHECKING:
    from nemo_evaluator.core.types import ModelAccess
    from nemo_evaluator.models import Client
    from nemo_evaluator.sandbox.base import OutsideEndpoint, Sandbox
    from nemo_evaluator.sandbox.manager import SandboxManager
    from nemo_evaluator.store.bundle_document import ScoreEntry

_OURS: Final = "nemo_evaluator."


@dataclass(frozen=True, slots=True)
class EnvironmentFacts:
    """The facts about a benchmark that the engine needs before the first problem."""

    # Any of: judge, sandbox, images, tools.
    needs: frozenset[str] = frozenset()
    # The endpoint that the prompts need: chat, completions, or logprobs (completions with prompt log-likelihoods).
    endpoint_type: str = "chat"
    # Whether a fallback scorer can replace the judge.
    has_fallback: bool = False
    # Computes further scores of the benchmark from the scoring details of all rows.
    summary: Callable[..., Mapping[str, float]] | None = None
    # The scores of ``summary`` that represent the benchmark, if the mean reward does not.
    headline: tuple[str, ...] = ()
    # Whether ``run_batch`` runs the whole benchmark at once.
    batch: bool = False

    @property
    def needs_judge(self) -> bool:
        """Whether a judge model scores the answers."""
        return "judge" in self.needs


@dataclass(slots=True)
class BatchRow:
    """A finished problem of an environment that runs the whole benchmark itself.

    Attributes:
        problem_idx: The number of the problem.
        seed: The problem.
        answer: The answer.
        outcome: The verdict, or the failure with its cause.
        repeat: The number of the repeat, from 0.
    """

    problem_idx: int
    seed: SeedResult
    answer: SolveResult
    outcome: Outcome
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class RoleAccess:
    """The model of a role, such as a grader, in a benchmark that runs itself: its proxy and generation settings."""

    model: ModelAccess
    generation: JsonDict


@dataclass(frozen=True, slots=True)
class BatchJob:
    """The work for an environment that runs a whole benchmark at once."""

    # The unfinished steps, in order; on resume, those that the journal lacks.
    steps: Sequence[Step]
    # The proxy for its model calls, so that budgets, cache and traffic limits apply.
    model: ModelAccess | None
    # A folder for its own files; it is kept with the run.
    folder: Path
    # The proxies of the models of other roles: several if a role has several models.
    roles: Mapping[str, Sequence[RoleAccess]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WholeRun:
    """The context of a benchmark that knows its problems only after it has run; see `RunsFirst`."""

    # The proxy for its model calls, and how its sandbox reaches the proxy.
    model: ModelAccess
    endpoints: Sequence[OutsideEndpoint]
    protocol: str
    sandboxes: SandboxManager
    folder: Path
    # The solver's settings, and everything else that answers depend on: earlier results are reused only if both match.
    settings: JsonDict
    identity: JsonDict
    timeout: float
    max_problems: int | None
    repeats: int
    resume: bool


@runtime_checkable
class RunsFirst(Protocol):
    """An environment that knows its problems only after it has run."""

    async def run_first(self, run: WholeRun) -> None:
        """Run the benchmark; the engine calls this once, before `EvalEnvironment.dataset_size`."""

    def repeats_of_rows(self) -> int:
        """Return how often the benchmark asked each problem; the plan has as many repeats."""

    def reported_score(self) -> ScoreEntry | None:
        """Return the score and interval that the benchmark reported; None if they follow from its rows."""


class EvalEnvironment(ABC):
    """The base class of every benchmark.

    Subclasses set ``name`` and implement `seed` and `verify`; everything else has defaults. `scorer_fingerprint` must
    change whenever verdicts could change, because nel reuses an old verdict only if the fingerprint is the same.
    """

    name: str = ""
    # Whether rows include the columns that the prompt shows already, and the trajectory (``output.rows: full``).
    full_rows: bool = False
    # What the user should know before the first request.
    warnings: Sequence[str] = ()
    # The column, or the function of a row, whose value problems of one cluster share; or why there are no clusters.
    cluster: ClusterKey = None
    # The column that the user names instead; empty for the benchmark's own.
    chosen_cluster: str = ""
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
        """Return the number of problems."""
        return len(self)

    def expect(self, problems: Sequence[int]) -> None:  # noqa: B027 - most have nothing to gain
        """Announce the problems that come next; an environment may read them together."""

    @abstractmethod
    async def seed(self, idx: int) -> SeedResult:
        """Return a problem.

        Args:
            idx: The number of the problem, from 0.

        Raises:
            SeedError: The problem cannot be built.
        """

    def cluster_by(self, column: object) -> None:
        """Use the cluster that the user names with ``params: {cluster: ...}``.

        Args:
            column: The column of the problems; without such a column, each problem fails with the columns it has.

        Raises:
            UsageError: It is not the name of a column.
        """
        self.chosen_cluster = checked_column(column, [], self.name)
        self.cluster = self.chosen_cluster

    def cluster_columns(self, idx: int, problem: SeedResult) -> Mapping[str, Any]:
        """Return the columns of a problem that `cluster` can name: its metadata, and its row if that is a dict.

        Args:
            idx: The number of the problem.
            problem: The problem.
        """
        row = self.dataset[idx] if idx < len(self.dataset) else None
        return {**(row if isinstance(row, dict) else {}), **problem.metadata}

    def add_cluster(self, idx: int, problem: SeedResult) -> None:
        """Set the cluster of a problem; the engine calls this after `seed`.

        Args:
            idx: The number of the problem.
            problem: The problem.

        Raises:
            UsageError: The problem has no such column.
        """
        if problem.cluster or self.cluster is None or isinstance(self.cluster, Independent):
            return
        columns = self.cluster_columns(idx, problem)
        if isinstance(self.cluster, str):
            checked_column(self.cluster, sorted(columns), self.name)
        problem.cluster = cluster_label(self.cluster, columns)

    @abstractmethod
    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **metadata: Any
    ) -> VerifyResult:
        """Score an answer.

        Args:
            response: The text of the answer.
            expected: The expected answer of the problem.
            sandbox: The sandbox of the problem, if it has one.
            **metadata: The metadata of the problem.

        Raises:
            ScorerError: The answer cannot be scored.
        """

    async def verify_answer(
        self, response: str, seed: SeedResult, sandbox: Sandbox | None = None
    ) -> VerifyResult:
        """Score an answer to a problem; this is what the engine calls.

        The default calls `verify` with the problem's metadata as keywords, except keys that collide with its
        parameters. Environments that need every key override this method.
        """
        reserved_names = {"response", "expected", "sandbox", "self"}
        metadata = {key: value for key, value in seed.metadata.items() if key not in reserved_names}
        return await self.verify(response, seed.expected_answer, sandbox=sandbox, **metadata)

    def scorer_fingerprint(self) -> str:
        """Return the identity of the scoring code and its settings.

        For a user's class, it covers the text of its file and of the files that this imports.
        """
        own_class = type(self)
        file = class_file(own_class)
        name = f"{own_class.__module__}.{own_class.__qualname__}"
        if file is None or own_class.__module__.startswith(_OURS):
            return name
        source = file.read_text(encoding="utf-8", errors="replace")
        return digest(
            [own_class.__qualname__, digest_parts(source), imported_sources([file]).digest()]
        )

    async def sandbox_specs(self) -> list[SandboxSpec] | None:
        """Return the sandboxes that the problems need, so that nel can pull images early; None if unknown or none."""
        return None

    @classmethod
    def facts(cls) -> EnvironmentFacts:
        """Return what the benchmark needs and how it runs.

        By default it needs a judge if the code of the class mentions ``needs_judge``.
        """
        visited: set[object] = set()
        own_classes = [owner for owner in cls.__mro__ if owner not in EvalEnvironment.__mro__]
        for owner in own_classes:
            for member in vars(owner).values():
                if "needs_judge" in code_words(member, visited):
                    return EnvironmentFacts(frozenset({"judge"}))
        return EnvironmentFacts(frozenset())

    @property
    def endpoint_type(self) -> str:
        """The kind of endpoint that the prompts need; override it if this is known only for an open benchmark."""
        return self.facts().endpoint_type

    @property
    def compares_target(self) -> bool:
        """Whether scoring compares answers with the expected answer, so that an empty one makes every answer wrong."""
        return False

    @property
    def own_repeats(self) -> int:
        """The number of answers per problem that the benchmark asks for; ``repeats`` in a config overrides it."""
        return 1

    @property
    def least_repeats(self) -> int:
        """The smallest number of answers per problem that the benchmark can aggregate."""
        return 1

    @property
    def role_services(self) -> Mapping[str, Sequence[str]]:
        """The services that play roles, such as a grader, in a benchmark that runs itself."""
        return {}

    def summarize(self, details: Iterable[JsonDict]) -> Mapping[str, float]:
        """Compute further scores of the benchmark from the scoring details of all scored rows."""
        summary = self.facts().summary
        if summary is None:
            return {}
        return summary(details)

    def run_batch(self, job: BatchJob) -> AsyncIterator[BatchRow]:
        """Run the whole benchmark and yield each row when it finishes; only called if `facts` say ``batch``."""
        raise NotImplementedError(f"{type(self).__name__} says batch and has no run_batch")

    async def use_model(self, client: Client) -> None:  # noqa: B027 - a hook, not a duty
        """Receive the client of the model before the first problem, for prompts that depend on the model's tokens."""

    async def prepare(self) -> None:  # noqa: B027 - a hook, not a duty
        """Prepare the environment; the engine calls this once, before the first problem."""

    async def image_build_requests(self) -> list[Any] | None:
        """Return the images to build before the first problem; None if there are none."""
        return None

    async def close(self) -> None:  # noqa: B027 - a hook, not a duty
        """Release resources; the engine calls this once, after the last problem."""
