"""The contract of an environment: a source of problems and the judge of answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nemo_evaluator.core.types import JsonDict, SandboxSpec, SeedResult, VerifyResult

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.base import Sandbox


class EvalEnvironment(ABC):
    """Every benchmark is one of these.

    Subclasses set ``name`` and give ``seed`` and ``verify``; the rest has defaults. ``scorer_fingerprint`` must
    change when verdicts could change: it is half of the proof that an old verdict may be reused.
    """

    name: str = ""
    # The dataset: a plain list, or any lazily read sequence.
    _dataset: Sequence[Any] = ()

    @property
    def dataset(self) -> Sequence[Any]:
        """The rows; not necessarily in memory."""
        return self._dataset

    def __len__(self) -> int:
        return len(self.dataset)

    async def dataset_size(self) -> int:
        """How many problems there are."""
        return len(self)

    @abstractmethod
    async def seed(self, idx: int) -> SeedResult:
        """Problem number ``idx`` as it is asked."""

    @abstractmethod
    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **metadata: Any
    ) -> VerifyResult:
        """What an answer is worth."""

    async def verify_answer(self, response: str, seed: SeedResult, sandbox: Sandbox | None = None) -> VerifyResult:
        """What the engine calls. Metadata keys that collide with parameter names of ``verify`` are withheld from
        its keywords; environments that want every column override this method instead."""
        taken = {"response", "expected", "sandbox", "self"}
        metadata = {key: value for key, value in seed.metadata.items() if key not in taken}
        return await self.verify(response, seed.expected_answer, sandbox=sandbox, **metadata)

    def scorer_fingerprint(self) -> str:
        """Identity of the scoring code and its settings."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    async def sandbox_specs(self) -> list[SandboxSpec] | None:
        """The sandboxes the problems will need, for pre-pulling; None when unknown or none."""
        return None

    async def run_batch(self, solver: object, config: JsonDict) -> JsonDict | None:
        """Run the whole benchmark at once and return its bundle; None means: use the loop."""
        return None

    async def prepare(self) -> None:  # noqa: B027 - a hook, not a duty
        """Called once before the first problem."""

    async def image_build_requests(self) -> list[Any] | None:
        """Images to build before the first problem."""
        return None

    async def close(self) -> None:  # noqa: B027 - a hook, not a duty
        """Called once after the last problem."""
