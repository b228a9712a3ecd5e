"""An ASGI application behind HTTP, on the running loop: what the proxy and ``nel serve`` listen with."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import uvicorn

from nemo_evaluator.adapters._access import token_of as token_of
from nemo_evaluator.adapters._connections import BoundedConnection
from nemo_evaluator.core.errors import UsageError

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Respond: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGEST: Final = 64 * 2**20
_START_BOUND: Final = 10.0


class HttpServer:
    """Listens on one address. ``leave`` ends the requests that are under way when it stops."""

    def __init__(
        self,
        app: Callable[[Scope, Receive, Respond], Awaitable[None]],
        host: str,
        port: int,
        leave: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        check_host(host)
        self.host, self.port = host, port
        self._app, self._leave = app, leave
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def root(self) -> str:
        """The URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        """Listen; once is enough."""
        if self._server is not None:
            return
        sock = _listen(self.host, self.port)
        self.port = sock.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            http=BoundedConnection,
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
        """Stop listening and leave every request under way."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            if self._leave is not None:
                await self._leave()
            await self._task
            self._server = self._task = None


class _Server(uvicorn.Server):
    """A server that leaves the signals of the process alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The run that the server belongs to handles its own signals."""
        yield


def check_host(host: str) -> None:
    """Refuse an address that would open a server to every network."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        raise UsageError(f"{host!r} is not an IP address", hint="use 127.0.0.1, or a bridge address") from error
    if address.is_unspecified:
        raise UsageError(
            f"nel does not listen on every network ({host})",
            hint="name one address: 127.0.0.1, or the bridge address that containers reach",
        )


async def read_body(receive: Receive) -> bytes | None:
    """The body of a request; None when it is too large."""
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
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}", hint="port 0 takes a free one") from error
    sock.listen(2048)
    return sock
