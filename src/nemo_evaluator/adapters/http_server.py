"""An HTTP server for an ASGI application, on the running loop; the proxy and ``nel serve`` use it."""

import asyncio
import ipaddress
import os
import signal
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Self, TypeAlias

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nemo_evaluator.adapters._access import token_of as token_of
from nemo_evaluator.adapters._limits import ConnectionTable, Holder
from nemo_evaluator.adapters.guard import Application, Guarded
from nemo_evaluator.core.errors import UsageError

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Respond: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# Keys of an ASGI scope.
# The application puts a function here; it is called when the client disconnects before its answer.
LEAVE: Final = "nel.leave"
# The server sets this to True when the client has disconnected, also before there is such a function.
LEFT: Final = "nel.left"
# The server puts a function here that names the holder of the connection: False if it has too many.
NAME_HOLDER: Final = "nel.name_holder"
# The server puts a function here that closes the connection immediately.
DROP: Final = "nel.drop"
# The largest body, in bytes.
LARGEST: Final = 64 * 2**20
# Seconds for the start of the server, for the headers and the body of a request, and for a client that stops reading.
_START_BOUND: Final = 10.0
HEADERS_BOUND: Final = 15.0
BODY_BOUND: Final = 60.0
READING_BOUND: Final = 120.0
_LARGEST_HEADERS: Final = 64 * 1024
_MOST_HEADERS: Final = 256
# Bytes that are neither headers nor body: chunk sizes and their extensions, trailers.
_LARGEST_FRAMING: Final = 64 * 1024
# Beyond that, one byte of framing for so many bytes of the body: chunks of a few bytes cost the parser much time.
_BODY_PER_FRAMING: Final = 8
# Requests that wait on a connection for the answer to an earlier one.
_MOST_WAITING: Final = 16
# An application with a time limit of its own can answer before the connection is closed.
_BODY_GRACE: Final = 5.0
# After an answer to a request with an unread body: how long, and for how many bytes, the connection stays open,
# so that the client can read the answer.
_LINGER: Final = 2.0
_LINGER_BYTES: Final = 2**20


def ended() -> asyncio.Event:
    """Return an event that is set when the process gets SIGINT (Ctrl-C) or SIGTERM."""
    event = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event


class HttpServer:
    """Listens on one address.

    Attributes:
        host: The address.
        port: The port; the real one after ``start``.
        connections: The open connections.
    """

    def __init__(
        self, app: Application, host: str, port: int, names: Collection[str] | None = None
    ) -> None:
        """Set up the server; ``start`` listens.

        Args:
            app: The ASGI application; ``Guarded`` checks its requests.
            host: The IP address.
            port: The port; 0 takes a free one.
            names: The host names that are answered besides the address; None for any, if every caller needs a key.

        Raises:
            UsageError: The address would open the server to every network.
        """
        check_host(host)
        self.host = host
        self.port = port
        answered = None if names is None else frozenset({host.lower(), *names})
        self._app = Guarded(app, answered)
        self.connections = ConnectionTable()
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def root(self) -> str:
        """The URL of the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; a second call does nothing.

        Raises:
            UsageError: The server cannot listen on its address.
        """
        if self._server is not None:
            return
        sock = _listen(self.host, self.port)
        self.port = sock.getsockname()[1]

        class Connection(BoundedConnection):
            """A connection to this server."""

            table = self.connections

        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            http=Connection,
            ws="none",
            lifespan="off",
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=2,
        )
        self._server = _Server(config)
        self._task = asyncio.get_running_loop().create_task(self._server.serve(sockets=[sock]))
        async with asyncio.timeout(_START_BOUND):
            while not self._server.started:
                if self._task.done():
                    self._task.result()
                    raise UsageError("the server did not start")
                await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task
            self._server = None
            self._task = None


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


class _Server(uvicorn.Server):
    """A uvicorn server that does not handle the signals of the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals of the process alone."""
        yield


def check_host(host: str) -> None:
    """Check the address of a server.

    Raises:
        UsageError: It is not an IP address, or it would open the server to every network.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        raise UsageError(
            f"{host!r} is not an IP address", hint="use 127.0.0.1, or a bridge address"
        ) from error
    if address.is_unspecified:
        raise UsageError(
            f"nel does not listen on every network ({host})",
            hint="name one address: 127.0.0.1, or the bridge address that containers reach",
        )


async def read_body(receive: Receive, hold: Callable[[int], None] | None = None) -> bytes | None:
    """Read the body of a request.

    Args:
        receive: Returns the next part.
        hold: Called with the size of each part; it may raise.

    Returns:
        The body; None if it is too large.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        part = message.get("body", b"")
        size += len(part)
        if size > LARGEST:
            return None
        if hold is not None:
            hold(len(part))
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        text = f"cannot listen on {host}:{port}: {reason}"
        raise UsageError(text, hint="port 0 takes a free one") from error
