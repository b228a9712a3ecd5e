"""The contract of a solver, which turns a problem into an answer with one model call or a whole agent."""

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

# What a solver may need for an attempt: a sandbox, and URL and key of the model for an agent outside this process.
SANDBOX: Final = "sandbox"
MODEL: Final = "model"
_KNOWN: Final = (SANDBOX, MODEL)


@dataclass(frozen=True, slots=True)
class SolverContext:
    """What the builder of a solver may use of the config's services.

    Attributes:
        clients: The client of each model service, by its name.
        base_urls: The address of each service, by its name.
        lost: For each service that nel starts itself, a function that returns why the service will not come back, or
            None while it may.
    """

    clients: Mapping[str, Client]
    base_urls: Mapping[str, str] = field(default_factory=dict)
    lost: Mapping[str, Callable[[], str | None] | None] = field(default_factory=dict)


@runtime_checkable
class Solver(Protocol):
    """A solver: one async method that answers a problem.

    ``needs`` lists the keyword arguments that ``solve`` is called with: ``"sandbox"`` (a Sandbox, or None where the
    benchmark has none) and ``"model"`` (a ModelAccess: URL and key for an agent outside this process; inside a sandbox
    the same values are set as MODEL_BASE_URL, MODEL_API_KEY, OPENAI_BASE_URL and OPENAI_API_KEY). Without ``needs``,
    the parameter names of ``solve`` decide. Two methods are optional: ``describe() -> JsonDict`` (the settings that
    change answers; part of the fingerprint) and ``async close()``.
    """

    async def solve(self, task: SeedResult) -> SolveResult:
        """Answer one problem.

        Args:
            task: The problem.

        Returns:
            The answer, with its trajectory and usage.

        Raises:
            BoundaryError: Something outside the solver failed: the model, the sandbox, a tool server.
        """


@dataclass(frozen=True, slots=True)
class BoundSolver:
    """A solver as the engine calls it, with its requirements made explicit.

    Attributes:
        call: The solver's ``solve`` method.
        needs: The keyword arguments that it takes: ``sandbox``, ``model``, both or none.
        settings: The settings that change answers; part of the fingerprint.
        close: The solver's ``close`` method, if it has one.
    """

    call: Callable[..., Awaitable[Any]]
    needs: frozenset[str]
    settings: JsonDict
    close: Callable[[], Awaitable[None]] | None = None

    def solve(
        self, task: SeedResult, sandbox: Sandbox | None, model: ModelAccess | None
    ) -> Awaitable[Any]:
        """Answer one problem, passing on only what the solver needs.

        Args:
            task: The problem.
            sandbox: The problem's sandbox, if it has one.
            model: URL and key of the model, if the solver needs them.

        Returns:
            What the solver returns; user-written solvers may return anything, so it is not checked here.
        """
        if not self.needs:
            return self.call(task)
        resources = {SANDBOX: sandbox, MODEL: model}
        return self.call(task, **{name: resources[name] for name in self.needs})


def bind_solver(solver: Any) -> BoundSolver:
    """Inspect a solver and bind what it needs and describes.

    Solvers may be written by users; this is the only function that inspects their shape.

    Args:
        solver: An object with a ``solve`` method.

    Returns:
        The solver with its requirements and settings; without ``describe``, the settings are its class name.
    """
    parameters = inspect.signature(solver.solve).parameters
    declared = getattr(solver, "needs", None)
    needs = frozenset(_KNOWN) & frozenset(parameters if declared is None else declared)
    class_name_only = {"class": f"{type(solver).__module__}.{type(solver).__qualname__}"}
    if hasattr(solver, "describe"):
        settings: Any | dict[str, str] = solver.describe()
    else:
        settings = class_name_only
    return BoundSolver(solver.solve, needs, settings, close=getattr(solver, "close", None))
