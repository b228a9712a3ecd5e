"""The second door: the pipeline of a service behind HTTP, for agents that live outside.

It listens on loopback (or on one named address, for containers), asks for a token or for the key of a session
(``/s/<id>/v1/...``), carries the routes of the protocols and the models of the service and nothing else, passes streams
on as they come, and leaves the service when the agent leaves.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

import uvicorn

from nemo_evaluator.adapters._access import Access, split_path
from nemo_evaluator.adapters._asgi import ProxyApp
from nemo_evaluator.adapters._connections import BoundedConnection
from nemo_evaluator.adapters.base import Interceptor
from nemo_evaluator.adapters.in_process import Door
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.secrets import Secret, forget
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.types import CallScope

_START_BOUND = 10.0


class Proxy:
    """One service behind HTTP, on the running loop.

    ::

        async with Proxy(endpoint) as proxy:
            url = proxy.session(CallScope("a1b2"))      # give the agent this URL
            key = proxy.key_of("a1b2")                  # and this key, which is good for that session alone

    Calls with the token, outside of any session, are made on behalf of ``scope``; ``sessions_only`` refuses them.
    ``stages`` stand in the pipeline beside those of the service.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: Secret | None = None,
        scope: CallScope | None = None,
        sessions_only: bool = False,
        stages: Sequence[Interceptor] = (),
    ) -> None:
        check_host(host)
        self.door = Door(endpoint, stages)
        self._own_token = token is None
        self.token = token or Secret(secrets.token_urlsafe(24))
        self.host, self.port = host, port
        self._access = Access(self.token, scope, sessions_only=sessions_only)
        self._statuses: Counter[str] = Counter()
        self._app = ProxyApp(self.door, self._access, self._statuses, self.stats)
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The versioned base URL."""
        return f"{self.root}/v1"

    @property
    def root(self) -> str:
        """The URL without a version."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def session(self, scope: CallScope) -> str:
        """Open a session and return its base URL; calls with its key are made on behalf of ``scope``."""
        check_session(scope.session)
        self._access.opened[scope.session] = scope
        return f"{self.root}/s/{scope.session}/v1"

    def key_of(self, session: str) -> Secret:
        """The key of a session: it opens that session and no other, whatever path or header it is sent with."""
        return Secret(self._access.key_of(session))

    def forget(self, session: str) -> None:
        """Close a session; its key opens nothing any more."""
        self._access.opened.pop(session, None)
        forget(self.key_of(session))

    def stats(self) -> JsonDict:
        """Counts of the proxy, the pipeline and the transport."""
        return {
            "service": self.door.endpoint.name,
            "sessions": len(self._access.opened),
            "in_flight": self._app.in_flight,
            "statuses": dict(self._statuses),
            "transport": asdict(self.door.transport.stats),
            "stages": self.door.pipeline.stats(),
        }

    async def start(self) -> Proxy:
        """Listen."""
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
                    raise UsageError("the proxy did not start")
                await asyncio.sleep(0.005)
        return self

    async def stop(self) -> None:
        """Stop listening, leave every request under way, close the pipeline."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._app.leave_all()
            await self._task
            self._server = self._task = None
        await self.door.close()
        for session in list(self._access.opened):
            self.forget(session)
        if self._own_token:
            forget(self.token)

    async def __aenter__(self) -> Proxy:
        return await self.start()

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()


class _Server(uvicorn.Server):
    """A server that leaves the signals of the process alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The run that the proxy belongs to handles its own signals."""
        yield


def check_host(host: str) -> None:
    """Refuse an address that would open the proxy to every network."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        raise UsageError(f"{host!r} is not an IP address", hint="use 127.0.0.1, or a bridge address") from error
    if address.is_unspecified:
        raise UsageError(
            f"the proxy does not listen on every network ({host})",
            hint="name one address: 127.0.0.1, or the bridge address that containers reach",
        )


def check_session(name: str) -> None:
    """Refuse a name that could not stand in a URL."""
    if split_path(f"/s/{name}/v1/models") != (name, "/models"):
        raise UsageError(f"{name!r} is not a session name", hint="up to 128 letters, digits, - and _")


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
