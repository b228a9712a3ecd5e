"""The worker's side of a pool: runs leased steps, and delivers their records instead of writing them."""

from __future__ import annotations

import asyncio
import contextvars
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from nemo_evaluator.core.slots import Slots, current_slots
from nemo_evaluator.core.types import Step
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.job import Evaluation, StepContext, open_steps
from nemo_evaluator.engine.plan import VERIFY, make_plan
from nemo_evaluator.engine.pool import Halted, Lease, Reply, spent_beyond
from nemo_evaluator.engine.step import StepRunner
from nemo_evaluator.engine.tally import Tally
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.sealed import seal

if TYPE_CHECKING:
    from nemo_evaluator.models.budget_charges import Charges
    from nemo_evaluator.store.journal_record import AnswerRecord, FingerprintParts, StepRecord

# Seconds to wait for the first record, and then for further ones.
_PATIENCE: Final = 0.25
_GATHER: Final = 0.01


class Outbox(Journal):
    """Replaces the journal: records are kept here for the process that writes them."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            # On another machine.
            folder = Path(tempfile.gettempdir())
        # Tracebacks are written next to this path.
        self.path = TaskPaths(folder).journal
        self.checksum = ""
        self.records: list[StepRecord] = []
        self.news = asyncio.Event()
        self._stored: dict[int, AnswerRecord] = {}

    def append(self, record: Mapping[str, Any], written: Callable[[], None] | None = None) -> int:
        """Keep a record until it is fetched."""
        _, self.checksum = seal(record)
        self.records.append(cast("StepRecord", record))
        if written is not None:
            written()
        self.news.set()
        return 0

    def store(self, at: int, record: AnswerRecord) -> None:
        """Store an answer that came with a lease."""
        self._stored[at] = record

    def answer_at(self, offset: int) -> AnswerRecord:
        """Return an answer that came with a lease; possible only once."""
        return self._stored.pop(offset)


class StepHost:
    """Runs steps of one benchmark, with its concurrency."""

    def __init__(self, job: Evaluation) -> None:
        self._job = job
        self._halt = Halt()
        self._slots = Slots(job.max_concurrent)
        self._outbox = Outbox(job.task_dir)
        self._reply = Reply()
        self._tasks: set[asyncio.Task[None]] = set()
        # What other workers charged to each budget.
        self._elsewhere: list[Charges] = [{} for _ in job.budgets]

    async def open(self, scored: int = 0, reused: int = 0) -> FingerprintParts:
        """Prepare the benchmark.

        Args:
            scored: Steps scored so far, so that a server is not judged by the first answers of each worker.
            reused: How many of them were reused.

        Returns:
            The fingerprints, which must equal those of the process that leases steps.
        """
        job = self._job
        plan = make_plan(await job.environment.dataset_size(), repeats=job.repeats)
        if job.traffic is not None:
            job.traffic = lambda entry: self._reply.traffic.append(entry)
        tally = Tally(planned=len(plan), scored=scored, reused=reused)
        self._ctx = StepContext(job, plan, self._outbox, halt=self._halt, tally=tally)
        await open_steps(job)
        self._runner = StepRunner(self._ctx)
        current_slots.set(self._slots)
        # Steps run in a copy of the context in which the benchmark was prepared.
        self._context = contextvars.copy_context()
        return self._ctx.prints.parts.copy()

    async def exchange(
        self, leases: Sequence[Lease], halted: Halted | None, elsewhere: Sequence[Charges] = ()
    ) -> Reply:
        """Accept steps, and return the records produced meanwhile, after waiting briefly for some.

        Args:
            leases: The steps to run.
            halted: The stop of the run, if it was requested.
            elsewhere: What each budget was charged by other workers.
        """
        if halted is not None:
            self._halt.set(halted.kind, halted.reason, drain=halted.drain)
        for index, (budget, charged) in enumerate(zip(self._job.budgets, elsewhere, strict=False)):
            newly_charged = spent_beyond(charged, self._elsewhere[index])
            budget.resume(**newly_charged)
            self._elsewhere[index] = charged
        for lease in leases:
            self._start(lease)
        try:
            await asyncio.wait_for(self._outbox.news.wait(), _PATIENCE)
            await asyncio.sleep(_GATHER)
        except TimeoutError:
            pass
        reply = self._fetch()
        if halted is None:
            reply.halted = Halted.of(self._halt)
        return reply

    async def close(self) -> Reply:
        """Cancel the running steps and wait for their end.

        Returns:
            The records that have not been delivered yet.
        """
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self._fetch()

    def _start(self, lease: Lease) -> None:
        """Start a task for a leased step; a step with an answer is only verified."""
        step = lease.step
        if lease.answer is not None:
            # The number of the step takes the place of an offset in a journal.
            step_number = step.problem_idx * self._job.repeats + step.repeat
            self._outbox.store(step_number, lease.answer)
            self._ctx.index.set_answer(step, step_number)
            self._ctx.reuse.decisions[step_number] = VERIFY
        task = asyncio.create_task(self._run(step), context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _fetch(self) -> Reply:
        """Take the records and charges that have not been delivered yet."""
        self._outbox.news.clear()
        reply = self._reply
        self._reply = Reply()
        reply.records = self._outbox.records
        self._outbox.records = []
        for budget, spent_by_others in zip(self._job.budgets, self._elsewhere, strict=True):
            reply.spent.append(spent_beyond(budget.spent(), spent_by_others))
        return reply

    async def _run(self, step: Step) -> None:
        await self._slots.acquire()
        try:
            if not self._halt:
                await self._runner.run(step)
        except OSError as error:
            self._halt.set(HaltKind.ERROR, str(error), error=error)
        finally:
            self._slots.release()
            self._reply.ended.append(step)
            self._outbox.news.set()
