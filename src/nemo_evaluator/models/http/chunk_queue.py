"""The chunks of a stream between socket and reader; the socket waits when the reader is behind."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Self

_HIGH_WATER: Final = 2**18


class ChunkQueue:
    """Chunks of bytes, read with ``async for``; ``aclose`` leaves before the end."""

    def __init__(self, hold: Callable[[bool], None], leave: Callable[[], None]) -> None:
        """Start empty.

        Args:
            hold: Called with True when the source must pause, and with False when it may resume.
            leave: Called when the reader has finished or left.
        """
        self._hold = hold
        self._leave = leave
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._held = False
        self._ended = False
        self._left = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def put(self, data: bytes) -> None:
        """Add a chunk."""
        if not data:
            return
        self._chunks.append(data)
        self._size += len(data)
        if self._size > _HIGH_WATER and not self._held:
            self._held = True
            self._hold(True)
        self._wake()

    def end(self, error: Exception | None) -> None:
        """End the stream, with an error if it broke."""
        self._ended = True
        self._error = error
        self._wake()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the received bytes, waiting for some if there are none."""
        while not self._chunks:
            if self._ended:
                if self._error is not None:
                    raise self._error
                await self.aclose()
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if self._held:
            self._held = False
            self._hold(False)
        return data

    async def aclose(self) -> None:
        """Leave the stream; its connection may serve another request afterwards."""
        if not self._left:
            self._left = True
            self._leave()

    def _wake(self) -> None:
        waiter = self._waiter
        self._waiter = None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
