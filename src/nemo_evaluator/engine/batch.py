"""Benchmarks that run all problems by themselves; their rows are journalled as they arrive."""

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
from nemo_evaluator.engine.halt import Halt
from nemo_evaluator.engine.job import Evaluation, StepContext
from nemo_evaluator.engine.scope import Scopes
from nemo_evaluator.engine.step import StepRunner
from nemo_evaluator.environments.base import BatchJob, RunsFirst, WholeRun

# Default timeout, in seconds, of a benchmark that is one command.
_WHOLE_TIMEOUT: Final = 3600.0


async def run_whole(job: Evaluation, environment: RunsFirst) -> None:
    """Run a benchmark whose problems are known only afterwards.

    Raises:
        UsageError: If the solver or the sandbox is not suitable.
        BoundaryError: If the benchmark failed; an error of the model takes precedence.
        InterruptedRunError: If the run was stopped.
    """
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
            completed = await _until_halt(environment.run_first(run), halt)
        except BoundaryError as error:
            # If the last model call failed, that is the cause, whatever error the benchmark reports.
            raise (session.fault or real_cause(error, session)) from error
    if not completed:
        raise InterruptedRunError("interrupted while the container ran; --resume runs it again")


async def _until_halt(work: Coroutine[Any, Any, None], halt: Halt) -> bool:
    """Await ``work``, or cancel it when the run is stopped.

    In both cases it has ended on return, so its resources (processes, files, a session) have been released.

    Args:
        work: The work of the benchmark.
        halt: The early stop of the run.

    Returns:
        Whether the work was completed.

    Raises:
        BoundaryError: The error of the work, with cause ``solver`` unless it has its own.
    """
    work_task = asyncio.ensure_future(work)
    halt_task = asyncio.ensure_future(halt.wait())
    try:
        await asyncio.wait({work_task, halt_task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        work_task.cancel()
        halt_task.cancel()
        await asyncio.gather(work_task, halt_task, return_exceptions=True)
    if halt and work_task.cancelled():
        return False
    with boundary(Cause.SOLVER):
        work_task.result()
    return True


async def run_batch(
    runner: StepRunner, context: StepContext, steps: Sequence[Step], folder: Path
) -> None:
    """Let the environment run ``steps``; an interrupt ends it, and the rows until then are kept.

    All its model calls belong to one session, since only the environment knows to which problem a call belongs.
    """
    planned = set(steps)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        session = None
        access = None
        if context.job.door is not None:
            fingerprint = context.prints.answer("batch", steps[0])
            scope = context.scopes.enter(steps[0], f"batch{fingerprint[:12]}")
            session = stack.enter_context(context.job.door.session(scope))
            access = session.access
        job = BatchJob(steps, access, folder)

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
            context.halt.set_error(cause)
