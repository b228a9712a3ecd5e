"""One HTTP connection of the server, with bounds on time, size and number for everything that a client sends."""

import asyncio
import socket
from collections import deque
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nemo_evaluator.adapters._limits import ConnectionTable, Holder
from nemo_evaluator.adapters.asgi import BODY_BOUND, DROP, LEAVE, LEFT, NAME_HOLDER

# Seconds for the headers of a request, and for a client that stops reading.
HEADERS_BOUND: Final = 15.0
READING_BOUND: Final = 120.0
# An application with a time limit of its own (`BODY_BOUND`) can answer before the connection is closed.
_BODY_GRACE: Final = 5.0
_LARGEST_HEADERS: Final = 64 * 1024
_MOST_HEADERS: Final = 256
# Framing is what is neither headers nor body: chunk sizes and their extensions, trailers. So many bytes are allowed.
_LARGEST_FRAMING: Final = 64 * 1024
# Beyond that, one byte of framing for so many bytes of the body: chunks of a few bytes cost the parser much time.
_BODY_PER_FRAMING: Final = 8
# Requests that wait on a connection for the answer to an earlier one.
_MOST_WAITING: Final = 16
# After an answer to a request with an unread body: how long, and for how many bytes, the connection stays open,
# so that the client can read the answer.
_LINGER: Final = 2.0
_LINGER_BYTES: Final = 2**20


class TooMuchError(Exception):
    """A client exceeds a limit; raised in a callback of the parser, which then parses no more of what was received."""


class BoundedConnection(HttpToolsProtocol):
    """A connection with limits.

    It is closed when headers or body are late or too large, when it sends too much that is neither, when the client
    stops reading its answer, and when it is answered before its body was read.
    """

    # All connections of its server; each server has a class of its own.
    table: ClassVar[ConnectionTable]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._holder: Holder = ("address", "")
        self._head_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._framing_bytes = 0
        self._unread_bytes = 0
        # The requests of a pipeline that are not answered, in order: the first one is under way.
        self._unanswered: deque[Any] = deque()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, and detect peers that have disappeared."""
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._holder = ("address", self.client[0] if self.client else "")
        self._expect_headers()
        if not self.table.add(self._holder, self):
            self.drop()

    def drop(self) -> None:
        """Close immediately, to make room for another connection."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers, and tell the application that the client has disconnected."""
        self.table.remove(self._holder, self)
        for timer in (self._head_timer, self._body_timer, self._read_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.scope[LEFT] = True
            on_leave = cycle.scope.get(LEAVE)
            if on_leave is not None:
                on_leave()
        self._unanswered.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes that are neither body nor complete headers."""
        if self._linger_timer is not None:
            self._unread_bytes += len(data)
            if self._unread_bytes > _LINGER_BYTES:
                self.transport.abort()
            return
        if self._head_timer is not None:
            self._head_bytes += len(data)
        self._framing_bytes += len(data)
        super().data_received(data)
        head_too_large = self._head_timer is not None and self._head_bytes > _LARGEST_HEADERS
        framing_too_large = self._body_timer is not None and self._framing_bytes > _LARGEST_FRAMING
        if head_too_large or framing_too_large:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Start the timer of the headers, unless it runs already."""
        if self.transport.is_closing():
            raise TooMuchError("the connection is being closed")
        super().on_message_begin()
        if self._head_timer is None:
            self._expect_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; trailers are unused and dropped."""
        if self._body_timer is not None:
            return
        super().on_header(name, value)
        if len(self.headers) > _MOST_HEADERS:
            self.transport.abort()
            raise TooMuchError("too many headers")

    def on_body(self, body: bytes) -> None:
        """Take a part of the body, which allows for some framing."""
        allowed = len(body) + len(body) // _BODY_PER_FRAMING
        self._framing_bytes = max(0, self._framing_bytes - allowed)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the timer of the body, which is complete."""
        self._stop_body_timer()
        super().on_message_complete()
        if not self.pipeline:
            # After a large body nothing is read, and that the client disconnects would go unnoticed.
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        """Serve the next request, or close a connection that still sends an unread body."""
        if self._unanswered:
            self._unanswered.popleft()
        super().on_response_complete()
        if self._has_unread_body() and not self.transport.is_closing():
            self._linger()

    def close_answered(self) -> None:
        """Close after an answer that ends the connection."""
        if self._has_unread_body() and not self.transport.is_closing():
            self._linger()
        else:
            self.transport.close()

    def _has_unread_body(self) -> bool:
        return bool(
            self.cycle is not None and self.cycle.response_complete and self.cycle.more_body
        )

    def _linger(self) -> None:
        """Stop sending, and drop incoming bytes for a while before the connection is closed.

        Closing during a body would reset the connection, and the client might lose the answer.
        """
        if self._linger_timer is not None:
            return
        self._stop_body_timer()
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        self._linger_timer = self.loop.call_later(_LINGER, self.transport.abort)
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def on_headers_complete(self) -> None:
        """Start the timer of the body, and put the functions for the application into the scope."""
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        self._framing_bytes = 0
        self._body_timer = self.loop.call_later(BODY_BOUND + _BODY_GRACE, self._expire_body)
        hooks: Any = self.scope
        hooks[NAME_HOLDER] = self._name_holder
        hooks[DROP] = self.drop
        if len(self.pipeline) >= _MOST_WAITING:
            self.transport.abort()
            raise TooMuchError("too many requests wait on one connection")
        super().on_headers_complete()
        answering: Any = self.cycle
        answering.transport = _AnsweringTransport(self)
        self._unanswered.append(answering)

    def pause_writing(self) -> None:
        """Close the connection if the client does not read for too long."""
        super().pause_writing()
        self._read_timer = self.loop.call_later(READING_BOUND, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer of ``pause_writing``: the client reads again."""
        super().resume_writing()
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _expect_headers(self) -> None:
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HEADERS_BOUND, self._expire)

    def _name_holder(self, holder: Holder, most: int | None) -> bool:
        """Set the holder of the connection. Returns False if that holder has too many."""
        allowed = self.table.rename(self._holder, holder, self, most=most)
        if allowed:
            self._holder = holder
        return allowed

    def _stop_body_timer(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _expire_body(self) -> None:
        """Close the connection because the body is late, unless nobody reads it yet."""
        if self.pipeline:
            # It is not read yet, because the answer to the request before it is not complete.
            self._body_timer = self.loop.call_later(BODY_BOUND, self._expire_body)
        else:
            self.transport.abort()

    def _expire(self) -> None:
        """Close the connection because the headers are late, unless an earlier answer is incomplete."""
        if self.cycle is not None and not self.cycle.response_complete:
            # The next request of a pipeline waits until the current answer is complete.
            self._head_timer = self.loop.call_later(HEADERS_BOUND, self._expire)
        else:
            self.transport.abort()


class _AnsweringTransport:
    """The transport that uvicorn writes an answer to; ``BoundedConnection`` decides how it is closed."""

    def __init__(self, connection: BoundedConnection) -> None:
        self._connection = connection

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._connection.transport.write(data)

    def close(self) -> None:
        """Close once all written bytes are sent."""
        self._connection.close_answered()

    def is_closing(self) -> bool:
        """Whether the connection is being closed."""
        return self._connection.transport.is_closing()
