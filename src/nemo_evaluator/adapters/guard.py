"""One rule for all servers of nel: which requests they answer, and how long a body may take.

A web page can send requests to this machine, also under a host name that resolves to it (DNS rebinding). So a server
answers only known host names, and refuses pages of other origins. A body must be complete within a minute; if the
answer comes before that, the connection is closed instead of waiting for the rest.
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
# Containers reach their host under these names; they cannot be registered.
FROM_CONTAINERS: Final = frozenset(
    {"host.docker.internal", "host.containers.internal", "gateway.docker.internal"}
)
BODY_BOUND: Final = 60.0
_CROSS_SITE: Final = frozenset({"cross-site", "same-site"})


class SlowBodyError(Exception):
    """A body was not complete in time."""


def refusal(headers: RawHeaders, names: Collection[str] | None) -> tuple[int, str] | None:
    """Decide whether a request is refused.

    Args:
        headers: The headers of the request, names in lower case.
        names: The host names that are answered; None for servers that require a key from every caller.

    Returns:
        The status and the reason of the refusal; None if the request is answered.
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
    """An ASGI application whose requests are checked first."""

    def __init__(
        self,
        app: Application,
        names: Collection[str] | None = None,
        *,
        body_bound: float = BODY_BOUND,
    ) -> None:
        """Wrap an application.

        Args:
            app: The application.
            names: The host names that are answered; None for any.
            body_bound: Seconds until a body must be complete.
        """
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
            status, reason = refused
            await exchange.refuse(status, reason)
            return
        try:
            await self._app(scope, exchange.receive, exchange.respond)
        except SlowBodyError:
            if exchange.answered:
                raise
            await exchange.refuse(408, "the body did not come in time")


class _Exchange:
    """One request and its answer: limits the time for the body, and knows whether the body is complete."""

    def __init__(self, scope: Scope, receive: Receive, respond: Respond, bound: float) -> None:
        names = {name for name, _ in scope["headers"]}
        self.answered = False
        self._body_open = b"content-length" in names or b"transfer-encoding" in names
        self._receive = receive
        self._respond = respond
        self._deadline = time.monotonic() + bound

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the next part of the body.

        Raises:
            SlowBodyError: The part did not arrive in time.
        """
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
        """Send a part of the answer; the connection is closed after it if the body is not complete."""
        if message["type"] == "http.response.start":
            self.answered = True
            if self._body_open:
                headers = [*message.get("headers", []), (b"connection", b"close")]
                message = {**message, "headers": headers}
        await self._respond(message)

    async def refuse(self, status: int, reason: str) -> None:
        """Answer with an error."""
        body = orjson.dumps({"error": reason})
        head = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await self.respond({"type": "http.response.start", "status": status, "headers": head})
        await self.respond({"type": "http.response.body", "body": body, "more_body": False})


def _values(headers: RawHeaders, name: bytes) -> list[str]:
    """All values of a header, in lower case."""
    values: list[str] = []
    for header, value in headers:
        if header.lower() == name:
            values.append(value.decode("latin-1").strip().lower())
    return values


def _host_name(host: str) -> str:
    """The name in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".")


def _is_known(name: str, names: Collection[str]) -> bool:
    """Whether a host name is answered; a server on loopback answers every loopback address."""
    if name in names:
        return True
    if not LOOPBACK & set(names):
        return False
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
