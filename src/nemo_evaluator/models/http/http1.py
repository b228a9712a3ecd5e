"""One HTTP/1.1 connection of a lean client: POST only, every wait and every size bounded.

It supports only what the transport needs, at a third of the CPU of a general client: the parser is httptools, sockets
and TLS are asyncio's, and a request is one write and one future.
"""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections import deque
from time import monotonic
from typing import Any, Final, Protocol, cast

import httptools

from nemo_evaluator.models.endpoint import Timeouts
from nemo_evaluator.models.http.answer import Answer, Duplicates, WireError
from nemo_evaluator.models.http.chunk_queue import ChunkQueue

LARGEST: Final = 64 * 2**20
LARGEST_HEAD: Final = 256 * 2**10
_TOO_LARGE: Final = f"the answer is larger than {LARGEST // 2**20} MB"
_HEAD_TOO_LARGE: Final = f"the headers are larger than {LARGEST_HEAD // 2**10} KB"


class ConnectionOwner(Protocol):
    """The pool that keeps a connection between exchanges."""

    duplicates: Duplicates

    def give_back(self, connection: Connection) -> None:
        """Take a connection whose exchange is over; it may serve the next one."""

    def distrust(self) -> None:
        """Note that the server sent bytes without a request."""

    def forget(self, connection: Connection) -> None:
        """Note that a connection was closed."""


