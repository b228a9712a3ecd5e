"""The pipeline of a service behind HTTP, for agents outside of this process.

The proxy listens on loopback (or on one named address, for containers) and wants a token or the key of a session
(``/s/<id>/v1/...``). It forwards the routes of the protocols and the models of the service and nothing else, passes
streams on as they come, and cancels a request when the agent disconnects.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import orjson

from nemo_evaluator.adapters._access import (
    Access,
    Caller,
    passed_headers,
    pin_model,
    split_path,
    token_of,
)
from nemo_evaluator.adapters._errors import FINAL, Refused, as_error, refused_by
from nemo_evaluator.adapters._json_bodies import VALUE_SIZE, TooManyValuesError, parsed
from nemo_evaluator.adapters._limits import SESSION_CONNECTIONS, TRUSTED, BodyBudget, Holder
from nemo_evaluator.adapters._stream_scrubber import StreamScrubber
from nemo_evaluator.adapters.asgi import (
    BODY_BOUND,
    DROP,
    LEAVE,
    LEFT,
    NAME_HOLDER,
    Receive,
    Respond,
    Scope,
    read_body,
)
from nemo_evaluator.adapters.base import OUTSIDE, Interceptor
from nemo_evaluator.adapters.convert import Route, route_of
from nemo_evaluator.adapters.http_server import HttpServer
from nemo_evaluator.adapters.in_process import ServicePipeline
from nemo_evaluator.core.errors import NelError, UsageError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.files import scrub_json
from nemo_evaluator.core.secrets import Secret, forget, scrub, scrub_bytes
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.types import CallScope, ModelReply, ModelRequest

if TYPE_CHECKING:
    from nemo_evaluator.adapters.stage_stats import ProxyStats

_JSON: Final = b"application/json"
_EVENT_STREAM: Final = b"text/event-stream"
# Headers of the service's answer that an agent gets.
_FORWARDED: Final = frozenset({"retry-after", "retry-after-ms", "x-request-id", "request-id"})


@dataclass(frozen=True, slots=True)
class _OpenRequest:
    """A request that is not answered yet: its session, and what closes its connection."""

    session: str | None
    drop: Callable[[], None]


class Proxy(HttpServer):
    """One service behind HTTP, on the running loop.

    ::

        async with Proxy(endpoint) as proxy:
            url = proxy.session(CallScope("a1b2"))      # give the agent this URL
            key = proxy.key_of("a1b2")                  # and this key, which is valid for that session alone

    Attributes:
        pipeline: The pipeline of the service.
        token: The token that permits everything.
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
        """Build the pipeline; ``start`` listens.

        Args:
            endpoint: The endpoint of the service.
            host: The IP address to listen on.
            port: The port; 0 takes a free one.
            token: The token of the proxy; None for a new one.
            scope: On whose behalf calls with the token, outside of any session, are made.
            sessions_only: Refuse calls outside of sessions.
            stages: Stages of the pipeline besides those of the service.
        """
        self.pipeline = ServicePipeline(endpoint, stages)
        self._own_token = token is None
        self.token = token or Secret(secrets.token_urlsafe(24))
        self._access = Access(self.token, scope, sessions_only=sessions_only)
        self._statuses: Counter[str] = Counter()
        self._working: dict[asyncio.Task[Any], _OpenRequest] = {}
        self._bodies = BodyBudget()
        super().__init__(self._serve, host, port)

    @property
    def url(self) -> str:
        """The versioned base URL."""
        return f"{self.root}/v1"

    def session(self, scope: CallScope) -> str:
        """Open a session and return its base URL; calls with its key are made on behalf of ``scope``."""
        check_session(scope.session)
        self._access.open(scope)
        return f"{self.root}/s/{scope.session}/v1"

    def key_of(self, session: str) -> Secret:
        """Return the key of a session, which opens that session and no other, with any path or header."""
        return Secret(self._access.key_of(session))

    def forget(self, session: str) -> None:
        """Close a session: its key becomes invalid, and its open requests are cancelled."""
        key = self.key_of(session)
        self._access.close(session)
        for task, open_request in list(self._working.items()):
            if open_request.session == session:
                open_request.drop()
                self._leave(task)
        forget(key)

    def stats(self) -> ProxyStats:
        """Counts of the proxy, the pipeline and the transport."""
        return {
            "service": self.pipeline.endpoint.name,
            "sessions": len(self._access.opened),
            "in_flight": len(self._working),
            "statuses": dict(self._statuses),
            "transport": self.pipeline.transport.stats.to_dict(),
            "stages": self.pipeline.stats(),
        }

    async def stop(self) -> None:
        """Stop listening, cancel every open request, close the pipeline."""
        for task in list(self._working):
            self._leave(task)
        await super().stop()
        await self.pipeline.close()
        for session in list(self._access.opened):
            self.forget(session)
        if self._own_token:
            forget(self.token)

    async def _serve(self, scope: Scope, receive: Receive, respond: Respond) -> None:
        """The ASGI application."""
        if scope["type"] != "http":
            return
        method = scope["method"]
        if scope["path"] == "/health" and method == "GET":
            await self._send_json(respond, 200, {"status": "ok"})
            return
        session, path = split_path(scope["path"])
        try:
            caller = self._access.caller(token_of(scope["headers"]), session)
            holder = _holder(caller)
            _name(scope, holder)
            if method == "GET":
                await self._send_json(respond, 200, self._get(path, caller.trusted))
            elif method == "POST":
                self._access.check(caller.scope, path)
                with self._held(holder) as hold:
                    body = await _read(receive, hold)
                    await self._post(path, caller.scope, scope, body=body, respond=respond)
            else:
                raise Refused(405, "method not allowed: POST a request")
        except Refused as refused:
            body = refused.body(path)
            await self._send_json(respond, refused.status, body, headers=refused.headers)

    def _get(self, path: str, trusted: bool) -> Mapping[str, Any]:
        """Answer a GET request."""
        if path == "/stats" and trusted:
            return self.stats()
        endpoint = self.pipeline.endpoint
        models: dict[str, JsonDict] = {}
        for name in (endpoint.model, *endpoint.allowed_models):
            models[name] = {"id": name, "object": "model", "created": 0, "owned_by": "nel"}
        if path == "/models":
            return {"object": "list", "data": list(models.values())}
        name = path.removeprefix("/models/")
        if name in models:
            return models[name]
        text = "only /health, /v1/models and, with the proxy's token, /stats answer GET"
        raise Refused(404, text, code="unknown_url")

    @contextmanager
    def _held(self, holder: Holder) -> Iterator[Callable[[int], None]]:
        """Account for the memory of a request's bodies, and release it once the request is answered.

        Yields:
            A function that accounts for more bytes. It raises Refused when all requests together hold too many.
        """
        sizes: list[int] = []

        def hold(size: int) -> None:
            if not self._bodies.take(holder, size):
                text = "too many large requests are under way at once; wait until some are answered"
                refused = Refused(429, text, "rate_limit_error")
                refused.headers = {"retry-after": "1"}
                raise refused
            sizes.append(size)

        try:
            yield hold
        finally:
            self._bodies.give_back(holder, sum(sizes))

    async def _post(
        self, path: str, caller: CallScope | None, scope: Scope, body: JsonDict, respond: Respond
    ) -> None:
        """Answer a POST request, and let the server cancel it when the agent disconnects."""
        pin_model(body, self.pipeline.endpoint.model, self.pipeline.endpoint.allowed_models)
        headers = passed_headers(scope["headers"])
        task = asyncio.current_task()
        assert task is not None
        if not self._access.is_open(caller):
            raise Refused(403, "this session was closed meanwhile", "permission_error")
        if scope.get(LEFT):
            # Nobody waits for an answer.
            return
        session = caller.session if caller is not None else None
        self._working[task] = _OpenRequest(session, scope.get(DROP, _nothing))
        scope[LEAVE] = partial(self._leave, task)
        try:
            await self._carry(path, caller, headers, body=body, respond=respond)
        except asyncio.CancelledError:
            # Cancelled by `_leave`: the agent has disconnected, or the proxy stops.
            if task in self._working:
                raise
        finally:
            self._working.pop(task, None)

    def _leave(self, task: asyncio.Task[Any]) -> None:
        """Cancel a request whose answer nobody reads any more."""
        self._working.pop(task, None)
        task.cancel()

    async def _carry(
        self,
        path: str,
        caller: CallScope | None,
        headers: dict[str, str],
        body: JsonDict,
        respond: Respond,
    ) -> None:
        """Send a request through the pipeline, and its reply to the agent.

        Raises:
            Refused: There is no reply.
        """
        route = route_of(path, self.pipeline.endpoint.protocol)
        reply: ModelReply | None = None
        try:
            with boundary(Cause.TRANSPORT):
                request = ModelRequest(route.path, route.request(body), headers, scope=caller)
                request.notes[OUTSIDE] = True
                request.whole = not (body.get("stream") is True and route.streams)
                reply = await self.pipeline(request)
                await self._answer(path, route, body, reply=reply, respond=respond)
        except NelError as error:
            if reply is None or reply.stream is None:
                raise refused_by(error) from error
            # The stream has begun, so the error becomes its last event.
            name = b"event: error\n" if path in ("/messages", "/responses") else b""
            body_of_error = orjson.dumps(refused_by(error).body(path))
            failed = name + b"data: " + body_of_error + b"\n\n"
            await respond({"type": "http.response.body", "body": failed, "more_body": False})
        finally:
            if reply is not None and reply.stream is not None:
                await reply.stream.aclose()

    async def _answer(
        self, path: str, route: Route, asked: JsonDict, reply: ModelReply, respond: Respond
    ) -> None:
        """Send a reply of the pipeline in the agent's protocol.

        A reply to a request for a stream may be whole: a stage may want that, and not every service streams.
        """
        headers: dict[str, str] = {}
        for name in _FORWARDED:
            value = reply.headers.get(name)
            if value is not None:
                headers[name] = value
        if reply.attempts > 1 and not reply.ok:
            headers |= FINAL
        if reply.stream is not None:
            await self._stream(route, reply, respond)
        elif not reply.ok:
            await self._send_json(respond, reply.status, as_error(path, reply), headers=headers)
        elif asked.get("stream") is True and not route.streams:
            events = route.replayed(reply.body)
            await self._send(respond, 200, events, kind=_EVENT_STREAM, headers=headers)
        elif reply.raw is not None:
            kind = b"application/octet-stream"
            await self._send(respond, reply.status, reply.raw, kind=kind, headers=headers)
        else:
            await self._send_json(respond, reply.status, route.reply(reply.body), headers=headers)

    async def _stream(self, route: Route, reply: ModelReply, respond: Respond) -> None:
        """Send a stream to the agent, without the secrets that a server may have echoed."""
        assert reply.stream is not None
        self._statuses["200"] += 1
        head = [(b"content-type", _EVENT_STREAM), (b"cache-control", b"no-cache")]
        await respond({"type": "http.response.start", "status": 200, "headers": head})
        scrubber = StreamScrubber()
        async for data in route.stream(reply.stream):
            scrubbed_data = scrubber.feed(data)
            if scrubbed_data:
                await respond(
                    {"type": "http.response.body", "body": scrubbed_data, "more_body": True}
                )
        await respond({"type": "http.response.body", "body": scrubber.finish(), "more_body": False})

    async def _send_json(
        self,
        respond: Respond,
        status: int,
        body: Mapping[str, Any],
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        await self._send(respond, status, orjson.dumps(body), kind=_JSON, headers=headers)

    async def _send(
        self, respond: Respond, status: int, body: bytes, kind: bytes, headers: Mapping[str, str]
    ) -> None:
        """Send a whole answer, without the secrets that a server may have echoed."""
        self._statuses[str(status)] += 1
        if kind == _EVENT_STREAM:
            scrubber = StreamScrubber()
            body = scrubber.feed(body) + scrubber.finish()
        elif kind == _JSON:
            body = scrub_json(body)
        else:
            body = scrub_bytes(body)
        head = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        for name, value in headers.items():
            scrubbed_value = scrub(str(value))
            head.append((name.encode("latin-1"), scrubbed_value.encode("latin-1", "replace")))
        await respond({"type": "http.response.start", "status": status, "headers": head})
        await respond({"type": "http.response.body", "body": body, "more_body": False})


def _nothing() -> None:
    """For a server that cannot close a connection."""


def _holder(caller: Caller) -> Holder:
    """The holder of a caller's connections and bodies."""
    if caller.trusted or caller.scope is None:
        return TRUSTED
    return ("session", caller.scope.session)


def _name(scope: Scope, holder: Holder) -> None:
    """Set the holder of a connection in the server.

    Raises:
        Refused: The session has too many connections.
    """
    name_holder = scope.get(NAME_HOLDER)
    if name_holder is None:
        return
    most = SESSION_CONNECTIONS if holder[0] == "session" else None
    if not name_holder(holder, most):
        text = f"this session has {SESSION_CONNECTIONS} connections open; close some"
        refused = Refused(429, text, "rate_limit_error")
        refused.headers = {"connection": "close"}
        raise refused


async def _read(receive: Receive, hold: Callable[[int], None]) -> JsonDict:
    """The JSON object of a request.

    Raises:
        Refused: The body is late, too large, too complex, or not a JSON object.
    """
    try:
        async with asyncio.timeout(BODY_BOUND):
            raw = await read_body(receive, hold)
    except TimeoutError:
        too_late = Refused(408, f"the body did not arrive within {BODY_BOUND:g} s")
        too_late.headers = {"connection": "close"}
        raise too_late from None
    if raw is None:
        raise Refused(413, "the body is larger than 64 MB")
    try:
        body, values = await parsed(raw)
    except TooManyValuesError as error:
        raise Refused(413, str(error)) from error
    hold(values * VALUE_SIZE)
    if body is None:
        raise Refused(400, "the body is not a JSON object")
    return body


def check_session(name: str) -> None:
    """Check that a name can be part of a URL.

    Raises:
        UsageError: It cannot.
    """
    if split_path(f"/s/{name}/v1/models") != (name, "/models"):
        raise UsageError(
            f"{name!r} is not a session name", hint="up to 128 letters, digits, - and _"
        )
