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


async def run_loop(
    steps: Iterator[Step],
    work: Callable[[Step], Awaitable[None]],
    *,
    max_concurrent: int,
    halt: Halt,
    tally: Tally,
    room: Callable[[], Awaitable[None]] | None = None,
    waiting: int = 0,
    clear: Callable[[], None] = lambda: None,
) -> None:
    """Run every step, or stop when ``halt`` is set. An exception that is not a step's own outcome ends the run.

    ``room`` is waited for before a step is started. ``waiting`` steps at least may wait at once, besides those at work.
    ``clear`` takes back what ``work`` itself leaves in the context of its task.
    """
    slots = Slots(max_concurrent)
    most, fewer = max_concurrent + max(waiting, _WAITING_PER_SLOT * max_concurrent), asyncio.Event()
    running: set[asyncio.Task[None]] = set()
    # Whether the producer waits for a slot, and nothing else.
    asking = False

    async def some(first: Step) -> None:
        """A step, and further ones as long as nobody else wants the slot: a task for each would cost more.

        What a solver sets in the context ends with its step: the next one then gets a task, and a context, of its own.
        """
        step: Step | None = first
        tally.in_flight += 1
        clear()
        context = copy_context()
        try:
            while step is not None:
                await work(step)
                clear()
                alone = asking and room is None and slots.waiting == 1 and not halt
                step = next(steps, None) if alone and _equal(context, copy_context()) else None
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            halt.set(HaltKind.ERROR, str(error), error=error)
            raise
        finally:
            tally.in_flight -= 1
            slots.release()

    def ended(task: asyncio.Task[None]) -> None:
        running.discard(task)
        fewer.set()
        if not task.cancelled():
            task.exception()  # Marks it as seen; ``some`` has handed it to ``halt``.

    async def produce() -> None:
        nonlocal asking
        current_slots.set(slots)
        while True:
            if room is not None:
                await room()
            asking = True
            await slots.acquire()
            asking = False
            step = None if halt else next(steps, None)
            if step is None:
                slots.release()
                break
            task = asyncio.create_task(some(step))
            running.add(task)
            task.add_done_callback(ended)
            while len(running) > most:
                fewer.clear()
                await fewer.wait()
        while running and not halt:
            await asyncio.wait(running)

    producer = asyncio.create_task(produce())
    stopper = asyncio.create_task(halt.wait())
    try:
        await asyncio.wait({producer, stopper}, return_when=asyncio.FIRST_COMPLETED)
        if halt:
            await _wind_down(producer, running, halt)
    finally:
        for task in (producer, stopper, *running):
            task.cancel()
        await asyncio.gather(producer, stopper, *running, return_exceptions=True)
    if producer.done() and not producer.cancelled() and (error := producer.exception()) is not None:
        raise error


def _equal(one: Context, other: Context) -> bool:
    """Whether nothing was set: by identity, since values are anybody's."""
    return len(one) == len(other) and all(map(is_, one.values(), other.values()))


async def _wind_down(producer: asyncio.Task[None], running: set[asyncio.Task[None]], halt: Halt) -> None:
    producer.cancel()
    with suppress(asyncio.CancelledError):
        await producer
    asked = time.monotonic()
    while running and time.monotonic() - asked < halt.drain:
        await asyncio.wait(running, timeout=0.1)


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
        loop = self._loop = self._loop or asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        asked = task.cancelling()
        end = self._ends[task] = loop.time() + self._limit
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