class Connection(asyncio.Protocol):
    """One connection with one exchange at a time. Nothing of an answer is kept after its exchange.

    Attributes:
        gone: The connection is closed, or about to be.
        rested_at: When its last exchange ended.
        seen: Hashes of its last answers, to recognise duplicates.
    """

    def __init__(self, pool: ConnectionOwner, loop: asyncio.AbstractEventLoop) -> None:
        """Set up a connection of a pool; the loop connects it."""
        self._pool = pool
        self._loop = loop
        self._parser = httptools.HttpResponseParser(self)
        self._ready: asyncio.Future[Answer] | None = None
        self._queue: ChunkQueue | None = None
        # One timer for all exchanges. It is not stopped after each: if nothing is late when it rings, it is set again.
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0
        # The answer of the current exchange is complete, or there is no exchange.
        self._whole = True
        self._held = False
        self._keep = False
        self.gone = False
        self.rested_at = 0.0
        self.seen: deque[int] = deque(maxlen=8)

    async def exchange(self, data: bytes, waits: Timeouts) -> Answer:
        """Send one request.

        Args:
            data: The bytes of the request.
            waits: The time limits.

        Returns:
            The answer; its body is a stream if the server sends events.

        Raises:
            WireError: There is no complete answer.
        """
        self._whole = False
        self._waits = waits
        self._started = monotonic()
        self._last = 0.0
        self._answer = Answer(0, sent_at=self._started)
        self._body: list[bytes] = []
        # Bytes of the body, bytes since the last part of the body, and bytes of the headers.
        self._size = 0
        self._got = 0
        self._head = 0
        # The body ends when the server closes the connection.
        self._eof_ends = False
        # Reading is paused because the reader of the stream is behind.
        self._held = False
        # The connection may serve another exchange.
        self._keep = False
        # The server sent more than one answer.
        self._surplus = False
        # An answer that may belong to an earlier request.
        self._suspect: Answer | None = None
        self._inflate: Any = None
        self._failure: WireError | None = None
        ready: asyncio.Future[Answer] = self._loop.create_future()
        self._ready = ready
        self._ring_by(self._started, min(waits.first_byte, waits.total))
        self._transport.write(data)
        try:
            return await ready
        except asyncio.CancelledError:
            # If the answer came first, the connection may already serve another exchange.
            if self._ready is ready and (not self._whole or self._queue is not None):
                self.abort()
            raise

    def abort(self) -> None:
        """Close the connection immediately; the server sees that."""
        self._stop_timer()
        self.gone = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop; an unfinished exchange fails, unless this is how its body ends."""
        self.gone = True
        self._stop_timer()
        self._pool.forget(self)
        if self._whole:
            return
        if self._eof_ends and exc is None and self._suspect is None:
            self._finish()
            return
        detail = f": {exc}" if exc is not None else ""
        if not self._last:
            self._fail(f"the server closed the connection before it answered{detail}")
        else:
            self._fail(f"the connection broke in the middle of the answer{detail}")

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._whole:
            # There is no request. Some servers announce with a 408 that they close an idle connection; anything else
            # may be the answer to another request.
            if b" 408 " not in data[:16]:
                self._pool.distrust()
            self.abort()
            return
        self._last = monotonic()
        self._got += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # Bytes after the end of the answer need not be HTTP.
            self._surplus = True
            self._fail(f"the answer is not HTTP: {error}")
        self._after_feed()

    def _after_feed(self) -> None:
        """Decide what happens with the connection after the parser has read all bytes."""
        if self._surplus:
            if self._failure is None:
                self._pool.distrust()
            self.abort()
        elif self._whole:
            if self._queue is None:
                self._rest()
        elif self._got > LARGEST_HEAD:
            # So much since the last part of the body can only be endless headers, interim answers or trailers.
            self._fail(_HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Called by the parser."""
        if self._whole:
            self._surplus = True
        else:
            self._answer.first_byte_at = self._last

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser, also for trailers, which are dropped."""
        if self._whole:
            return
        self._head += len(name) + len(value)
        if self._head > LARGEST_HEAD:
            self._fail(_HEAD_TOO_LARGE)
        elif not self._answer.status:
            self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        if self._whole:
            return
        answer = self._answer
        answer.status = self._parser.get_status_code()
        if answer.status < 200:
            return
        headers = answer.headers
        length = headers.get("content-length")
        self._eof_ends = length is None and "transfer-encoding" not in headers
        if length is not None and int(length) > LARGEST:
            self._fail(_TOO_LARGE)
            return
        if headers.get("content-encoding", "identity") in ("gzip", "deflate", "x-gzip"):
            self._inflate = zlib.decompressobj(47)
        if answer.status < 400 and answer.content_type == "text/event-stream":
            self._queue = ChunkQueue(self._hold, self._leave_stream)
            answer.stream = self._queue
            self._resolve()

    def on_body(self, data: bytes) -> None:
        """Called by the parser."""
        if self._whole:
            return
        self._got = 0
        if self._inflate is not None:
            data = self._inflate.decompress(data, LARGEST + 1 - self._size)
        self._size += len(data)
        if self._size > LARGEST:
            self._fail(_TOO_LARGE)
        elif self._queue is not None:
            self._queue.put(data)
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        if self._whole:
            return
        if self._answer.status < 200:
            # An interim answer; the real one follows.
            self._answer = Answer(0, sent_at=self._started)
            return
        self._keep = self._parser.should_keep_alive()
        self._finish()

    def _leave_stream(self) -> None:
        """Stop reading a stream that its reader has left; an incomplete one closes the connection."""
        self._queue = None
        if not self._whole:
            self.abort()
        elif not self.gone:
            self._rest()

    def _hold(self, stop: bool) -> None:
        """Pause reading from the socket while the reader of a stream is behind, and resume when it has caught up."""
        if self.gone:
            return
        self._held = stop
        if stop:
            self._transport.pause_reading()
        else:
            self._last = monotonic()
            self._transport.resume_reading()

    def _finish(self) -> None:
        """End the exchange with the complete answer, unless it may belong to another request."""
        self._answer.last_byte_at = self._last
        if self._queue is not None:
            self._whole = True
            self._queue.end(None)
            return
        body = self._body
        self._answer.body = body[0] if len(body) == 1 else b"".join(body)
        if self._suspect is not None:
            self._pool.distrust()
            self._keep = False
        elif self._keep and self._pool.duplicates.suspects(self._answer, self.seen):
            self._wait_for_own()
            return
        self._whole = True
        self._resolve()

    def _wait_for_own(self) -> None:
        """Wait for the own answer after a repeated one: it is a late duplicate, or all answers are equal."""
        self._suspect = self._answer
        self._answer = Answer(0, sent_at=self._started)
        self._body = []
        self._size = 0
        self._inflate = None
        self._stop_timer()
        self._ring_by(monotonic(), self._pool.duplicates.grace)

    def _rest(self) -> None:
        """Give the connection back after an exchange, or close it."""
        if self._keep and not (self.gone or self._held) and self._failure is None:
            self.rested_at = monotonic()
            self._pool.give_back(self)
        else:
            self.abort()

    def _resolve(self) -> None:
        ready = self._ready
        if ready is not None and not ready.done():
            ready.set_result(self._answer)

    def _fail(self, text: str) -> None:
        """End the exchange with an error."""
        if self._whole or self._failure is not None:
            return
        self._failure = WireError(text, self._answer.status)
        self._whole = True
        if self._queue is not None:
            self._queue.end(self._failure)
        elif self._ready is not None and not self._ready.done():
            self._ready.set_exception(self._failure)
        self.abort()

    def _check(self) -> None:
        """Find out whether a time limit is exceeded, when the timer fires."""
        self._timer = None
        now = monotonic()
        waits = self._waits
        if self._whole:
            return
        if self._suspect is not None and not self._answer.first_byte_at:
            self._pool.duplicates.usual = True
            self._answer = self._suspect
            self._whole = True
            self._resolve()
            self._rest()
            return
        answer_due = self._started + waits.total
        if self._held:
            # The reader is behind, not the server.
            bytes_due = now + waits.idle
        elif self._last:
            bytes_due = self._last + waits.idle
        else:
            bytes_due = self._started + waits.first_byte
        if now >= answer_due - 0.001:
            self._fail(f"not done within {waits.total:g} s (timeouts.total)")
        elif now < bytes_due - 0.001:
            self._ring_by(now, min(answer_due, bytes_due) - now)
        elif self._last:
            self._fail(f"nothing came for {waits.idle:g} s (timeouts.idle)")
        else:
            self._fail(f"no answer within {waits.first_byte:g} s (timeouts.first_byte)")

    def _ring_by(self, now: float, wait: float) -> None:
        if self._timer is None or self._rings_at > now + wait:
            self._stop_timer()
            self._rings_at = now + wait
            self._timer = self._loop.call_later(wait, self._check)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
