"""The contract of a solver: it turns a problem into an answer, with one model call or a whole agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from nemo_evaluator.core.types import JsonDict, SeedResult, SolveResult

if TYPE_CHECKING:
    from nemo_evaluator.models import Client
    from nemo_evaluator.sandbox.base import Sandbox


@dataclass(frozen=True, slots=True)
class SolverContext:
    """What the builder of a solver may use: clients of the config's services, and their addresses."""

    clients: Mapping[str, Client]
    base_urls: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Solver(Protocol):
    """One async call. A solver that wants the sandbox names a ``sandbox`` parameter.

    Two optional methods: ``describe() -> JsonDict`` (the settings that change answers; part of the fingerprint)
    and ``async close()``.
    """

    async def solve(self, task: SeedResult) -> SolveResult:
        """Answer one problem. Raises a BoundaryError when the outside world failed."""
        ...


class SandboxedSolver(Protocol):
    """A solver that works inside a sandbox."""

    async def solve(self, task: SeedResult, sandbox: Sandbox | None = None) -> SolveResult:
        """Answer one problem inside ``sandbox``."""
        ...


def describe_solver(solver: object) -> JsonDict:
    """The settings of a solver that change its answers."""
    describe = getattr(solver, "describe", None)
    if describe is not None:
        described: JsonDict = describe()
        return described
    return {"class": f"{type(solver).__module__}.{type(solver).__qualname__}"}
