"""Connections of agents: none may wait half open, and none may send or hold more than it should."""

import asyncio
import socket
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_BOUND: Final = 15.0
BODY_BOUND: Final = 60.0
READING_BOUND: Final = 120.0
_LARGEST_HEADERS: Final = 256 * 1024


class BoundedConnection(HttpToolsProtocol):
    """Closes a connection whose headers do not come in time or in size, or whose agent stops reading its answer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, and notice peers that are gone."""
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before the headers are whole."""
        if self._head_timer is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_timer is not None and self._head_bytes > _LARGEST_HEADERS:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """A request begins: its headers are waited for."""
        super().on_message_begin()
        if self._head_timer is None:
            self._expect_headers()

    def on_headers_complete(self) -> None:
        """The headers are whole."""
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """The agent does not read; it has a while to go on."""
        super().pause_writing()
        self._read_timer = self.loop.call_later(READING_BOUND, self.transport.abort)

    def resume_writing(self) -> None:
        """The agent reads again."""
        super().resume_writing()
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _expect_headers(self) -> None:
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HEADERS_BOUND, self._expire)

    def _expire(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # The next request of a pipeline waits behind an answer that is still being given.
            self._head_timer = self.loop.call_later(HEADERS_BOUND, self._expire)
        else:
            self.transport.abort()

    def _stop_timers(self) -> None:
        for timer in (self._head_timer, self._read_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._read_timer = None
