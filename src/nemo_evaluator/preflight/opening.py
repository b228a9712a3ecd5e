"""Checks that need an open benchmark: its file, parameters, dataset, columns and requirements."""

from collections.abc import AsyncIterator

from nemo_evaluator.config import BenchmarkConfig
from nemo_evaluator.core.errors import NelError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.engine.plan import chosen_problems
from nemo_evaluator.engine.template import InstructionTemplate, load_template
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.environments.registry import as_uri, get_environment
from nemo_evaluator.preflight.names import missing_judge
from nemo_evaluator.preflight.obstacle import ConfigPath, Obstacle, obstacle_of
from nemo_evaluator.solvers.base import SANDBOX


async def open_benchmark(bench: BenchmarkConfig, path: ConfigPath) -> AsyncIterator[Obstacle]:
    """Open a benchmark, test its sandbox and load one problem.

    Args:
        bench: The benchmark. One behind a URI is skipped, because its service may not be running yet.
        path: Its path in the config.

    Yields:
        Each obstacle: a problem that would stop the run.
    """
    if "://" in as_uri(bench.name):
        return
    try:
        with boundary(Cause.SEED):
            environment = get_environment(
                bench.name, num_fewshot=bench.fewshot, params=bench.params
            )
    except NelError as error:
        yield obstacle_of(error, (*path, "name"))
        return
    try:
        facts = environment.facts()
        for obstacle in missing_judge(bench.scoring, bench.name, facts, path=(*path, "scoring")):
            yield obstacle
        if bench.sandbox.type != "none" or SANDBOX in facts.needs:
            sandbox_obstacle = await _try_sandbox(bench, path)
            if sandbox_obstacle is not None:
                yield sandbox_obstacle
        problem_obstacle = await _try_first_problem(environment, bench, path)
        if problem_obstacle is not None:
            yield problem_obstacle
    finally:
        await environment.close()


async def _try_sandbox(bench: BenchmarkConfig, path: ConfigPath) -> Obstacle | None:
    """Check whether the benchmark's sandbox works on this machine; returns what prevents it."""
    # Without settings, the manager takes the local sandbox, as in the run.
    settings = None if bench.sandbox.type == "none" else bench.sandbox
    try:
        from nemo_evaluator.sandbox.manager import SandboxManager  # noqa: PLC0415 - most configs need no sandbox

        manager = SandboxManager(settings, "preflight")
        try:
            await manager.check()
        finally:
            await manager.close()
    except NelError as error:
        return obstacle_of(error, (*path, "sandbox"))
    return None


async def _try_first_problem(
    environment: EvalEnvironment, bench: BenchmarkConfig, path: ConfigPath
) -> Obstacle | None:
    """Load the first problem of the run, and apply the instruction template to it.

    Args:
        environment: The open benchmark.
        bench: Its settings.
        path: Their path in the config.

    Returns:
        What prevents it, at the path of the setting that is to blame; None if nothing does, or the dataset is empty.
    """
    # The setting that the current step depends on.
    setting = "name"
    try:
        with boundary(Cause.SEED):
            size = await environment.dataset_size()
            setting = "only"
            chosen = await chosen_problems(environment, bench.only)
            setting = "name"
            if size == 0:
                return None
            await environment.prepare()
            first_problem = chosen[0] if chosen else 0
            problem = await environment.seed(first_problem)
            setting = "instruction_template"
            template = load_template(bench.instruction_template)
            if template:
                InstructionTemplate(template).apply(problem)
    except NelError as error:
        return obstacle_of(error, (*path, setting))
    return None
