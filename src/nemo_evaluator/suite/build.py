"""Builds the evaluations that the engine runs from a config."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from nemo_evaluator.config import BenchmarkConfig, EvalConfig
from nemo_evaluator.config.groups import SOLVERS
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
from nemo_evaluator.solvers.base import SANDBOX, BoundSolver, Solver, SolverContext, bind_solver
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.suite.clients import Clients
from nemo_evaluator.suite.parts import (
    check_solver,
    make_budget,
    open_door,
    open_gym_verifier,
    open_role_doors,
    open_sandboxes,
    open_traffic_log,
)
from nemo_evaluator.suite.repeats import repeats_of


class Builder:
    """Builds the evaluation of each benchmark of a config.

    What benchmarks share, such as the budget of the run, is created once.
    """

    def __init__(
        self,
        config: EvalConfig,
        running: Mapping[str, RunningService],
        run_id: str,
        *,
        detach: bool = False,
    ) -> None:
        """Prepare the shared parts.

        Args:
            config: The config.
            running: Its running services, by name.
            run_id: The run; sandboxes are named after it.
            detach: Stop once every step waits for a batch.
        """
        self.running = running
        self._run_id = run_id
        self._benches = {bench.key: bench for bench in config.benchmarks}
        self._services = config.services
        self._urls = {name: service.url for name, service in running.items()}
        self._lost = {name: service.lost for name, service in running.items()}
        self._run_budget = make_budget("the run's budget", config.budget)
        self._traffic = config.output.traffic
        self._full_rows = config.output.rows == "full"
        self._make_clients = partial(
            Clients,
            config.services,
            running,
            logged=config.output.traffic != "none",
            detach=detach,
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the benchmarks, in the order of the config."""
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
        """Build one evaluation.

        Args:
            key: The benchmark.
            output_dir: The folder of the run.
            stack: Closes the parts of the evaluation.
            resume: Whether earlier answers are reused.
            shard: The part of the benchmark to run; None for all of it.

        Raises:
            NelError: If a part cannot be created; its hint tells the fix.
        """
        bench = self._benches[key]
        task = TaskPaths(output_dir / safe_name(key))
        clients = self._make_clients(bench.max_concurrent, stack, batches=task.batches)
        endpoint = _endpoint(bench, clients)
        template = load_template(bench.instruction_template)
        environment = await self._open_environment(bench, clients, endpoint, stack=stack)
        solver, bound_solver = self._open_solver(bench, clients, stack=stack)
        solver_settings = _solver_settings(bench, bound_solver)
        players = _players(environment, clients)
        if players:
            # The answers of simulated users, and the grades, depend on these models.
            solver_settings = solver_settings | {"roles": players}
        return Evaluation(
            environment=environment,
            solver=solver,
            task_dir=task.root,
            name=_display_name(key, bench, environment),
            verifier=self._open_verifier(bench, environment, clients, stack=stack),
            service=endpoint.describe() if endpoint is not None else {},
            solver_settings=solver_settings,
            config=_recorded_config(bench, solver_settings, endpoint, urls=self._urls),
            repeats=repeats_of(bench, environment),
            max_problems=bench.max_problems,
            shuffle_seed=bench.shuffle_seed,
            only=bench.only,
            shard=shard,
            max_concurrent=bench.max_concurrent,
            waiting=self._batched_steps(bench),
            min_coverage=bench.min_coverage,
            timeout=_timeout(bench, endpoint),
            max_system_retries=bench.max_system_retries,
            skip_failed=bench.skip_failed,
            template=template,
            sandboxes=open_sandboxes(bench, environment, self._run_id, stack=stack),
            door=open_door(bench, environment, bound_solver, clients=clients, stack=stack),
            role_doors=open_role_doors(environment, clients=clients, stack=stack),
            resume=resume,
            stop_rule=build_stop_rule(
                bench, environment.name, task.root, cluster=environment.cluster
            ),
            budgets=self._budgets(key, bench),
            step_limits=_step_limits(bench),
            traffic=open_traffic_log(task, self._traffic, stack),
        )

    def _open_solver(
        self, bench: BenchmarkConfig, clients: Clients, *, stack: AsyncExitStack
    ) -> tuple[Solver, BoundSolver]:
        """Build the solver of a benchmark; it is closed with the evaluation."""
        context = SolverContext(clients, self._urls, self._lost)
        solver: Solver = SOLVERS.build(bench.solver.type, bench.solver, context)
        bound_solver = bind_solver(solver)
        if bound_solver.close is not None:
            stack.push_async_callback(bound_solver.close)
        return solver, bound_solver

    async def _open_environment(
        self,
        bench: BenchmarkConfig,
        clients: Clients,
        endpoint: Endpoint | None,
        *,
        stack: AsyncExitStack,
    ) -> EvalEnvironment:
        """Open the environment of a benchmark, and check that its solver fits."""
        # A harness container may be named by the solver only.
        name = getattr(bench.solver, "uri", None) or bench.name
        environment = get_environment(name, num_fewshot=bench.fewshot, params=bench.params)
        stack.push_async_callback(environment.close)
        environment.full_rows = self._full_rows
        check_solver(bench, environment, endpoint)
        if bench.solver.model_service:
            await environment.use_model(clients[bench.solver.model_service])
        return environment

    def _open_verifier(
        self,
        bench: BenchmarkConfig,
        environment: EvalEnvironment,
        clients: Clients,
        *,
        stack: AsyncExitStack,
    ) -> Verifier:
        """Build the verifier of a benchmark, with its scoring service if it has one."""
        elsewhere = None
        if bench.verifier is not None:
            elsewhere = open_gym_verifier(bench.verifier, self.running[bench.verifier], stack)
        return Verifier(environment, bench.scoring, clients, elsewhere=elsewhere)

    def _batched_steps(self, bench: BenchmarkConfig) -> int:
        """Return how many steps may wait for batches at once: the largest batch of the services used."""
        names = [bench.solver.model_service]
        for metric in bench.scoring.metrics:
            names.append(getattr(metric, "service", None))
        largest = 0
        for name in names:
            if not name:
                continue
            batch = getattr(self._services[name], "batch", None)
            if batch is not None:
                largest = max(largest, batch.max_requests)
        return largest

    def _budgets(self, key: str, bench: BenchmarkConfig) -> tuple[Budget, ...]:
        """Return the budgets of the run and of the benchmark that are set."""
        budgets = []
        for budget in (self._run_budget, make_budget(f"the budget of {key}", bench.budget)):
            if budget is not None:
                budgets.append(budget)
        return tuple(budgets)


