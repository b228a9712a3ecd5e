"""The proxy as an ASGI application: token, sessions, requests in, replies and streams out."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import orjson

from nemo_evaluator.adapters._errors import as_error, error_reply
from nemo_evaluator.adapters.convert import Route, route_of
from nemo_evaluator.adapters.door import Door
from nemo_evaluator.core.errors import NelError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import CallScope, ModelReply, ModelRequest

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]
Respond: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_SESSION: Final = re.compile(r"^/s/([A-Za-z0-9_-]{1,128})(/.*)?$")
_LARGEST: Final = 64 * 2**20
_KEPT: Final = frozenset({"retry-after", "retry-after-ms", "x-request-id", "request-id"})
_DROPPED: Final = frozenset(
    {b"host", b"content-length", b"connection", b"transfer-encoding", b"authorization", b"x-api-key", b"accept"}
    | {b"accept-encoding", b"user-agent", b"content-type", b"keep-alive", b"te", b"upgrade", b"cookie", b"expect"}
    | {b"proxy-authorization"}
)
_WATCH_AFTER: Final = 0.05


class Sessions:
    """Who asks: opened sessions by id, and one scope for everybody else."""

    def __init__(self, opened: dict[str, CallScope], other: CallScope | None) -> None:
        self._opened = opened
        self._other = other

    def scope_of(self, session: str | None) -> CallScope | None:
        """The scope of a session; an id that nobody opened is a session of its own."""
        if session is None:
            return self._other
        known = self._opened.get(session)
        if known is not None:
            return known
        return replace(self._other, session=session) if self._other is not None else CallScope(session)


class Work:
    """One request under way, in the running task; when its agent leaves, the task is cancelled."""

    __slots__ = ("_receive", "_task", "_timer", "_watch", "left")

    def __init__(self, receive: Receive) -> None:
        self.left = False
        self._receive = receive
        self._task = asyncio.current_task()
        self._watch: asyncio.Future[Any] | None = None
        # Most answers come before anybody could leave; those need no watch.
        self._timer = asyncio.get_running_loop().call_later(_WATCH_AFTER, self._begin)

    def leave(self) -> None:
        """Give the request up."""
        self.left = True
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """The request is done."""
        self._task = None
        self._timer.cancel()
        if self._watch is not None:
            self._watch.cancel()

    def _begin(self) -> None:
        self._watch = asyncio.ensure_future(self._receive())
        self._watch.add_done_callback(self._gone)

    def _gone(self, watch: asyncio.Future[Any]) -> None:
        if not watch.cancelled() and self._task is not None:
            self.leave()


class ProxyApp:
    """Carries HTTP requests through a pipeline."""

    def __init__(
        self,
        door: Door,
        allowed: Callable[[str], bool],
        sessions: Sessions,
        statuses: Counter[str],
        stats: Callable[[], JsonDict],
    ) -> None:
        self._door = door
        self._allowed = allowed
        self._sessions = sessions
        self._statuses = statuses
        self._stats = stats
        self._working: set[Work] = set()

    @property
    def in_flight(self) -> int:
        """Requests under way."""
        return len(self._working)

    async def leave_all(self) -> None:
        """Cancel every request under way."""
        for work in list(self._working):
            work.leave()
        for _ in range(500):
            if not self._working:
                return
            await asyncio.sleep(0.01)

    async def __call__(self, scope: Scope, receive: Receive, respond: Respond) -> None:
        """One HTTP request."""
        if scope["type"] != "http":
            return
        path: str = scope["path"]
        if path == "/health" and scope["method"] == "GET":
            await self._send_json(respond, 200, {"status": "ok"})
            return
        session, path = _split(path)
        headers = scope["headers"]
        if not self._allowed(_token(headers)):
            text = "the proxy's token is missing or wrong: give it as the API key"
            await self._send_error(respond, path, 401, text, "authentication_error")
        elif scope["method"] == "GET":
            await self._get(respond, path)
        elif scope["method"] != "POST":
            await self._send_error(respond, path, 405, "method not allowed: POST a request", "invalid_request_error")
        else:
            await self._post(path, session, _kept(headers), receive, respond)

    async def _get(self, respond: Respond, path: str) -> None:
        if path == "/stats":
            await self._send_json(respond, 200, self._stats())
        elif path == "/models":
            listed = {"id": self._door.endpoint.model, "object": "model", "created": 0, "owned_by": "nel"}
            await self._send_json(respond, 200, {"object": "list", "data": [listed]})
        else:
            await self._send_error(respond, path, 405, "only /health, /stats and /models answer GET", "not_allowed")

    async def _post(
        self, path: str, session: str | None, headers: dict[str, str], receive: Receive, respond: Respond
    ) -> None:
        raw = await _body(receive)
        try:
            body = orjson.loads(raw) if raw is not None else None
        except orjson.JSONDecodeError:
            body = None
        if raw is None or not isinstance(body, dict):
            text = "the body is larger than 64 MB" if raw is None else "the body is not a JSON object"
            await self._send_error(respond, path, 413 if raw is None else 400, text, "invalid_request_error")
            return
        work = Work(receive)
        self._working.add(work)
        try:
            await self._carry(path, session, headers, body, respond)
        except asyncio.CancelledError:
            # The agent has left, or the proxy stops: nobody waits for an answer.
            if not work.left:
                raise
        finally:
            work.end()
            self._working.discard(work)

    async def _carry(
        self, path: str, session: str | None, headers: dict[str, str], body: JsonDict, respond: Respond
    ) -> None:
        endpoint = self._door.endpoint
        if endpoint.model:
            body.setdefault("model", endpoint.model)
        route = route_of(path, endpoint.protocol)
        reply: ModelReply | None = None
        try:
            with boundary(Cause.TRANSPORT):
                request = ModelRequest(route.path, route.request(body), headers, self._sessions.scope_of(session))
                request.whole = not (body.get("stream") is True and route.streams)
                reply = await self._door.pipeline(request)
                # A stage may have asked for the whole, or the service may have answered without streaming.
                await self._answer(path, route, body, reply, respond)
        except NelError as error:
            if reply is not None and reply.stream is not None:
                await self._break(respond, path, error)
            else:
                failed = error_reply(path, error)
                await self._send_json(respond, failed.status, failed.body, failed.headers)
        finally:
            if reply is not None and reply.stream is not None:
                await reply.stream.aclose()

    async def _answer(self, path: str, route: Route, asked: JsonDict, reply: ModelReply, respond: Respond) -> None:
        kept = {name: value for name in _KEPT if (value := reply.headers.get(name)) is not None}
        if reply.attempts > 1 and not reply.ok:
            # The retries are done on this side; a client that repeats them would only multiply them.
            kept["x-should-retry"] = "false"
        if reply.stream is not None:
            await self._stream(route, asked, reply, respond)
        elif not reply.ok:
            body = as_error(path, reply)
            await self._send_json(respond, reply.status, body, kept)
        elif asked.get("stream") is True and not route.streams:
            await self._send(respond, 200, route.replayed(asked, reply.body), b"text/event-stream", kept)
        elif reply.raw is not None:
            await self._send(respond, reply.status, reply.raw, b"application/octet-stream", kept)
        else:
            await self._send_json(respond, reply.status, route.reply(reply.body), kept)

    async def _stream(self, route: Route, asked: JsonDict, reply: ModelReply, respond: Respond) -> None:
        assert reply.stream is not None
        self._statuses["200"] += 1
        head = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
        await respond({"type": "http.response.start", "status": 200, "headers": head})
        async for data in route.stream(asked, reply.stream):
            await respond({"type": "http.response.body", "body": data, "more_body": True})
        await respond({"type": "http.response.body", "body": b"", "more_body": False})

    async def _break(self, respond: Respond, path: str, error: NelError) -> None:
        """Tell, inside a stream that has begun, that it ends badly."""
        failed = orjson.dumps(error_reply(path, error).body)
        name = b"event: error\n" if path in ("/messages", "/responses") else b""
        await respond({"type": "http.response.body", "body": name + b"data: " + failed + b"\n\n", "more_body": True})
        await respond({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_error(self, respond: Respond, path: str, status: int, text: str, kind: str) -> None:
        body = as_error(path, ModelReply(status, {"error": {"message": text, "type": kind, "code": None}}))
        await self._send_json(respond, status, body)

    async def _send_json(self, respond: Respond, status: int, body: Any, headers: Any = None) -> None:
        await self._send(respond, status, orjson.dumps(body), b"application/json", headers or {})

    async def _send(self, respond: Respond, status: int, body: bytes, kind: bytes, headers: Any) -> None:
        self._statuses[str(status)] += 1
        head = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        head += [(name.encode("latin-1"), str(value).encode("latin-1")) for name, value in headers.items()]
        await respond({"type": "http.response.start", "status": status, "headers": head})
        await respond({"type": "http.response.body", "body": body, "more_body": False})


def _split(path: str) -> tuple[str | None, str]:
    """The session of a path, if it has one, and the path without session and version."""
    session = None
    match = _SESSION.match(path)
    if match is not None:
        session, path = match.group(1), match.group(2) or "/"
    path = path.rstrip("/") or "/"
    return session, path[3:] if path.startswith("/v1/") else path


def _token(headers: RawHeaders) -> str:
    """The token an agent gives, in either of the places where clients put their key."""
    for name, value in headers:
        if name == b"authorization":
            return value.decode("latin-1").removeprefix("Bearer ").strip()
        if name == b"x-api-key":
            return value.decode("latin-1")
    return ""


def _kept(headers: RawHeaders) -> dict[str, str]:
    """What of the agent's headers goes on: nothing of its connection, its key or its client library."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in headers
        if name not in _DROPPED and not name.startswith((b"x-stainless", b"anthropic-"))
    }


async def _body(receive: Receive) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        part = message.get("body", b"")
        size += len(part)
        if size > _LARGEST:
            return None
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)
