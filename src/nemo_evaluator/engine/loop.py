"""The loop: runs as many steps concurrently as there are slots, creating none ahead of time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from contextvars import Context, copy_context
from operator import is_
from typing import Final, TypeVar

from nemo_evaluator.core.slots import Slots, current_slots
from nemo_evaluator.core.types import Step
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.tally import Tally

# Steps that wait (back-off) release their slot; this limits how many may wait at once.
_WAITING_PER_SLOT: Final = 3


class Loop:
    """Runs every step, or stops once ``halt`` is set. An exception that is not the outcome of a step ends the run."""

    def __init__(
        self,
        steps: Iterator[Step],
        work: Callable[[Step], Awaitable[None]],
        *,
        max_concurrent: int,
        halt: Halt,
        tally: Tally,
        before_step: Callable[[], Awaitable[None]] | None = None,
        waiting: int = 0,
        clear: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a loop.

        Args:
            steps: The steps, which are taken one by one.
            work: Runs a step.
            max_concurrent: The maximum number of steps that run at once.
            halt: The early stop of the run.
            tally: Counts the steps in flight.
            before_step: Awaited before a step is started.
            waiting: How many steps may at least wait at once (back-off, batches), besides those running.
            clear: Resets what ``work`` sets in the context of its task.
        """
        self._steps = steps
        self._work = work
        self._before_step = before_step
        self._clear = clear
        self._halt = halt
        self._tally = tally
        self._slots = Slots(max_concurrent)
        self._running: set[asyncio.Task[None]] = set()
        self._most = max_concurrent + max(waiting, _WAITING_PER_SLOT * max_concurrent)
        self._fewer = asyncio.Event()
        # Whether the producer is waiting for a slot.
        self._asking = False

    async def run(self) -> None:
        """Run until all steps have ended, or those in flight have used the time that ``halt`` grants them."""
        producer = asyncio.create_task(self._produce())
        halt_task = asyncio.create_task(self._halt.wait())
        try:
            await asyncio.wait({producer, halt_task}, return_when=asyncio.FIRST_COMPLETED)
            if self._halt:
                producer.cancel()
                with suppress(asyncio.CancelledError):
                    await producer
                requested_at = time.monotonic()
                while self._running and time.monotonic() - requested_at < self._halt.drain:
                    await asyncio.wait(self._running, timeout=0.1)
        finally:
            tasks = (producer, halt_task, *self._running)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        error = None if producer.cancelled() else producer.exception()
        if error is not None:
            raise error

    async def _produce(self) -> None:
        """Start a task for each step once a slot is free, unless too many steps are waiting."""
        current_slots.set(self._slots)
        while True:
            if self._before_step is not None:
                await self._before_step()
            self._asking = True
            await self._slots.acquire()
            self._asking = False
            if self._halt:
                step: Step | None = None
            else:
                step = next(self._steps, None)
            if step is None:
                self._slots.release()
                break
            task = asyncio.create_task(self._run_some(step))
            self._running.add(task)
            task.add_done_callback(self._ended)
            while len(self._running) > self._most:
                self._fewer.clear()
                await self._fewer.wait()
        while self._running and not self._halt:
            await asyncio.wait(self._running)

    async def _run_some(self, first: Step) -> None:
        """Run a step, and further ones while no other task needs the slot, because a task for each step costs more.

        If a solver changes the context, the next step gets a task, and thereby a context, of its own.
        """
        step: Step | None = first
        self._tally.in_flight += 1
        self._clear()
        context = copy_context()
        try:
            while step is not None:
                await self._work(step)
                self._clear()
                only_producer_waits = (
                    self._asking
                    and self._before_step is None
                    and self._slots.waiting == 1
                    and not self._halt
                )
                if only_producer_waits and _equal(context, copy_context()):
                    step = next(self._steps, None)
                else:
                    step = None
                if step is not None:
                    # Lets the journal be written, so that no request is sent while an answer is only in memory.
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._halt.set(HaltKind.ERROR, str(error), error=error)
            raise
        finally:
            self._tally.in_flight -= 1
            self._slots.release()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Forget a task that has ended, and let the producer start another one."""
        self._running.discard(task)
        self._fewer.set()
        if not task.cancelled():
            task.exception()  # Marks it as retrieved; ``_run_some`` has passed it to ``halt``.


def _equal(before: Context, after: Context) -> bool:
    """Whether two contexts hold the same objects; compared by identity, since values may define their own equality."""
    if len(before) != len(after):
        return False
    return all(map(is_, before.values(), after.values()))


T = TypeVar("T")


class Deadlines:
    """Time limits like those of ``asyncio.timeout``, at a tenth of its cost, if all tasks have the same limit."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        # In the order of their deadlines.
        self._ends: dict[asyncio.Task[object], float] = {}
        self._late: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def within(self, call: Awaitable[T]) -> T:
        """Await ``call`` within the time limit. A task may be in here only once at a time.

        Raises:
            TimeoutError: If the limit is exceeded.
        """
        loop = self._loop
        if loop is None:
            loop = asyncio.get_running_loop()
            self._loop = loop
        task = asyncio.current_task(loop)
        assert task is not None
        cancellations_before = task.cancelling()
        deadline = loop.time() + self._limit
        self._ends[task] = deadline
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._ring, loop)
        try:
            return await call
        except asyncio.CancelledError as error:
            if task not in self._late:
                raise
            self._late.discard(task)
            if task.uncancel() <= cancellations_before:
                raise TimeoutError from error
            raise
        finally:
            self._ends.pop(task, None)
            if task in self._late:
                # The call ended by itself at the last moment.
                self._late.discard(task)
                task.uncancel()

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the tasks whose deadline has passed, and set the timer for the next one."""
        self._timer = None
        for task, deadline in list(self._ends.items()):
            if deadline > loop.time():
                self._timer = loop.call_at(deadline, self._ring, loop)
                return
            del self._ends[task]
            self._late.add(task)
            task.cancel()