def _endpoint(bench: BenchmarkConfig, clients: Clients) -> Endpoint | None:
    """Return the endpoint of the solver's model, or None if the solver has no model."""
    service = bench.solver.model_service
    if not service:
        return None
    return clients[service].endpoint


def _timeout(bench: BenchmarkConfig, endpoint: Endpoint | None) -> float | None:
    """Return the timeout of a step; steps that wait for a batch have none of their own."""
    if endpoint is not None and endpoint.batch is not None:
        return None
    return bench.timeout


def _step_limits(bench: BenchmarkConfig) -> StepLimits | None:
    if bench.step_limits is None:
        return None
    return StepLimits(**bench.step_limits.model_dump())


def _display_name(key: str, bench: BenchmarkConfig, environment: EvalEnvironment) -> str:
    """Return the environment's own name, unless the config gives the benchmark another key."""
    if key in (safe_name(bench.name), safe_name(environment.name)):
        return environment.name
    return key


def _solver_settings(bench: BenchmarkConfig, solver: BoundSolver) -> JsonDict:
    """Return the settings that the answers depend on; for agents, that includes the sandbox."""
    if SANDBOX in solver.needs and bench.sandbox.type != "none":
        return solver.settings | {"sandbox": bench.sandbox.identity()}
    return solver.settings


def _players(environment: EvalEnvironment, clients: Clients) -> JsonDict:
    """Return the definitions of the models that play roles in a benchmark that runs itself."""
    players: JsonDict = {}
    for role, services in environment.role_services.items():
        players[role] = [clients[service].endpoint.describe() for service in services]
    return players


def _recorded_config(
    bench: BenchmarkConfig,
    solver_settings: JsonDict,
    endpoint: Endpoint | None,
    urls: Mapping[str, str],
) -> JsonDict:
    """Return the settings that the bundle records."""
    scorers = [metric.name for metric in bench.scoring.metrics]
    recorded: JsonDict = {
        "service": bench.solver.model_service,
        "solver": solver_settings,
        "params": bench.params,
        "fewshot": bench.fewshot,
        "scorers": scorers or None,
    }
    if bench.replaces is not None:
        recorded["replaces"] = bench.replaces
    if endpoint is not None:
        own_generation = solver_settings.get("generation") or {}
        recorded["model"] = endpoint.model
        recorded["base_url"] = urls[endpoint.name]
        recorded["generation"] = endpoint.generation | own_generation
    return recorded
