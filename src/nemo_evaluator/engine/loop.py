"""The loop: as many steps at work as there are slots, nothing created ahead of time."""

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

# Steps that wait (back-off) give their slot away; this bounds how many may wait at once.
_WAITING_PER_SLOT: Final = 3


class Loop:
    """Runs every step, or stops when ``halt`` is set. An exception that is not a step's own outcome ends the run."""

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
        """Make a loop.

        Args:
            steps: The steps, which are taken one by one.
            work: Runs a step.
            max_concurrent: How many steps are at work at once at most.
            halt: The stop of the run.
            tally: Counts the steps in flight.
            before_step: Awaited before a step is started.
            waiting: How many steps at least may wait at once (back-off, batches), besides those at work.
            clear: Takes back what ``work`` leaves in the context of its task.
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
        # Whether the producer waits for a slot, and nothing else.
        self._asking = False

    async def run(self) -> None:
        """Until all steps have ended, or those in flight have had the time that ``halt`` leaves them."""
        producer = asyncio.create_task(self._produce())
        stopper = asyncio.create_task(self._halt.wait())
        try:
            await asyncio.wait({producer, stopper}, return_when=asyncio.FIRST_COMPLETED)
            if self._halt:
                producer.cancel()
                with suppress(asyncio.CancelledError):
                    await producer
                asked = time.monotonic()
                while self._running and time.monotonic() - asked < self._halt.drain:
                    await asyncio.wait(self._running, timeout=0.1)
        finally:
            tasks = (producer, stopper, *self._running)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        error = None if producer.cancelled() else producer.exception()
        if error is not None:
            raise error

    async def _produce(self) -> None:
        """A task for each step that finds a slot, as long as not too many wait."""
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
        """A step, and further ones as long as nobody else wants the slot: a task for each would cost more.

        What a solver sets in the context ends with its step: the next one then gets a task, and a context, of its own.
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
                    # The journal is written in between: nothing new is asked while an answer is only in memory.
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
        self._running.discard(task)
        self._fewer.set()
        if not task.cancelled():
            task.exception()  # Marks it as seen; ``_run_some`` has handed it to ``halt``.


def _equal(before: Context, after: Context) -> bool:
    """Whether nothing was set in between: by identity, since values are anybody's."""
    return len(before) == len(after) and all(map(is_, before.values(), after.values()))


T = TypeVar("T")


class Deadlines:
    """Does what ``asyncio.timeout`` does, at a tenth of its cost, where every task has the same limit."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        # In the order of their ends.
        self._ends: dict[asyncio.Task[object], float] = {}
        self._late: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def within(self, call: Awaitable[T]) -> T:
        """What ``call`` returns. Raises TimeoutError when the limit is over; a task is here once at a time."""
        loop = self._loop
        if loop is None:
            loop = asyncio.get_running_loop()
            self._loop = loop
        task = asyncio.current_task(loop)
        assert task is not None
        asked = task.cancelling()
        end = loop.time() + self._limit
        self._ends[task] = end
        if self._timer is None:
            self._timer = loop.call_at(end, self._ring, loop)
        try:
            return await call
        except asyncio.CancelledError as error:
            if task not in self._late:
                raise
            self._late.discard(task)
            if task.uncancel() <= asked:
                raise TimeoutError from error
            raise
        finally:
            self._ends.pop(task, None)
            if task in self._late:
                # It ended otherwise at the last moment.
                self._late.discard(task)
                task.uncancel()

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        for task, end in list(self._ends.items()):
            if end > loop.time():
                self._timer = loop.call_at(end, self._ring, loop)
                return
            del self._ends[task]
            self._late.add(task)
            task.cancel()
