"""Steps that run in other processes: they are leased from one queue, and what comes back goes into one journal.

A worker holds a few steps at a time. When it is lost, its steps go back to the queue; answers that have arrived are
in the journal by then, and only verified again.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, Self

from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.job import DRAIN, StepContext
from nemo_evaluator.store.records import ANSWER, OUTCOME, total_tokens

# How often somebody who waits looks whether the run was stopped.
LOOK: Final = 0.25
_SPENT: Final = ("usd", "tokens", "requests")


class Lease(NamedTuple):
    """A step for a worker; ``answer`` is the record of its answer, if it has one."""

    step: Step
    answer: JsonDict | None = None


class Halted(NamedTuple):
    """A stop as it travels between processes."""

    kind: HaltKind
    reason: str
    error: BaseException | None = None
    drain: float = 0.0

    @classmethod
    def of(cls, halt: Halt) -> Self | None:
        """The stop that was asked for; None when there was none."""
        if halt.kind is not None:
            return cls(halt.kind, halt.reason, halt.error, halt.drain)
        return None


@dataclass(slots=True)
class Reply:
    """What a worker has done since it was last asked. ``spent`` is what each budget was charged in all."""

    records: list[JsonDict] = field(default_factory=list)
    traffic: list[JsonDict] = field(default_factory=list)
    ended: list[Step] = field(default_factory=list)
    spent: list[JsonDict] = field(default_factory=list)
    halted: Halted | None = None


def spent_beyond(now: JsonDict, before: JsonDict) -> JsonDict:
    """What a budget was charged between two looks at it."""
    return {key: now[key] - before.get(key, 0) for key in _SPENT}


class StepQueue:
    """The queue of a benchmark and the only writer of its journal, while others run its steps."""

    def __init__(self, context: StepContext, steps: Iterator[Step]) -> None:
        self._ctx = context
        self._steps = steps
        self._budgets = context.job.budgets
        self.max_concurrent = context.job.max_concurrent
        self.halt = context.halt
        self.fingerprints = context.prints.parts
        # Steps of lost workers, which go out first; and how many steps workers hold.
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
            most: How many at most.
            wait: Wait until there is one. An empty list then means that there will be no more: all have ended.
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
        """The steps that may go out now; with ``wait`` at least one, unless there are no more."""
        leases: list[Lease] = []
        stop = self._ctx.stop
        payable = min(most, self._affordable())
        while len(leases) < payable and not self.halt:
            step: Step | None = None
            if self._returned:
                step = self._returned.popleft()
            elif stop is not None and stop.full:
                if leases or not wait:
                    break
                await stop.room()
                continue
            else:
                step = next(self._steps, None)
            if step is None:
                break
            offset = self._ctx.index.answer(step)
            answer = self._ctx.journal.read_at(offset) if offset is not None else None
            leases.append(Lease(step, answer))
        return leases

    def _affordable(self) -> float:
        """Steps that the budgets pay for, besides those at work, at what a step has cost so far; one if none is."""
        affordable = math.inf
        for budget, before in zip(self._budgets, self._spent_before, strict=True):
            used = spent_beyond(budget.spent(), before)
            limits = {"usd": budget.usd, "tokens": budget.tokens, "requests": budget.requests}
            for key, limit in limits.items():
                if limit is None:
                    continue
                cost = self._cost_of_step(key, used[key])
                if cost:
                    affordable = min(affordable, (limit - before[key] - used[key]) // cost)
        if not self._out:
            return max(affordable, 1)
        return max(affordable - self._out, 0)

    def _cost_of_step(self, key: str, used: float) -> float:
        """What a step has cost so far; before the first one has ended, one request, and else an unknown amount."""
        at_least = 1.0 if key == "requests" else 0.0
        if self.ended:
            return max(at_least, used / self.ended)
        return at_least or math.inf

    def elsewhere(self, charged: Sequence[JsonDict]) -> list[JsonDict]:
        """What each budget was charged, except by the worker whose own share is ``charged``."""
        by_others: list[JsonDict] = []
        for number, budget in enumerate(self._budgets):
            own = charged[number] if number < len(charged) else {}
            by_others.append(spent_beyond(budget.spent(), own))
        return by_others

    def counts(self) -> tuple[int, int]:
        """Steps that were scored, and those of them that an earlier session did."""
        return self._ctx.tally.scored, self._ctx.tally.reused

    def take(self, held: set[Step], reply: Reply, charged: list[JsonDict]) -> None:
        """Write what a worker has done.

        Args:
            held: The steps that the worker holds; those that have ended are removed.
            reply: What it has done.
            charged: What its budgets had been charged before; updated.
        """
        charged += [{}] * (len(reply.spent) - len(charged))
        for record in reply.records:
            self._take(record)
        for entry in reply.traffic:
            if self._ctx.job.traffic is not None:
                self._ctx.job.traffic(entry)
        for budget, before, now in zip(self._budgets, charged, reply.spent, strict=True):
            budget.resume(**spent_beyond(now, before))
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
        self._let_go(held, reply.ended)

    def give_back(self, held: set[Step]) -> None:
        """A worker is lost: whoever comes next gets its steps."""
        for step in sorted(held):
            offset = self._ctx.index.answer(step)
            # What an agent left in a sandbox is lost with its worker.
            if offset is not None and self._ctx.journal.read_at(offset).get("sandbox_used"):
                self._ctx.index.forget(step)
            self._returned.append(step)
        self._let_go(held, list(held))

    def over(self) -> bool:
        """True when a stop was asked for and requests in flight have had their time."""
        if not self.halt:
            return False
        self._halted_at = self._halted_at or time.monotonic()
        return time.monotonic() - self._halted_at >= self.halt.drain

    def _let_go(self, held: set[Step], steps: list[Step]) -> None:
        held.difference_update(steps)
        self._out -= len(steps)
        self._ctx.tally.in_flight = self._out
        self._changed.set()

    def _take(self, record: JsonDict) -> None:
        context = self._ctx
        tally = self._ctx.tally
        step = Step(record["problem_idx"], record["repeat"])
        if record["kind"] == ANSWER:

            def counted() -> None:
                tally.tokens += total_tokens(record)
                tally.cost_usd += record.get("cost_usd") or 0.0

            context.index.set_answer(step, context.journal.append(record, counted))
        elif record["kind"] == OUTCOME:
            context.index.set_outcome(
                step, context.journal.append(record, lambda: tally.add(record))
            )
            self._tell_rule(step, record)
        else:
            context.journal.append(record)

    def _tell_rule(self, step: Step, record: JsonDict) -> None:
        """Let the stop rule, if there is one, see an outcome."""
        if self._ctx.stop is not None:
            offset = self._ctx.index.answer(step)
            with_problem = self._ctx.journal.read_at(offset) if offset is not None else record
            self._ctx.ended(step, with_problem.get("problem_hash", ""), record.get("reward"))


class WorkerPool(Protocol):
    """Workers that run the steps of a benchmark elsewhere, until the queue has no more."""

    async def __call__(self, ledger: StepQueue) -> None:
        """Lease, send, take; give back what a lost worker held."""
