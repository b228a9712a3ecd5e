"""An HTTP server for an ASGI application, on the running loop; the proxy and ``nel serve`` use it."""

import asyncio
import ipaddress
import os
import signal
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, Self

import uvicorn

from nemo_evaluator.adapters._connection import BoundedConnection
from nemo_evaluator.adapters._limits import ConnectionTable
from nemo_evaluator.adapters.guard import Application, Guarded
from nemo_evaluator.core.errors import UsageError

# Seconds for the start of the server, and between two looks whether it has started.
_START_BOUND: Final = 10.0
_START_LOOK: Final = 0.005


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
        answered_names = None if names is None else frozenset({host.lower(), *names})
        self._app = Guarded(app, answered_names)
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
        self._server = _Server(self._config())
        self._task = asyncio.get_running_loop().create_task(self._server.serve(sockets=[sock]))
        async with asyncio.timeout(_START_BOUND):
            while not self._server.started:
                if self._task.done():
                    # Raises the error that ended the server, if there is one.
                    self._task.result()
                    raise UsageError("the server did not start")
                await asyncio.sleep(_START_LOOK)

    def _config(self) -> uvicorn.Config:
        """Return the settings of uvicorn, which creates an object of a class for each connection."""

        class Connection(BoundedConnection):
            """A connection to this server."""

            table = self.connections

        return uvicorn.Config(
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

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task
            self._server = None
            self._task = None


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


def _listen(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Raises:
        UsageError: The address is not one of this machine, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        text = f"cannot listen on {host}:{port}: {reason}"
        raise UsageError(text, hint="port 0 takes a free one") from error
