"""One rule for every server of ours: whom it answers, and how long a body may take.

A page in a browser can send requests to this machine, also under a name of its own that it lets point here (DNS
rebinding). So a server answers only hosts that it knows, and no page of another origin. A body must be whole within a
minute; where an answer is given before that, the connection is closed instead of waiting for the rest.
"""

import asyncio
import ipaddress
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Respond: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Respond], Awaitable[None]]
RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
# Under these names containers reach their host; nobody can register them.
FROM_CONTAINERS: Final = frozenset(
    {"host.docker.internal", "host.containers.internal", "gateway.docker.internal"}
)
BODY_BOUND: Final = 60.0
_CROSS_SITE: Final = frozenset({"cross-site", "same-site"})


class SlowBodyError(Exception):
    """A body was not whole in time."""


def refusal(headers: RawHeaders, names: Collection[str] | None) -> tuple[int, str] | None:
    """Why a request is not answered, with its status; None when it is.

    Args:
        headers: Those of the request, names in lower case.
        names: The hosts that are answered; None for servers whose every caller must have a key.
    """
    hosts = _values(headers, b"host")
    if len(hosts) > 1 or (names is not None and not hosts):
        return 400, "a request needs one Host header"
    if names is not None and not _is_known(_host_name(hosts[0]), names):
        return (
            421,
            "this server does not answer to that host name; use 127.0.0.1 or localhost, or allow the name",
        )
    for origin in _values(headers, b"origin"):
        if not hosts or origin.partition("://")[2] != hosts[0]:
            return 403, "requests of other pages are refused"
    if _CROSS_SITE & set(_values(headers, b"sec-fetch-site")):
        return 403, "requests of other pages are refused"
    return None


class Guarded:
    """An application behind the rule."""

    def __init__(
        self,
        app: Application,
        names: Collection[str] | None = None,
        *,
        body_bound: float = BODY_BOUND,
    ) -> None:
        self._app = app
        self._names = names
        self._body_bound = body_bound

    async def __call__(self, scope: Scope, receive: Receive, respond: Respond) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, respond)
            return
        exchange = _Exchange(scope, receive, respond, bound=self._body_bound)
        refused = refusal(scope["headers"], self._names)
        if refused is not None:
            await exchange.refuse(*refused)
            return
        try:
            await self._app(scope, exchange.receive, exchange.respond)
        except SlowBodyError:
            if exchange.answered:
                raise
            await exchange.refuse(408, "the body did not come in time")


class _Exchange:
    """One request and its answer: counts the time of the body, and whether it has come."""

    def __init__(self, scope: Scope, receive: Receive, respond: Respond, bound: float) -> None:
        names = {name for name, _ in scope["headers"]}
        self.answered = False
        self._body_open = b"content-length" in names or b"transfer-encoding" in names
        self._receive = receive
        self._respond = respond
        self._deadline = time.monotonic() + bound

    async def receive(self) -> MutableMapping[str, Any]:
        """The next piece of the body. Raises SlowBodyError when it does not come in time."""
        if not self._body_open:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
                message = await self._receive()
        except TimeoutError as error:
            raise SlowBodyError from error
        if message["type"] != "http.request" or not message.get("more_body"):
            self._body_open = False
        return message

    async def respond(self, message: MutableMapping[str, Any]) -> None:
        """Pass a part of the answer on; the connection ends with it when the body has not come."""
        if message["type"] == "http.response.start":
            self.answered = True
            if self._body_open:
                message = {
                    **message,
                    "headers": [*message.get("headers", []), (b"connection", b"close")],
                }
        await self._respond(message)

    async def refuse(self, status: int, why: str) -> None:
        body = orjson.dumps({"error": why})
        head = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await self.respond({"type": "http.response.start", "status": status, "headers": head})
        await self.respond({"type": "http.response.body", "body": body, "more_body": False})


def _values(headers: RawHeaders, name: bytes) -> list[str]:
    results: list[str] = []
    for given, value in headers:
        if given.lower() == name:
            results.append(value.decode("latin-1").strip().lower())
    return results


def _host_name(host: str) -> str:
    """The name in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".")


def _is_known(name: str, names: Collection[str]) -> bool:
    if name in names:
        return True
    try:
        return bool(LOOPBACK & set(names)) and ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
