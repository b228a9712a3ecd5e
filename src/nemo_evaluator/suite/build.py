"""From a config to the evaluations that the engine runs."""

import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from nemo_evaluator.adapters.traffic import TrafficLog
from nemo_evaluator.config import BenchmarkConfig, BudgetConfig, EvalConfig
from nemo_evaluator.config.groups import SOLVERS
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.stop_rule import build_stop_rule
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.engine.plan import Shard
from nemo_evaluator.engine.scope import StepLimits
from nemo_evaluator.engine.template import load_template
from nemo_evaluator.engine.verify import Verifier
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.models import Endpoint
from nemo_evaluator.models.budget import Budget
from nemo_evaluator.services import RunningService
from nemo_evaluator.solvers.base import MODEL, SANDBOX, SolverContext, bind_solver
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.suite.clients import Clients

_log = logging.getLogger(__name__)


class Builder:
    """Takes a config apart, once, and makes the evaluation of each of its benchmarks from the parts."""

    def __init__(
        self,
        config: EvalConfig,
        running: Mapping[str, RunningService],
        run_id: str,
        *,
        detach: bool = False,
    ) -> None:
        self._benches = {bench.key: bench for bench in config.benchmarks}
        self._settings = config.services
        self.running = running
        self._run_id = run_id
        logged = config.output.traffic != "none"
        self._clients = partial(Clients, config.services, running, logged=logged, detach=detach)
        self._urls = {name: one.url for name, one in running.items()}
        self._lost = {name: one.lost for name, one in running.items()}
        self._budget = _budget("the run's budget", config.budget)
        self._traffic, self._full_rows = config.output.traffic, config.output.rows == "full"

    @property
    def keys(self) -> tuple[str, ...]:
        """The benchmarks, in the order of the config."""
        return tuple(self._benches)

    async def build(
        self,
        key: str,
        output_dir: Path,
        stack: AsyncExitStack,
        *,
        resume: bool,
        shard: Shard | None,
    ) -> Evaluation:
        """Everything ``evaluate`` needs; whatever must be closed goes onto ``stack``.

        Raises a NelError with the fix when something cannot be had.
        """
        bench = self._benches[key]
        task = TaskPaths(output_dir / safe_name(key))
        clients = self._clients(bench.max_concurrent, stack, batches=task.batches)
        template = load_template(bench.instruction_template)
        service = bench.solver.model_service
        # A harness container may be named by its solver alone.
        name = getattr(bench.solver, "uri", None) or bench.name
        environment = get_environment(name, num_fewshot=bench.fewshot, params=bench.params)
        stack.push_async_callback(environment.close)
        environment.full_rows = self._full_rows
        endpoint = clients[service].endpoint if service else None
        _check_solver(bench, environment, endpoint)
        if service:
            await environment.use_model(clients[service])
        solver = SOLVERS.build(
            bench.solver.type, bench.solver, SolverContext(clients, self._urls, self._lost)
        )
        bound = bind_solver(solver)
        if bound.close is not None:
            stack.push_async_callback(bound.close)
        settings = bound.settings
        if SANDBOX in bound.needs and bench.sandbox.type != "none":
            # What an agent's tools can do depends on where they run.
            settings = settings | {"sandbox": bench.sandbox.identity()}
        return Evaluation(
            environment=environment,
            solver=solver,
            task_dir=task.root,
            name=environment.name if key in map(safe_name, (bench.name, environment.name)) else key,
            verifier=Verifier(
                environment, bench.scoring, clients, elsewhere=self._verifier(bench, stack)
            ),
            service=endpoint.describe() if endpoint else {},
            solver_settings=settings,
            config=_facts(bench, settings, endpoint, urls=self._urls),
            repeats=bench.repeats,
            max_problems=bench.max_problems,
            shuffle_seed=bench.shuffle_seed,
            only=bench.only,
            shard=shard,
            max_concurrent=bench.max_concurrent,
            waiting=self._waiting(bench),
            min_coverage=bench.min_coverage,
            # A step that waits for a batch waits for as long as that may take.
            timeout=None if endpoint is not None and endpoint.batch is not None else bench.timeout,
            max_system_retries=bench.max_system_retries,
            skip_failed=bench.skip_failed,
            template=template,
            sandboxes=self._sandboxes(bench, environment, stack),
            door=_door(bench, clients, stack)
            if MODEL in bound.needs or environment.facts().batch
            else None,
            resume=resume,
            stop_rule=build_stop_rule(bench, environment.name, task.root),
            budgets=tuple(
                filter(None, (self._budget, _budget(f"the budget of {key}", bench.budget)))
            ),
            step_limits=StepLimits(**bench.step_limits.model_dump()) if bench.step_limits else None,
            traffic=self._log_traffic(task, stack),
        )

    def _sandboxes(
        self, bench: BenchmarkConfig, environment: EvalEnvironment, stack: AsyncExitStack
    ) -> Any:
        wanted = None if bench.sandbox.type == "none" else bench.sandbox
        if wanted is None and SANDBOX not in environment.facts().needs:
            return None
        # Here, as the verifier and the door below: most runs need none of it, and starting must stay quick.
        from nemo_evaluator.sandbox.manager import SandboxManager  # noqa: PLC0415

        return _closed_by(stack, SandboxManager(wanted, self._run_id))

    def _verifier(self, bench: BenchmarkConfig, stack: AsyncExitStack) -> Any:
        name = bench.verifier
        if name is None:
            return None
        from nemo_evaluator.environments.schemes.gym import GymVerifier  # noqa: PLC0415

        return _closed_by(stack, GymVerifier(name, self._urls[name], self._lost[name]))

    def _waiting(self, bench: BenchmarkConfig) -> int:
        """How many steps may wait for batches at once."""
        judges = (getattr(metric, "service", None) for metric in bench.scoring.metrics)
        used = [self._settings[name] for name in (bench.solver.model_service, *judges) if name]
        batches = [getattr(service, "batch", None) for service in used]
        return max((batch.max_requests for batch in batches if batch is not None), default=0)

    def _log_traffic(
        self, task: TaskPaths, stack: AsyncExitStack
    ) -> Callable[[JsonDict], None] | None:
        if self._traffic == "none":
            return None
        log = TrafficLog(task.traffic, keep=self._traffic)
        stack.callback(log.close)
        return log.write


