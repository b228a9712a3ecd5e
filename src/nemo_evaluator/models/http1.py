"""A lean HTTP/1.1 client: a pool of connections to one server, POST only, every wait bounded.

It does what the transport needs and nothing else, at a third of the CPU of a general client: the parser is httptools,
sockets and TLS are asyncio's, a request is one write and one future.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import zlib
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import cache
from time import monotonic
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httptools

from nemo_evaluator.models.endpoint import Timeouts
from nemo_evaluator.models.pieces import Pieces

LARGEST: Final = 64 * 2**20
_KEEP_IDLE: Final = 30.0
_TOO_LARGE: Final = f"the answer is larger than {LARGEST // 2**20} MB"


class WireError(Exception):
    """An exchange failed below the level of HTTP statuses; the text says how."""


@dataclass(slots=True)
class Answer:
    """The status and headers (names in lower case) of an answer, and its body unless that is a stream."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None
    first_byte_at: float = 0.0

    @property
    def content_type(self) -> str:
        """The media type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Pool:
    """Connections to the server of one base URL."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._idle: deque[Connection] = deque()
        self._all: set[Connection] = set()
        self._closed = False

    async def post(self, data: bytes, waits: Timeouts) -> Answer:
        """Send the bytes of one request and wait for its answer."""
        connection = self._reusable() or await self._connect(waits.connect)
        return await connection.exchange(data, waits)

    async def close(self) -> None:
        """Drop every connection."""
        self._closed = True
        for connection in list(self._all):
            connection.abort()
        # One turn of the loop, so that the sockets are closed when this returns.
        await asyncio.sleep(0)

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose exchange is over for the next one."""
        if self._closed:
            connection.abort()
        else:
            self._idle.append(connection)

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        self._all.discard(connection)
        if connection.resting:
            try:
                self._idle.remove(connection)
            except ValueError:
                return

    def _reusable(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.gone and monotonic() - connection.rested_at < _KEEP_IDLE:
                return connection
            connection.abort()
        return None

    async def _connect(self, bound: float) -> Connection:
        loop = asyncio.get_running_loop()
        context = _tls_context() if self._tls else None
        try:
            async with asyncio.timeout(bound):
                _, connection = await loop.create_connection(
                    lambda: Connection(self, loop), self._host, self._port, ssl=context
                )
        except TimeoutError as error:
            raise WireError(f"no connection within {bound:g} s (timeouts.connect)") from error
        except OSError as error:
            raise WireError(f"no connection: {error.strerror or error} ({self._host}:{self._port})") from error
        self._all.add(connection)
        return connection


@cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


class Connection(asyncio.Protocol):
    """One connection: one exchange at a time."""

    __slots__ = (
        "_answer",
        "_body",
        "_eof_ends",
        "_failure",
        "_held",
        "_inflate",
        "_keep",
        "_last",
        "_loop",
        "_parser",
        "_pool",
        "_queue",
        "_ready",
        "_size",
        "_started",
        "_timer",
        "_transport",
        "_waits",
        "_whole",
        "gone",
        "rested_at",
        "resting",
    )

    def __init__(self, pool: Pool, loop: asyncio.AbstractEventLoop) -> None:
        self._pool, self._loop = pool, loop
        self._parser = httptools.HttpResponseParser(self)
        self._ready: asyncio.Future[Answer] | None = None
        self._queue: Pieces | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._whole = True
        self._held = self._keep = False
        self.gone = self.resting = False
        self.rested_at = 0.0

    async def exchange(self, data: bytes, waits: Timeouts) -> Answer:
        """Send one request; the answer, or WireError."""
        self.resting = False
        self._whole = False
        self._waits = waits
        self._started = monotonic()
        self._last = 0.0
        self._answer = Answer(0)
        self._body: list[bytes] = []
        self._size = 0
        self._eof_ends = self._held = self._keep = False
        self._inflate: Any = None
        self._failure: WireError | None = None
        ready: asyncio.Future[Answer] = self._loop.create_future()
        self._ready = ready
        self._timer = self._loop.call_later(min(waits.first_byte, waits.total), self._check)
        self._transport.write(data)
        try:
            return await ready
        except asyncio.CancelledError:
            self.abort()
            raise

    def abort(self) -> None:
        """Leave at once; the server sees the connection close."""
        self._stop_timer()
        self.gone = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        self._pool.forget(self)
        if self._whole:
            return
        if self._eof_ends and exc is None:
            self._finish()
        elif not self._last:
            detail = f": {exc}" if exc is not None else ""
            self._fail(f"the server closed the connection before it answered{detail}")
        else:
            self._fail(f"the connection broke in the middle of the answer{f': {exc}' if exc is not None else ''}")

    def data_received(self, data: bytes) -> None:
        if self._whole:
            # Nobody asked: whatever this is, the connection cannot be trusted any more.
            self.abort()
            return
        self._last = monotonic()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"the answer is not HTTP: {error}")
            return
        self._rest_if_done()

    def _rest_if_done(self) -> None:
        if self._whole and self._queue is None:
            self._rest()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        answer = self._answer
        answer.status = self._parser.get_status_code()
        if answer.status < 200:
            return
        answer.first_byte_at = self._last
        headers = answer.headers
        length = headers.get("content-length")
        self._eof_ends = length is None and "transfer-encoding" not in headers
        if length is not None and int(length) > LARGEST:
            self._fail(_TOO_LARGE)
            return
        if headers.get("content-encoding", "identity") in ("gzip", "deflate", "x-gzip"):
            self._inflate = zlib.decompressobj(47)
        if answer.status < 400 and answer.content_type == "text/event-stream":
            self._queue = Pieces(self)
            answer.stream = self._queue
            self._resolve()

    def on_body(self, data: bytes) -> None:
        """Called by the parser."""
        if self._inflate is not None:
            data = self._inflate.decompress(data)
        if self._queue is not None:
            self._queue.put(data)
            return
        self._size += len(data)
        if self._size > LARGEST:
            self._fail(_TOO_LARGE)
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        if self._answer.status < 200:
            # An interim answer; the real one follows.
            self._answer = Answer(0)
            return
        self._keep = self._parser.should_keep_alive()
        self._finish()

    def leave_stream(self) -> None:
        """The reader of a stream has had enough."""
        self._queue = None
        if not self._whole:
            self.abort()
        elif not self.gone:
            self._rest()

    def hold(self, *, stop: bool) -> None:
        """Stop reading from the socket while the reader of a stream is behind, and go on when it has caught up."""
        if self.gone:
            return
        self._held = stop
        if stop:
            self._transport.pause_reading()
        else:
            self._last = monotonic()
            self._transport.resume_reading()

    def _finish(self) -> None:
        self._whole = True
        self._stop_timer()
        if self._queue is not None:
            self._queue.end(None)
            return
        body = self._body
        self._answer.body = body[0] if len(body) == 1 else b"".join(body)
        self._resolve()

    def _rest(self) -> None:
        if self._keep and not self.gone and self._failure is None:
            self._parser = httptools.HttpResponseParser(self)
            self.resting, self.rested_at = True, monotonic()
            self._pool.give_back(self)
        else:
            self.abort()

    def _resolve(self) -> None:
        ready = self._ready
        if ready is not None and not ready.done():
            ready.set_result(self._answer)

    def _fail(self, text: str) -> None:
        if self._whole or self._failure is not None:
            return
        self._failure = WireError(text)
        self._whole = True
        if self._queue is not None:
            self._queue.end(self._failure)
        elif self._ready is not None and not self._ready.done():
            self._ready.set_exception(self._failure)
        self.abort()

    def _check(self) -> None:
        """The timer rang: which bound is it, and is it really over?"""
        self._timer = None
        now, waits = monotonic(), self._waits
        if self._whole:
            return
        ends = self._started + waits.total
        next_one = self._last + waits.idle if self._last else self._started + waits.first_byte
        if self._held:
            # The reader is behind, not the server.
            next_one = now + waits.idle
        if now >= ends - 0.001:
            self._fail(f"not done within {waits.total:g} s (timeouts.total)")
        elif now >= next_one - 0.001:
            late = f"nothing came for {waits.idle:g} s (timeouts.idle)"
            self._fail(late if self._last else f"no answer within {waits.first_byte:g} s (timeouts.first_byte)")
        else:
            self._timer = self._loop.call_later(min(ends, next_one) - now, self._check)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
