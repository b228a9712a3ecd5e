"""Benchmarks that run all problems by themselves; their rows are journalled as they arrive."""

import asyncio
from array import array
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from copy import copy
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
from nemo_evaluator.core.files import stored, write_json
from nemo_evaluator.core.types import ModelResponse, Step
from nemo_evaluator.engine.agents import endpoints_of, real_cause
from nemo_evaluator.engine.columns import Columns, Labels
from nemo_evaluator.engine.halt import Halt
from nemo_evaluator.engine.job import Evaluation, StepContext
from nemo_evaluator.engine.scope import Scopes
from nemo_evaluator.engine.step import StepRunner
from nemo_evaluator.environments.base import BatchJob, RoleAccess, RunsFirst, WholeRun
from nemo_evaluator.models.usage import together

# The folder of a benchmark that runs itself, and the file with the model calls of a container.
_FOLDER: Final = "batch"
_TRAFFIC: Final = "model_calls.json"
_TOTALS: Final = (
    "prompt_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "total_tokens",
)
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
            folder=job.task_dir / _FOLDER,
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
        if session.calls:
            _write_traffic(job.task_dir, [reply for _, reply in session.calls])
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
        roles = _open_roles(context, steps[0], stack)
        job = BatchJob(steps, access, folder, roles=roles)

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


def _open_roles(
    context: StepContext, first_step: Step, stack: ExitStack
) -> dict[str, list[RoleAccess]]:
    """Open a session for each model that plays a role in the benchmark; the sessions end with the stack."""
    roles: dict[str, list[RoleAccess]] = {}
    for role, doors in context.job.role_doors.items():
        for number, door in enumerate(doors):
            fingerprint = context.prints.answer(f"role {role} {number}", first_step)
            scope = context.scopes.enter(first_step, f"role{fingerprint[:12]}")
            session = stack.enter_context(door.session(scope))
            roles.setdefault(role, []).append(RoleAccess(session.access, door.generation))
    return roles


def _write_traffic(task_dir: Path, replies: Sequence[ModelResponse]) -> None:
    """Write the tokens, times and cost of all model calls of a benchmark, as the proxy saw them."""
    totals = together(replies)
    document = {
        "prompt_tokens": totals.prompt_tokens,
        "completion_tokens": totals.completion_tokens,
        "reasoning_tokens": totals.reasoning_tokens,
        "cached_tokens": totals.cached_tokens,
        "total_tokens": totals.total_tokens,
        "cost_usd": totals.cost_usd,
        "latency_ms": [reply.latency_ms for reply in replies],
        "queue_ms": [reply.queue_ms for reply in replies],
        "finish_reasons": [reply.finish_reason for reply in replies],
    }
    write_json(task_dir / _FOLDER / _TRAFFIC, document)


def with_traffic(columns: Columns, task_dir: Path) -> Columns:
    """Return the columns with the tokens, times and cost that the proxy saw in place of the rows', which know none.

    Args:
        columns: The rows of a benchmark that runs in a container.
        task_dir: The benchmark's folder.
    """
    file = task_dir / _FOLDER / _TRAFFIC
    if not file.is_file():
        return columns
    traffic = stored(file)
    columns = copy(columns)
    columns.totals = Counter(columns.totals)
    for name in _TOTALS:
        columns.totals[name] = int(traffic.get(name) or 0)
    columns.cost_usd = float(traffic.get("cost_usd") or 0.0)
    columns.latency = array("f", traffic["latency_ms"])
    columns.queue = array("f", traffic["queue_ms"])
    # One entry per call, of which none was retried as far as the harness knows.
    columns.answered = len(columns.latency)
    columns.totals["attempts"] = columns.answered
    columns.finish = Labels()
    for reason in traffic["finish_reasons"]:
        columns.finish.add(reason or "")
    return columns