def _door(bench: BenchmarkConfig, clients: Clients, stack: AsyncExitStack) -> Any:
    service = bench.solver.model_service
    if not service:
        return None
    from nemo_evaluator.adapters.outside import AgentDoor  # noqa: PLC0415

    return _closed_by(stack, AgentDoor(clients.endpoint(service)))


def _closed_by(stack: AsyncExitStack, made: Any) -> Any:
    stack.push_async_callback(made.close)
    return made


def _check_solver(
    bench: BenchmarkConfig, environment: EvalEnvironment, endpoint: Endpoint | None
) -> None:
    """Refuse settings that would do nothing, and a model that cannot give what the benchmark asks for."""
    service = bench.solver.model_service
    unused = sorted(bench.solver.model_fields_set - {"type", "service"})
    if environment.facts().batch and bench.solver.type == "simple" and unused:
        message = f"{bench.key} runs its own solver: solver.{unused[0]} has no effect"
        raise UsageError(message, hint="set it on the service, or in the benchmark's params")
    if environment.endpoint_type != "chat" and endpoint and endpoint.protocol != "completions":
        if environment.endpoint_type == "logprobs":
            hint = f"set protocol: completions on service {service!r}, and a URL that ends in /completions"
            raise UsageError(
                f"{bench.key} asks for log-likelihoods, which chat endpoints do not give", hint=hint
            )
        _log.warning(
            "%s is meant for text completions, and service %r speaks chat", bench.key, service
        )


def _facts(
    bench: BenchmarkConfig, solver: JsonDict, endpoint: Endpoint | None, urls: Mapping[str, str]
) -> JsonDict:
    scorers = [metric.name for metric in bench.scoring.metrics] or None
    facts: JsonDict = {"service": bench.solver.model_service, "solver": solver}
    facts |= {"params": bench.params, "fewshot": bench.fewshot, "scorers": scorers}
    if endpoint is None:
        return facts
    generation = endpoint.generation | (solver.get("generation") or {})
    return facts | {
        "model": endpoint.model,
        "base_url": urls[endpoint.name],
        "generation": generation,
    }


def _budget(name: str, config: BudgetConfig | None) -> Budget | None:
    if config is not None:
        return Budget(name, **config.model_dump())
    return None
