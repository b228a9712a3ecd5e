"""Slots that limit how many steps work at once, and that are lent to others while their holder waits.

The loop holds one slot per working step. Code that waits without working (back-off, a rate limit) does so inside
``lent_slot()``, so that another step can run meanwhile.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar


class Slots:
    """A fair counting semaphore that also counts the slots that are lent out."""

    def __init__(self, size: int) -> None:
        self.size = max(1, size)
        self._free = self.size
        # In the order of their arrival.
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.lent = 0

    @property
    def waiting(self) -> int:
        """Return how many steps wait for a slot."""
        return len(self._waiters)

    @property
    def idle(self) -> bool:
        """Return whether no step works: every step waits, or none is left."""
        return self._free == self.size

    async def acquire(self) -> None:
        """Take a slot, waiting for one if none is free."""
        if self._free > 0 and not self._waiters:
            self._free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release()
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def release(self) -> None:
        """Return a slot; the longest waiter gets it."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1


current_slots: ContextVar[Slots | None] = ContextVar("current_slots", default=None)


@asynccontextmanager
async def lent_slot() -> AsyncIterator[None]:
    """Lend the slot of the running step to others during the block."""
    slots = current_slots.get()
    if slots is None:
        yield
        return
    slots.lent += 1
    slots.release()
    try:
        yield
    finally:
        slots.lent -= 1
        await slots.acquire()
