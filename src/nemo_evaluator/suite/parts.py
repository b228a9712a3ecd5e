"""Parts of an evaluation that only some benchmarks need: sandboxes, a Gym verifier, an agent proxy, a traffic log.

Their modules are imported on first use, to keep the start of other runs fast.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from nemo_evaluator.adapters.traffic import TrafficLog
from nemo_evaluator.config import BenchmarkConfig, BudgetConfig
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.models import Endpoint
from nemo_evaluator.models.budget import Budget
from nemo_evaluator.services import RunningService
from nemo_evaluator.solvers.base import MODEL, SANDBOX, BoundSolver
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.suite.clients import Clients

if TYPE_CHECKING:
    from nemo_evaluator.adapters.outside import AgentProxy
    from nemo_evaluator.environments.schemes.gym import GymVerifier
    from nemo_evaluator.sandbox.manager import SandboxManager

_log = logging.getLogger(__name__)


def open_sandboxes(
    bench: BenchmarkConfig, environment: EvalEnvironment, run_id: str, *, stack: AsyncExitStack
) -> SandboxManager | None:
    """Return the sandboxes of a benchmark; None if neither its config nor its environment needs one."""
    settings = None if bench.sandbox.type == "none" else bench.sandbox
    if settings is None and SANDBOX not in environment.facts().needs:
        return None
    from nemo_evaluator.sandbox.manager import SandboxManager  # noqa: PLC0415

    manager = SandboxManager(settings, run_id)
    stack.push_async_callback(manager.close)
    return manager


def open_gym_verifier(name: str, service: RunningService, stack: AsyncExitStack) -> GymVerifier:
    """Return a verifier that uses a Gym server."""
    from nemo_evaluator.environments.schemes.gym import GymVerifier  # noqa: PLC0415

    verifier = GymVerifier(name, service.url, service.lost)
    stack.push_async_callback(verifier.close)
    return verifier


def open_door(
    bench: BenchmarkConfig,
    environment: EvalEnvironment,
    solver: BoundSolver,
    *,
    clients: Clients,
    stack: AsyncExitStack,
) -> AgentProxy | None:
    """Return the proxy through which agents outside this process call the model; None if no such agent is used."""
    is_needed = MODEL in solver.needs or environment.facts().batch
    service = bench.solver.model_service
    if not is_needed or not service:
        return None
    from nemo_evaluator.adapters.outside import AgentProxy  # noqa: PLC0415

    door = AgentProxy(clients.endpoint(service))
    stack.push_async_callback(door.close)
    return door


def open_role_doors(
    environment: EvalEnvironment, *, clients: Clients, stack: AsyncExitStack
) -> dict[str, list[AgentProxy]]:
    """Return the proxies of the models that play roles in a benchmark that runs itself."""
    doors: dict[str, list[AgentProxy]] = {}
    for role, services in environment.role_services.items():
        from nemo_evaluator.adapters.outside import AgentProxy  # noqa: PLC0415

        for service in services:
            if service not in clients:
                raise UsageError(f"no service is called {service!r}", hint=f"params.roles.{role}")
            door = AgentProxy(clients.endpoint(service))
            stack.push_async_callback(door.close)
            doors.setdefault(role, []).append(door)
    return doors


def open_traffic_log(
    task: TaskPaths, keep: Any, stack: AsyncExitStack
) -> Callable[[JsonDict], None] | None:
    """Return a function that records requests and responses; None if ``output.traffic`` is ``none``."""
    if keep == "none":
        return None
    log = TrafficLog(task.traffic, keep=keep)
    stack.callback(log.close)
    return log.write


def make_budget(name: str, config: BudgetConfig | None) -> Budget | None:
    """Return the budget of a ``budget`` block, called ``name`` in messages; None if there is none."""
    if config is None:
        return None
    return Budget(name, **config.model_dump())


def check_solver(
    bench: BenchmarkConfig, environment: EvalEnvironment, endpoint: Endpoint | None
) -> None:
    """Refuse solver settings that have no effect, and a model that does not support the benchmark's requests.

    Raises:
        UsageError: If the solver or the model does not fit.
    """
    unused = sorted(bench.solver.model_fields_set - {"type", "service"})
    if environment.facts().batch and bench.solver.type == "simple" and unused:
        message = f"{bench.key} runs its own solver: solver.{unused[0]} has no effect"
        raise UsageError(message, hint="set it on the service, or in the benchmark's params")
    if environment.endpoint_type == "chat" or endpoint is None:
        return
    if endpoint.protocol == "completions":
        return
    service = bench.solver.model_service
    if environment.endpoint_type == "logprobs":
        hint = (
            f"set protocol: completions on service {service!r}, and a URL that ends in /completions"
        )
        raise UsageError(
            f"{bench.key} asks for log-likelihoods, which chat endpoints do not give", hint=hint
        )
    _log.warning("%s is meant for text completions, but service %r is chat", bench.key, service)
