"""The loop: as many steps at work as there are slots, nothing created ahead of time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final

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
) -> None:
    """Run every step, or stop when ``halt`` is set. An exception that is not a step's own outcome ends the run.

    ``room`` is waited for before a step is started. ``waiting`` steps at least may wait at once, besides those at work.
    """
    slots = Slots(max_concurrent)
    most, fewer = max_concurrent + max(waiting, _WAITING_PER_SLOT * max_concurrent), asyncio.Event()
    running: set[asyncio.Task[None]] = set()

    async def one(step: Step) -> None:
        tally.in_flight += 1
        try:
            await work(step)
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
            task.exception()  # Marks it as seen; ``one`` has handed it to ``halt``.

    async def produce() -> None:
        current_slots.set(slots)
        for step in steps:
            if room is not None:
                await room()
            await slots.acquire()
            if halt:
                slots.release()
                return
            task = asyncio.create_task(one(step))
            running.add(task)
            task.add_done_callback(ended)
            while len(running) > most:
                fewer.clear()
                await fewer.wait()
        while running:
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


async def _wind_down(producer: asyncio.Task[None], running: set[asyncio.Task[None]], halt: Halt) -> None:
    producer.cancel()
    with suppress(asyncio.CancelledError):
        await producer
    asked = time.monotonic()
    while running and time.monotonic() - asked < halt.drain:
        await asyncio.wait(running, timeout=0.1)
