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
        What is wrong with it.
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
            async for obstacle in _try_sandbox(bench, (*path, "sandbox")):
                yield obstacle
        async for obstacle in _make_problem(environment, bench, path):
            yield obstacle
    finally:
        await environment.close()


async def _make_problem(
    environment: EvalEnvironment, bench: BenchmarkConfig, path: ConfigPath
) -> AsyncIterator[Obstacle]:
    """Load the first problem of the run, and apply the instruction template to it."""
    setting = "name"
    try:
        with boundary(Cause.SEED):
            chosen = await chosen_problems(environment, bench.only)
            if not await environment.dataset_size():
                return
            await environment.prepare()
            problem = await environment.seed(chosen[0] if chosen else 0)
            setting = "instruction_template"
            template = load_template(bench.instruction_template)
            if template:
                InstructionTemplate(template).apply(problem)
    except NelError as error:
        if bench.only and "hash" in error.message:
            setting = "only"
        yield obstacle_of(error, (*path, setting))


async def _try_sandbox(bench: BenchmarkConfig, path: ConfigPath) -> AsyncIterator[Obstacle]:
    """Check whether the benchmark's sandbox works on this machine."""
    settings = None if bench.sandbox.type == "none" else bench.sandbox
    try:
        from nemo_evaluator.sandbox.manager import SandboxManager  # noqa: PLC0415 - most configs need no sandbox

        manager = SandboxManager(settings, "preflight")
        try:
            await manager.check()
        finally:
            await manager.close()
    except NelError as error:
        yield obstacle_of(error, path)
