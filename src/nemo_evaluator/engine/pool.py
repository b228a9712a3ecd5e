"""Runs steps in other processes: they are leased from one queue, and their records are written to one journal.

A worker holds a few steps at a time. If it is lost, its steps return to the queue; answers that have arrived are
already in the journal, and are only verified again.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, Self

from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.job import DRAIN, StepContext
from nemo_evaluator.store.records import ANSWER, OUTCOME, total_tokens

if TYPE_CHECKING:
    from nemo_evaluator.models.budget_charges import Charges
    from nemo_evaluator.store.journal_record import (
        AnswerRecord,
        OutcomeRecord,
        QuestionFields,
        StepRecord,
    )

# Seconds between checks whether the run was stopped, while waiting.
LOOK: Final = 0.25
_SPENT: Final[tuple[Literal["usd", "tokens", "requests"], ...]] = ("usd", "tokens", "requests")


class Lease(NamedTuple):
    """A step for a worker; ``answer`` is the record of its answer, if it has one."""

    step: Step
    answer: AnswerRecord | None = None


class Halted(NamedTuple):
    """A stop, in a form that can be sent between processes."""

    kind: HaltKind
    reason: str
    error: BaseException | None = None
    drain: float = 0.0

    @classmethod
    def of(cls, halt: Halt) -> Self | None:
        """Return the stop in this form; None if no stop was requested."""
        if halt.kind is not None:
            return cls(halt.kind, halt.reason, halt.error, halt.drain)
        return None


@dataclass(slots=True)
class Reply:
    """What a worker has done since the last exchange.

    Attributes:
        records: Records for the journal.
        traffic: Entries for the traffic log.
        ended: The steps that have ended.
        spent: The total charged to each budget so far.
        halted: The stop that the worker requested, if any.
    """

    records: list[StepRecord] = field(default_factory=list)
    traffic: list[JsonDict] = field(default_factory=list)
    ended: list[Step] = field(default_factory=list)
    spent: list[Charges] = field(default_factory=list)
    halted: Halted | None = None


def spent_beyond(now: Charges, before: Charges) -> Charges:
    """Return what a budget was charged between two readings."""
    return {
        "usd": now["usd"] - before.get("usd", 0),
        "tokens": now["tokens"] - before.get("tokens", 0),
        "requests": now["requests"] - before.get("requests", 0),
    }


class StepQueue:
    """The queue of a benchmark whose steps run elsewhere, and the only writer of its journal."""

    def __init__(self, context: StepContext, steps: Iterator[Step]) -> None:
        """Create the queue.

        Args:
            context: The shared state of the benchmark.
            steps: The steps to run.
        """
        self._ctx = context
        self._steps = steps
        self._budgets = context.job.budgets
        self.max_concurrent = context.job.max_concurrent
        self.halt = context.halt
        self.fingerprints = context.prints.parts
        # Steps of lost workers, which are leased first, and the number of leased steps.
        self._returned: deque[Step] = deque()
        self._out = 0
        self.ended = 0
        self._spent_before = [budget.spent() for budget in self._budgets]
        # True when all steps have ended.
        self.done = False
        self._changed = asyncio.Event()
        self._halted_at = 0.0

    async def lease(self, most: int, *, wait: bool) -> list[Lease]:
        """Lease steps to a worker.

        Args:
            most: The maximum number.
            wait: Wait until there is one. An empty list then means that all steps have ended.
        """
        while True:
            leases = await self._available(most, wait=wait)
            if leases or not wait or self.halt or not self._out:
                self.done = wait and not leases
                self._out += len(leases)
                self._ctx.tally.in_flight = self._out
                return leases
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), LOOK)

    async def _available(self, most: int, *, wait: bool) -> list[Lease]:
        """Return the steps that can be leased now; with ``wait`` at least one, unless none are left."""
        leases: list[Lease] = []
        stop = self._ctx.stop
        limit = min(most, self._affordable())
        while len(leases) < limit and not self.halt:
            if self._returned:
                returned_step = self._returned.popleft()
                leases.append(self._lease_of(returned_step))
                continue
            if stop is not None and stop.full:
                # The stop rule needs outcomes of earlier steps before it allows further ones.
                if leases or not wait:
                    break
                await stop.room()
                continue
            step = next(self._steps, None)
            if step is None:
                break
            leases.append(self._lease_of(step))
        return leases

    def _lease_of(self, step: Step) -> Lease:
        """Return the lease of a step, with its answer if the journal has one."""
        offset = self._ctx.index.answer(step)
        if offset is None:
            return Lease(step)
        return Lease(step, self._ctx.journal.answer_at(offset))

    def _affordable(self) -> float:
        """Return how many more steps the budgets allow, at the average cost so far; at least one if none is running."""
        affordable = math.inf
        for budget, spent_before in zip(self._budgets, self._spent_before, strict=True):
            charges = spent_beyond(budget.spent(), spent_before)
            limits = {"usd": budget.usd, "tokens": budget.tokens, "requests": budget.requests}
            for key in _SPENT:
                limit = limits[key]
                if limit is None:
                    continue
                cost = self._cost_of_step(key, charges[key])
                if cost:
                    remaining = limit - spent_before[key] - charges[key]
                    affordable = min(affordable, remaining // cost)
        if not self._out:
            return max(affordable, 1)
        return max(affordable - self._out, 0)

    def _cost_of_step(self, key: str, used: float) -> float:
        """Return the average cost of a step; before the first one has ended, one request, or otherwise infinity."""
        minimum = 1.0 if key == "requests" else 0.0
        if self.ended:
            return max(minimum, used / self.ended)
        return minimum or math.inf

    def elsewhere(self, charged: Sequence[Charges]) -> list[Charges]:
        """Return what each budget was charged, without the share ``charged`` of the worker itself."""
        others_charges: list[Charges] = []
        for index, budget in enumerate(self._budgets):
            own_charges: Charges = charged[index] if index < len(charged) else {}
            others_charges.append(spent_beyond(budget.spent(), own_charges))
        return others_charges

    def counts(self) -> tuple[int, int]:
        """Return the number of scored steps, and how many steps were reused from earlier sessions."""
        return self._ctx.tally.scored, self._ctx.tally.reused

    def take(self, held: set[Step], reply: Reply, charged: list[Charges]) -> None:
        """Write what a worker has done.

        Args:
            held: The steps that the worker holds; those that have ended are removed.
            reply: What it has done.
            charged: What its budgets had been charged before; updated.
        """
        unknown_budgets = len(reply.spent) - len(charged)
        charged += [{}] * unknown_budgets
        for record in reply.records:
            self._write(record)
        write_traffic = self._ctx.job.traffic
        if write_traffic is not None:
            for entry in reply.traffic:
                write_traffic(entry)
        for budget, charged_before, charged_now in zip(
            self._budgets, charged, reply.spent, strict=True
        ):
            budget.resume(**spent_beyond(charged_now, charged_before))
            limit = budget.reached()
            if limit is not None:
                error = budget.end(limit)
                self.halt.set(HaltKind.BUDGET, error.message, error=error, drain=DRAIN)
        charged[:] = reply.spent
        if reply.halted is not None:
            self.halt.set(
                reply.halted.kind,
                reply.halted.reason,
                error=reply.halted.error,
                drain=reply.halted.drain,
            )
        self.ended += len(reply.ended)
        self._release(held, reply.ended)

    def give_back(self, held: set[Step]) -> None:
        """Return the steps of a lost worker to the queue."""
        for step in sorted(held):
            offset = self._ctx.index.answer(step)
            # The state of the agent's sandbox is lost with the worker.
            if offset is not None and self._ctx.journal.answer_at(offset).get("sandbox_used"):
                self._ctx.index.forget(step)
            self._returned.append(step)
        self._release(held, list(held))

    def over(self) -> bool:
        """True once a stop was requested and the time for requests in flight is over."""
        if not self.halt:
            return False
        now = time.monotonic()
        if not self._halted_at:
            self._halted_at = now
        return now - self._halted_at >= self.halt.drain

    def _release(self, held: set[Step], steps: list[Step]) -> None:
        """Remove steps from those that a worker holds, and wake up who waits for a change."""
        held.difference_update(steps)
        self._out -= len(steps)
        self._ctx.tally.in_flight = self._out
        self._changed.set()

    def _write(self, record: StepRecord) -> None:
        """Write one record, and update the index and, once it is in the file, the counts."""
        journal = self._ctx.journal
        step = Step(record["problem_idx"], record["repeat"])
        if record["kind"] == ANSWER:
            offset = journal.append(record, partial(self._count_answer, record))
            self._ctx.index.set_answer(step, offset)
        elif record["kind"] == OUTCOME:
            offset = journal.append(record, partial(self._ctx.tally.add, record))
            self._ctx.index.set_outcome(step, offset)
            self._report_to_stop_rule(step, record)
        else:
            journal.append(record)

    def _count_answer(self, record: AnswerRecord) -> None:
        """Add the tokens and the cost of an answer that was written."""
        tally = self._ctx.tally
        tally.tokens += total_tokens(record)
        tally.cost_usd += record.get("cost_usd") or 0.0

    def _report_to_stop_rule(self, step: Step, outcome: OutcomeRecord) -> None:
        """Report an outcome to the stop rule, if there is one."""
        if self._ctx.stop is None:
            return
        # The hash of the problem is in the record of the answer; an outcome without an answer has it itself.
        question: QuestionFields = outcome
        offset = self._ctx.index.answer(step)
        if offset is not None:
            question = self._ctx.journal.answer_at(offset)
        self._ctx.ended(step, question.get("problem_hash", ""), outcome.get("reward"))


class WorkerPool(Protocol):
    """Workers that run the steps of a benchmark elsewhere, until the queue is empty."""

    async def __call__(self, ledger: StepQueue) -> None:
        """Lease steps, run them and deliver their records; return the steps of a lost worker to the queue."""
