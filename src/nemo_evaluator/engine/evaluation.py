"""Runs one benchmark: plan, resume, loop, views, bundle."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.errors import boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import Step
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.job import Evaluation, open_steps
from nemo_evaluator.engine.plan import ASK, VERIFY, Plan, ReusePlan, chosen_problems, make_plan
from nemo_evaluator.engine.pool import StepQueue, WorkerPool
from nemo_evaluator.engine.session import Session
from nemo_evaluator.environments.base import EvalEnvironment, RunsFirst
from nemo_evaluator.runs.bundle import kept_bundle
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.layout import TaskPaths, archive_previous, mark_rows_old
from nemo_evaluator.store.lock import folder_lock

if TYPE_CHECKING:
    from nemo_evaluator.runs.row_table import WrittenRows
    from nemo_evaluator.store.bundle_document import BundleDocument

# Number of steps announced to the environment at a time.
_ANNOUNCED: Final = 64


@dataclass(frozen=True, slots=True)
class Finished:
    """A benchmark that has ended.

    Attributes:
        bundle: Its summary.
        halt: Why it ended early, if it did.
        reuse: What was reused of earlier sessions.
        task: Its files.
        kept: Whether there was nothing to do, so that the files of an earlier session were kept.
        written: Its rows, for callers that need them immediately.
    """

    bundle: BundleDocument
    halt: Halt
    reuse: ReusePlan
    task: TaskPaths
    kept: bool = False
    written: WrittenRows | None = None


async def evaluate(job: Evaluation, pool: WorkerPool | None = None) -> Finished:
    """Run one benchmark.

    Args:
        job: The benchmark and everything it needs.
        pool: Runs the steps in other processes; None for this one.

    Raises:
        NelError: If nothing at all could be measured.
    """
    task = TaskPaths(job.task_dir)
    if isinstance(job.environment, RunsFirst):
        from nemo_evaluator.engine.batch import run_whole  # noqa: PLC0415 - few benchmarks need it

        with folder_lock(task.root, say=job.say):
            await run_whole(job, job.environment)
        # A harness that did not repeat its problems has no rows for further repeats.
        job.repeats = job.environment.repeats_of_rows()
    plan = await _plan(job)
    with folder_lock(task.root, say=job.say):
        if not job.resume:
            archive_message = archive_previous(task)
            if archive_message is not None:
                job.say(f"{archive_message}; --resume would have reused it")
        journal = Journal(task.journal)
        try:
            return await _run(Session(job, plan, task, journal=journal), pool)
        finally:
            journal.close()


async def _plan(job: Evaluation) -> Plan:
    """Return the steps of a benchmark, up to where the stop rule of an earlier run ended them."""
    plan = make_plan(
        await job.environment.dataset_size(),
        repeats=job.repeats,
        max_problems=job.max_problems,
        shuffle_seed=job.shuffle_seed,
        shard=job.shard,
        problem_range=job.problem_range,
        only=await chosen_problems(job.environment, job.only),
    )
    earlier_stop = job.stopped_before
    if earlier_stop is not None and earlier_stop.get("kind") == HaltKind.RULE:
        return plan.first(earlier_stop["rule"]["problems"])
    return plan


async def _run(session: Session, pool: WorkerPool | None) -> Finished:
    """Resume, run the remaining steps, and summarise."""
    job = session.job
    plan = session.plan
    mark_rows_old(session.task)
    session.load()
    session.say_choices()
    reuse = await session.decide_reuse()
    todo = reuse.count(ASK, plan) + reuse.count(VERIFY, plan)
    if not todo:
        bundle = _unchanged_bundle(session, reuse)
        if bundle is not None:
            job.progress.started(session.name, session.tally, reuse, 0)
            job.progress.finished(session.tally)
            return Finished(bundle, session.halt, reuse, task=session.task, kept=True)
    if todo and not session.halt:
        session.canaries = await session.check_judges()
    else:
        session.canaries = session.history.canaries
    session.journal.append(session.opening_record())
    job.progress.started(session.name, session.tally, reuse if job.resume else None, todo)
    try:
        if todo and not session.halt:
            # Imported here and below, because a run that has nothing to do needs neither index nor loop.
            from nemo_evaluator.runs.index import kept_index  # noqa: PLC0415

            with kept_index(session.task, session.journal):
                await _run_steps(session, pool)
    finally:
        session.journal.flush()
        job.progress.finished(session.tally)
    if session.journal.error is not None:
        raise session.journal.error
    halt = session.halt
    if halt.kind is HaltKind.ERROR and halt.error is not None and not session.tally.done:
        raise halt.error
    return _summarise(session, reuse)


def _unchanged_bundle(session: Session, reuse: ReusePlan) -> BundleDocument | None:
    """Return the bundle of an earlier session if this one would only repeat it; otherwise None."""
    job = session.job
    has_stop_rule = job.stop_rule or job.stopped_before or session.history.looked_at
    has_extra_scores = job.aggregate or session.context.verifier.sums_up
    if not job.resume or session.halt or session.history.damage:
        return None
    if has_stop_rule or has_extra_scores:
        return None
    session.journal.flush()
    config = session.recorded_config(reuse)
    bundle = kept_bundle(session.task, config)
    if bundle is None:
        return None
    # The file describes the session that wrote it; the caller gets the facts of this session.
    return bundle | {"config": config}


async def _run_steps(session: Session, pool: WorkerPool | None) -> None:
    """Run the remaining steps: on remote workers, by the benchmark itself, or in the loop of this process."""
    from nemo_evaluator.engine.batch import run_batch  # noqa: PLC0415
    from nemo_evaluator.engine.loop import Loop  # noqa: PLC0415
    from nemo_evaluator.engine.step import StepRunner  # noqa: PLC0415

    job = session.job
    context = session.context
    todo = context.reuse.todo(session.plan)
    is_batch = job.environment.facts().batch
    if pool is not None and not is_batch:
        await pool(StepQueue(context, todo))
        return
    if pool is not None:
        job.say(
            f"{session.name}: this benchmark manages its own loop; running it locally, not on the workers"
        )
    runner = StepRunner(context)
    await open_steps(job)
    if is_batch:
        await run_batch(runner, context, list(todo), folder=session.task.root / "batch")
        return
    if session.plan.shuffled:
        todo = _announced(todo, job.environment)
    loop = Loop(
        todo,
        runner.run,
        max_concurrent=job.max_concurrent,
        halt=session.halt,
        tally=session.tally,
        before_step=context.stop.room if context.stop is not None else None,
        waiting=job.waiting,
        clear=context.scopes.leave,
    )
    await loop.run()


def _announced(steps: Iterator[Step], environment: EvalEnvironment) -> Iterator[Step]:
    """Yield the steps, announcing a group of them at a time to the environment beforehand."""
    while True:
        announced = list(islice(steps, _ANNOUNCED))
        if not announced:
            return
        environment.expect([step.problem_idx for step in announced])
        yield from announced


def _summarise(session: Session, reuse: ReusePlan) -> Finished:
    """Write the views and the bundle from the journal."""
    # Imported here, because a run that has nothing to do does not need the statistics.
    from nemo_evaluator.engine.bundle import BundleFacts, write_bundle  # noqa: PLC0415
    from nemo_evaluator.engine.views import write_views  # noqa: PLC0415
    from nemo_evaluator.runs.index import settle_index  # noqa: PLC0415

    job = session.job
    context = session.context
    plan = session.plan
    if session.stopped_by_rule and context.stop is not None:
        # Answers in flight when the rule stopped the run stay in the journal, but do not count.
        plan = plan.first(context.stop.problems)
    columns = write_views(
        session.task,
        plan,
        session.journal,
        index=context.index,
        full=job.environment.full_rows,
    )
    settle_index(session.task, columns.scored + columns.failed)
    if session.halt.kind is HaltKind.BUDGET and not session.stopped_by_rule:
        columns.planned = columns.scored + columns.failed
    facts = BundleFacts(
        name=session.name,
        repeats=session.plan.repeats,
        config=session.recorded_config(reuse),
        min_coverage=job.min_coverage,
        elapsed=session.elapsed(),
        finished=datetime.now(UTC),
        stopped=session.stop_facts(),
        canaries=session.canaries,
    )
    measured = columns
    if isinstance(job.environment, RunsFirst):
        from nemo_evaluator.engine.batch import with_traffic  # noqa: PLC0415

        measured = with_traffic(columns, session.task.root)
        facts.reported = job.environment.reported_score()
    # Released, because the statistics need the most memory of a run, and do not read the journal.
    context.index.release()
    if columns.scored:
        aggregate = job.aggregate or context.verifier.aggregate
        with boundary(Cause.SCORER):
            facts.extra_scores = aggregate(session.task.results)
    bundle = write_bundle(session.task, measured, facts)
    return Finished(bundle, session.halt, reuse, task=session.task, written=columns.written())
