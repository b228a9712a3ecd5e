"""From a benchmark's config to the parts that the engine runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_evaluator.adapters.door import open_client
from nemo_evaluator.adapters.traffic_log import TrafficLog
from nemo_evaluator.config import BenchmarkConfig, BudgetConfig, EvalConfig
from nemo_evaluator.config.groups import SOLVERS
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.registry import config_folder, load_object
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.engine.evaluation import Evaluation
from nemo_evaluator.engine.plan import Shard
from nemo_evaluator.engine.scope import StepLimits
from nemo_evaluator.engine.template import load_template
from nemo_evaluator.engine.verify import Verifier
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.models import Client, Endpoint, endpoint_of
from nemo_evaluator.models.budget import Budget
from nemo_evaluator.services import service_identity
from nemo_evaluator.solvers.base import MODEL, SANDBOX, SolverContext, bind_solver
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.suite.stop_rule import build_stop_rule

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.manager import SandboxManager
    from nemo_evaluator.services import RunningService

_log = logging.getLogger(__name__)


class Builder:
    """Makes the parts of one benchmark; whatever must be closed goes onto ``stack``."""

    def __init__(
        self,
        config: EvalConfig,
        running: Mapping[str, RunningService],
        run_id: str,
    ) -> None:
        self._config = config
        self._running = running
        self._run_id = run_id
        self._budget = _budget("the run's budget", config.budget)

    async def build(
        self, bench: BenchmarkConfig, output_dir: Path, stack: AsyncExitStack, *, resume: bool, shard: Shard | None
    ) -> Evaluation:
        """Everything ``evaluate`` needs. Raises a NelError with the fix when something cannot be had."""
        environment = get_environment(bench.name, num_fewshot=bench.fewshot, params=bench.params)
        stack.push_async_callback(environment.close)
        environment.full_rows = self._config.output.rows == "full"
        clients = _Clients(self, bench, stack)
        facts, service = environment.facts(), bench.solver.model_service
        if facts.endpoint_type == "completions" and service and clients[service].endpoint.protocol != "completions":
            _log.warning("%s is meant for text completions, and service %r speaks chat", bench.key, service)
        context = SolverContext(clients=clients, base_urls={name: one.url for name, one in self._running.items()})
        solver = SOLVERS.build(bench.solver.type, bench.solver, context)
        bound = bind_solver(solver)
        if bound.close is not None:
            stack.push_async_callback(bound.close)
        sandboxes: SandboxManager | None = None
        wanted = None if bench.sandbox.type == "none" else bench.sandbox
        if wanted is not None or SANDBOX in facts.needs:
            # Loaded by name: most runs need no sandbox, and starting must stay quick.
            sandboxes = load_object("nemo_evaluator.sandbox.manager:SandboxManager")(wanted, self._run_id)
            stack.push_async_callback(sandboxes.close)
        settings = bound.settings
        if SANDBOX in bound.needs and wanted is not None:
            # What an agent's tools can do depends on where they run.
            settings = settings | {"sandbox": wanted.identity()}
        door = None
        if service and (MODEL in bound.needs or facts.batch):
            door = load_object("nemo_evaluator.adapters.outside:AgentDoor")(self._endpoint(service, bench))
            stack.push_async_callback(door.close)
        verifier = Verifier(environment, bench.scoring, clients)
        return Evaluation(
            environment=environment,
            solver=solver,
            task_dir=output_dir / safe_name(bench.key),
            name=environment.name if bench.key in map(safe_name, (bench.name, environment.name)) else bench.key,
            verifier=verifier,
            service=clients[service].describe() if service else {},
            solver_settings=settings,
            config=self._facts(bench, service, settings),
            repeats=bench.repeats,
            max_problems=bench.max_problems,
            shuffle_seed=bench.shuffle_seed,
            only=bench.only,
            shard=shard,
            max_concurrent=bench.max_concurrent,
            min_coverage=bench.min_coverage,
            timeout=bench.timeout,
            max_system_retries=bench.max_system_retries,
            skip_failed=bench.skip_failed,
            template=load_template(bench.instruction_template),
            sandboxes=sandboxes,
            door=door,
            resume=resume,
            stop_rule=build_stop_rule(bench, environment.name, output_dir / safe_name(bench.key)),
            budgets=tuple(filter(None, (self._budget, _budget(f"the budget of {bench.key}", bench.budget)))),
            step_limits=StepLimits(**bench.step_limits.model_dump()) if bench.step_limits else None,
            aggregate=verifier.aggregate,
            traffic=self._traffic(output_dir / safe_name(bench.key), stack),
        )

    def open_client(self, name: str, bench: BenchmarkConfig) -> Client:
        """A client of one service."""
        return open_client(self._endpoint(name, bench))

    def _endpoint(self, name: str, bench: BenchmarkConfig) -> Endpoint:
        """Where a service answers, with as many requests at once as the benchmark has steps."""
        service: Any = self._config.services[name]
        running = self._running[name]
        endpoint = endpoint_of(name, service, url=running.url, base_dir=config_folder.get())
        endpoint = replace(
            endpoint,
            api_key=running.api_key or endpoint.api_key,
            max_concurrent=service.max_concurrent or bench.max_concurrent,
        )
        identity = service_identity(service)
        if identity is not None:
            endpoint = replace(endpoint, identity=identity)
        if self._config.output.traffic == "none":
            endpoint = replace(endpoint, traffic=None)
        return endpoint

    def _traffic(self, task_dir: Path, stack: AsyncExitStack) -> Callable[[JsonDict], None] | None:
        keep = self._config.output.traffic
        if keep == "none":
            return None
        log = TrafficLog(TaskPaths(task_dir).traffic, keep=keep)
        stack.callback(log.close)
        return log.write

    def _facts(self, bench: BenchmarkConfig, service: str | None, solver: JsonDict) -> JsonDict:
        facts: JsonDict = {"service": service, "solver": solver, "params": bench.params, "fewshot": bench.fewshot}
        facts["scorers"] = [metric.name for metric in bench.scoring.metrics] or None
        if service is not None:
            own = getattr(self._config.services[service], "generation", None)
            generation = own.model_dump(exclude_none=True) if own is not None else {}
            facts |= {
                "model": self._config.model_id(service),
                "base_url": self._running[service].url,
                "generation": generation | (solver.get("generation") or {}),
            }
        return facts


def _budget(name: str, config: BudgetConfig | None) -> Budget | None:
    return Budget(name, **config.model_dump()) if config is not None else None


class _Clients(Mapping[str, Client]):
    """Clients by service name, opened on first use and closed with the benchmark."""

    def __init__(self, builder: Builder, bench: BenchmarkConfig, stack: AsyncExitStack) -> None:
        self._builder, self._bench, self._stack = builder, bench, stack
        self._open: dict[str, Client] = {}

    def __getitem__(self, name: str) -> Client:
        if name not in self._open:
            if name not in self._builder._running:
                raise UsageError(f"no service is called {name!r}")
            client = self._builder.open_client(name, self._bench)
            self._stack.push_async_callback(client.close)
            self._open[name] = client
        return self._open[name]

    def __iter__(self) -> Any:
        return iter(self._builder._running)

    def __len__(self) -> int:
        return len(self._builder._running)
