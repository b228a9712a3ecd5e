"""The contract of a solver: it turns a problem into an answer, with one model call or a whole agent."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from nemo_evaluator.core.types import ErrorKind as ErrorKind
from nemo_evaluator.core.types import JsonDict, ModelAccess, SeedResult, SolveResult
from nemo_evaluator.core.values import dataclass, field

if TYPE_CHECKING:
    from nemo_evaluator.models import Client
    from nemo_evaluator.sandbox.base import Sandbox

# What a solver may need for an attempt: a sandbox, and a door to the model for an agent that lives outside.
SANDBOX: Final = "sandbox"
MODEL: Final = "model"
_KNOWN: Final = (SANDBOX, MODEL)


@dataclass(frozen=True, slots=True)
class SolverContext:
    """What the builder of a solver may use: clients of the config's services, and their addresses.

    ``lost`` tells of each service that is ours to start why it will not come back, if that is so.
    """

    clients: Mapping[str, Client]
    base_urls: Mapping[str, str] = field(default_factory=dict)
    lost: Mapping[str, Callable[[], str | None] | None] = field(default_factory=dict)


@runtime_checkable
class Solver(Protocol):
    """One async call.

    A solver says with ``needs`` what ``solve`` is called with by keyword: ``"sandbox"`` (a Sandbox, or None where the
    benchmark has none) and ``"model"`` (a ModelAccess: URL and key for an agent that lives outside; in a sandbox the
    same are set as MODEL_BASE_URL, MODEL_API_KEY, OPENAI_BASE_URL and OPENAI_API_KEY). Without ``needs``, the
    parameters of ``solve`` say it. Two optional methods: ``describe() -> JsonDict`` (the settings that change answers;
    part of the fingerprint) and ``async close()``.
    """

    async def solve(self, task: SeedResult) -> SolveResult:
        """Answer one problem. Raises a BoundaryError when the outside world failed."""


@dataclass(frozen=True, slots=True)
class BoundSolver:
    """A solver as the engine sees it: what it needs is said, whoever wrote it."""

    call: Callable[..., Awaitable[Any]]
    needs: frozenset[str]
    settings: JsonDict
    close: Callable[[], Awaitable[None]] | None = None

    def solve(
        self, task: SeedResult, sandbox: Sandbox | None, model: ModelAccess | None
    ) -> Awaitable[Any]:
        """Answer one problem with what the solver needs."""
        if not self.needs:
            return self.call(task)
        given = {SANDBOX: sandbox, MODEL: model}
        return self.call(task, **{name: given[name] for name in self.needs})


def bind_solver(solver: Any) -> BoundSolver:
    """The one place where a solver's shape is looked at: solvers are anybody's code."""
    parameters = inspect.signature(solver.solve).parameters
    declared = getattr(solver, "needs", None)
    needs = frozenset(_KNOWN) & frozenset(parameters if declared is None else declared)
    named = {"class": f"{type(solver).__module__}.{type(solver).__qualname__}"}
    if hasattr(solver, "describe"):
        settings: Any | dict[str, str] = solver.describe()
    else:
        settings = named
    return BoundSolver(solver.solve, needs, settings, close=getattr(solver, "close", None))
