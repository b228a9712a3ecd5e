"""Benchmarks that run themselves: an environment that runs all problems at once, its rows journalled as they come."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.errors import (
    BoundaryError,
    InterruptedRunError,
    SeedError,
    UsageError,
    boundary,
)
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import Step
from nemo_evaluator.engine.agents import endpoints_of, real_cause
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.job import Evaluation, StepContext
from nemo_evaluator.engine.scope import Scopes
from nemo_evaluator.engine.step import StepRunner
from nemo_evaluator.environments.base import BatchJob, RunsFirst, WholeRun

# Seconds for a benchmark that is one command, where nobody said how many.
_WHOLE_TIMEOUT: Final = 3600.0


async def run_whole(job: Evaluation, environment: RunsFirst) -> None:
    """Let a benchmark run that knows its problems only afterwards. Raises what went wrong, the model's fault first."""
    door = job.door
    sandboxes = job.sandboxes
    settings = getattr(job.solver, "settings", None)
    if door is None or sandboxes is None or not isinstance(settings, dict):
        raise UsageError(
            f"{job.name} runs itself, in a sandbox",
            hint="use solver: {type: container, service: ...}",
        )
    halt = job.halt = job.halt if job.halt is not None else Halt()
    scopes = Scopes(
        job.name,
        job.budgets,
        job.step_limits,
        traffic=job.traffic,
        interrupted=lambda: halt.interrupted,
    )
    scope = scopes.enter(Step(0, 0), "whole")
    await door.start()
    with door.session(scope) as session:
        run = WholeRun(
            model=session.access,
            endpoints=endpoints_of(session),
            protocol=str(job.service.get("protocol", "")),
            sandboxes=sandboxes,
            folder=job.task_dir / "batch",
            settings=settings,
            identity={"service": job.service, "solver": job.solver_settings},
            timeout=job.timeout or _WHOLE_TIMEOUT,
            max_problems=job.max_problems,
            repeats=job.repeats,
            resume=job.resume,
        )
        try:
            done = await _until_halt(environment.run_first(run), halt)
        except BoundaryError as error:
            # Its last call got no answer: whatever it made of that, the model was gone.
            raise (session.fault or real_cause(error, session)) from error
    if not done:
        raise InterruptedRunError("interrupted while the container ran; --resume runs it again")


async def _until_halt(work: Coroutine[Any, Any, None], halt: Halt) -> bool:
    """Await ``work`` to its end, or cancel it when the run is stopped.

    Either way it has ended when this returns: what it holds (processes, files, a session) has been released.

    Args:
        work: What the benchmark does.
        halt: The stop of the run.

    Returns:
        Whether the work came to its own end.

    Raises:
        BoundaryError: What the work raised, with cause ``solver`` unless it has its own.
    """
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(halt.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
    if halt and working.cancelled():
        return False
    with boundary(Cause.SOLVER):
        working.result()
    return True


async def run_batch(
    runner: StepRunner, context: StepContext, steps: Sequence[Step], folder: Path
) -> None:
    """Let the environment work on ``steps``; an interrupt ends it, and what it gave until then is kept.

    All its model calls belong to one session: nobody but the environment knows which problem a call is about.
    """
    planned = set(steps)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        session = None
        if context.job.door is not None:
            scope = context.scopes.enter(
                steps[0], f"batch{context.prints.answer('batch', steps[0])[:12]}"
            )
            session = stack.enter_context(context.job.door.session(scope))
        job = BatchJob(steps, session.access if session is not None else None, folder)

        async def work() -> None:
            async for row in context.environment.run_batch(job):
                step = Step(row.problem_idx, row.repeat)
                if step not in planned:
                    raise SeedError(
                        f"the benchmark gave a row for step {step}, which was not asked for"
                    )
                runner.take(step, row)

        try:
            await _until_halt(work(), context.halt)
        except BoundaryError as error:
            cause = real_cause(error, session)
            context.halt.set(HaltKind.ERROR, cause.message, error=cause)
