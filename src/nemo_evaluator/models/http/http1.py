"""One HTTP/1.1 connection of a lean client: POST only, every wait and every size bounded.

It does what the transport needs and nothing else, at a third of the CPU of a general client: the parser is httptools,
sockets and TLS are asyncio's, a request is one write and one future.
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
    """Who keeps a connection between exchanges."""

    duplicates: Duplicates

    def give_back(self, connection: Connection) -> None:
        """Its exchange is over and it may serve the next one."""

    def distrust(self) -> None:
        """The server sent bytes that nobody asked for."""

    def forget(self, connection: Connection) -> None:
        """It is gone."""


class Connection(asyncio.Protocol):
    """One connection: one exchange at a time, and nothing of an answer outlives the exchange that asked for it."""

    def __init__(self, pool: ConnectionOwner, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._loop = loop
        self._parser = httptools.HttpResponseParser(self)
        self._ready: asyncio.Future[Answer] | None = None
        self._queue: ChunkQueue | None = None
        # One timer for all exchanges, left to ring: where none is late by then, it is set anew.
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0
        self._whole = True
        self._held = self._keep = False
        self.gone = False
        self.rested_at = 0.0
        self.seen: deque[int] = deque(maxlen=8)

    async def exchange(self, data: bytes, waits: Timeouts) -> Answer:
        """Send one request; the answer, or WireError."""
        self._whole = False
        self._waits = waits
        self._started = monotonic()
        self._last = 0.0
        self._answer = Answer(0, sent_at=self._started)
        self._body: list[bytes] = []
        self._size = self._got = self._head = 0
        self._eof_ends = self._held = self._keep = self._surplus = False
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
            # When the answer came first, the connection may be in other hands already.
            if self._ready is ready and (not self._whole or self._queue is not None):
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
        self._stop_timer()
        self._pool.forget(self)
        if self._whole:
            return
        if self._eof_ends and exc is None and self._suspect is None:
            self._finish()
        elif not self._last:
            detail = f": {exc}" if exc is not None else ""
            self._fail(f"the server closed the connection before it answered{detail}")
        else:
            self._fail(
                f"the connection broke in the middle of the answer{f': {exc}' if exc is not None else ''}"
            )

    def data_received(self, data: bytes) -> None:
        if self._whole:
            # Nobody asked. Some servers say that they close an idle connection; anything else may be another's answer.
            if b" 408 " not in data[:16]:
                self._pool.distrust()
            self.abort()
            return
        self._last = monotonic()
        self._got += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # Bytes behind the end of the answer need not be HTTP.
            self._surplus = True
            self._fail(f"the answer is not HTTP: {error}")
        self._after_feed()

    def _after_feed(self) -> None:
        if self._surplus:
            if self._failure is None:
                self._pool.distrust()
            self.abort()
        elif self._whole:
            if self._queue is None:
                self._rest()
        elif self._got > LARGEST_HEAD:
            # Since the last byte of the body: a head, interim answers or trailers without end.
            self._fail(_HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Called by the parser."""
        if self._whole:
            self._surplus = True
        else:
            self._answer.first_byte_at = self._last

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser, also for trailers, which are not kept."""
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
        """The reader of a stream has had enough."""
        self._queue = None
        if not self._whole:
            self.abort()
        elif not self.gone:
            self._rest()

    def _hold(self, stop: bool) -> None:
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
        self._answer.last_byte_at = self._last
        if self._queue is not None:
            self._whole = True
            self._queue.end(None)
            return
        body = self._body
        if len(body) == 1:
            self._answer.body = body[0]
        else:
            self._answer.body = b"".join(body)
        if self._suspect is not None:
            self._pool.distrust()
            self._keep = False
        elif self._keep and self._pool.duplicates.suspects(self._answer, self.seen):
            self._wait_for_own()
            return
        self._whole = True
        self._resolve()

    def _wait_for_own(self) -> None:
        """The last answer once more: a late duplicate, after which the own answer follows, or a server like that."""
        self._suspect = self._answer
        self._answer = Answer(0, sent_at=self._started)
        self._body = []
        self._size = 0
        self._inflate = None
        self._stop_timer()
        self._ring_by(monotonic(), self._pool.duplicates.grace)

    def _rest(self) -> None:
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
        """The timer rang: which bound is it, and is it really over?"""
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
        ends = self._started + waits.total
        if self._last:
            next_one = self._last + waits.idle
        else:
            next_one = self._started + waits.first_byte
        if self._held:
            # The reader is behind, not the server.
            next_one = now + waits.idle
        if now >= ends - 0.001:
            self._fail(f"not done within {waits.total:g} s (timeouts.total)")
        elif now >= next_one - 0.001:
            late = f"nothing came for {waits.idle:g} s (timeouts.idle)"
            self._fail(
                late
                if self._last
                else f"no answer within {waits.first_byte:g} s (timeouts.first_byte)"
            )
        else:
            self._ring_by(now, min(ends, next_one) - now)

    def _ring_by(self, now: float, wait: float) -> None:
        if self._timer is None or self._rings_at > now + wait:
            self._stop_timer()
            self._rings_at = now + wait
            self._timer = self._loop.call_later(wait, self._check)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
