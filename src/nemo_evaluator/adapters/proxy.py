"""The second door: the pipeline of a service behind HTTP, for agents that live outside. It listens on loopback (or on
one named address, for containers), asks for a token or for the key of a session (``/s/<id>/v1/...``), carries the
routes of the protocols and the models of the service and nothing else, passes streams on as they come, and leaves the
service when the agent leaves."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

import orjson

from nemo_evaluator.adapters._access import Access, passed_headers, pin_model, split_path, token_of
from nemo_evaluator.adapters._errors import FINAL, Refused, as_error, refused_by
from nemo_evaluator.adapters._json_bodies import VALUE_SIZE, TooManyValuesError, parsed
from nemo_evaluator.adapters._limits import SESSION_CONNECTIONS, TRUSTED, BodyBudget, Holder
from nemo_evaluator.adapters._stream_scrubber import StreamScrubber
from nemo_evaluator.adapters.base import OUTSIDE, Interceptor
from nemo_evaluator.adapters.convert import Route, route_of
from nemo_evaluator.adapters.http_server import (
    BODY_BOUND,
    DROP,
    LEAVE,
    NAME_HOLDER,
    HttpServer,
    Receive,
    Respond,
    Scope,
    read_body,
)
from nemo_evaluator.adapters.in_process import Door
from nemo_evaluator.core.errors import NelError, UsageError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.files import scrub_json
from nemo_evaluator.core.secrets import Secret, forget, scrub, scrub_bytes
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.types import CallScope, ModelReply, ModelRequest

_KEPT: Final = frozenset({"retry-after", "retry-after-ms", "x-request-id", "request-id"})


@dataclass(frozen=True, slots=True)
class _Asker:
    """Who sent a request that is under way."""

    session: str | None
    drop: Callable[[], None]


class Proxy(HttpServer):
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
        self.door = Door(endpoint, stages)
        self._own_token = token is None
        self.token = token or Secret(secrets.token_urlsafe(24))
        self._access = Access(self.token, scope, sessions_only=sessions_only)
        self._statuses: Counter[str] = Counter()
        # Requests under way: the session of each, and what closes its connection.
        self._working: dict[asyncio.Task[Any], _Asker] = {}
        self._bodies = BodyBudget()
        super().__init__(self._serve, host, port)

    @property
    def url(self) -> str:
        """The versioned base URL."""
        return f"{self.root}/v1"

    def session(self, scope: CallScope) -> str:
        """Open a session and return its base URL; calls with its key are made on behalf of ``scope``."""
        check_session(scope.session)
        self._access.opened[scope.session] = scope
        return f"{self.root}/s/{scope.session}/v1"

    def key_of(self, session: str) -> Secret:
        """The key of a session: it opens that session and no other, whatever path or header it is sent with."""
        return Secret(self._access.key_of(session))

    def forget(self, session: str) -> None:
        """Close a session: its key opens nothing any more, and what it has under way ends."""
        self._access.opened.pop(session, None)
        for task, asker in list(self._working.items()):
            if asker.session == session:
                asker.drop()
                self._leave(task)
        forget(self.key_of(session))

    def stats(self) -> JsonDict:
        """Counts of the proxy, the pipeline and the transport."""
        return {
            "service": self.door.endpoint.name,
            "sessions": len(self._access.opened),
            "in_flight": len(self._working),
            "statuses": dict(self._statuses),
            "transport": asdict(self.door.transport.stats),
            "stages": self.door.stats(),
        }

    async def stop(self) -> None:
        """Stop listening, leave every request under way, close the pipeline."""
        for task in list(self._working):
            self._leave(task)
        await super().stop()
        await self.door.close()
        for session in list(self._access.opened):
            self.forget(session)
        if self._own_token:
            forget(self.token)

    async def _serve(self, scope: Scope, receive: Receive, respond: Respond) -> None:
        """The ASGI application."""
        if scope["type"] != "http":
            return
        asks = scope["method"] == "GET"
        if scope["path"] == "/health" and asks:
            await self._send_json(respond, 200, {"status": "ok"})
            return
        session, path = split_path(scope["path"])
        try:
            caller, trusted = self._access.caller(token_of(scope["headers"]), session)
            holder = _holder(caller, trusted=trusted)
            _name(scope, holder)
            if asks:
                await self._send_json(respond, 200, self._get(path, trusted))
            elif scope["method"] != "POST":
                raise Refused(405, "method not allowed: POST a request")
            else:
                self._access.check(caller, path)
                with self._held(holder) as hold:
                    body = await _read(receive, hold)
                    await self._post(path, caller, scope, body=body, respond=respond)
        except Refused as refused:
            await self._send_json(
                respond, refused.status, refused.body(path), headers=refused.headers
            )

    def _get(self, path: str, trusted: bool) -> JsonDict:
        own = self.door.endpoint
        names = (own.model, *own.allowed_models)
        models = {
            name: {"id": name, "object": "model", "created": 0, "owned_by": "nel"} for name in names
        }
        if path == "/stats" and trusted:
            return self.stats()
        if path == "/models":
            return {"object": "list", "data": list(models.values())}
        name = path.removeprefix("/models/")
        if name in models:
            return models[name]
        text = "only /health, /v1/models and, with the proxy's token, /stats answer GET"
        raise Refused(404, text, code="unknown_url")

    @contextmanager
    def _held(self, holder: Holder) -> Iterator[Callable[[int], None]]:
        """What a request holds of the memory for bodies, until it is answered."""
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
        pin_model(body, self.door.endpoint.model, self.door.endpoint.allowed_models)
        headers = passed_headers(scope["headers"])
        task = asyncio.current_task()
        assert task is not None
        if not self._access.is_open(caller):
            raise Refused(403, "this session was closed meanwhile", "permission_error")
        session = caller.session if caller is not None else None
        self._working[task] = _Asker(session, scope.get(DROP, _nothing))
        scope[LEAVE] = partial(self._leave, task)
        try:
            await self._carry(path, caller, headers, body=body, respond=respond)
        except asyncio.CancelledError:
            # The agent has left, or the proxy stops: nobody waits for an answer.
            if task in self._working:
                raise
        finally:
            self._working.pop(task, None)

    def _leave(self, task: asyncio.Task[Any]) -> None:
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
        route = route_of(path, self.door.endpoint.protocol)
        reply: ModelReply | None = None
        try:
            with boundary(Cause.TRANSPORT):
                request = ModelRequest(route.path, route.request(body), headers, scope=caller)
                request.notes[OUTSIDE] = True
                request.whole = not (body.get("stream") is True and route.streams)
                reply = await self.door(request)
                # A stage may have asked for the whole, or the service may have answered without streaming.
                await self._answer(path, route, body, reply=reply, respond=respond)
        except NelError as error:
            if reply is None or reply.stream is None:
                raise refused_by(error) from error
            # Inside a stream that has begun, it is told that it ends badly.
            name = b"event: error\n" if path in ("/messages", "/responses") else b""
            failed = name + b"data: " + orjson.dumps(refused_by(error).body(path)) + b"\n\n"
            await respond({"type": "http.response.body", "body": failed, "more_body": False})
        finally:
            if reply is not None and reply.stream is not None:
                await reply.stream.aclose()

    async def _answer(
        self, path: str, route: Route, asked: JsonDict, reply: ModelReply, respond: Respond
    ) -> None:
        kept = {name: value for name in _KEPT if (value := reply.headers.get(name)) is not None}
        if reply.attempts > 1 and not reply.ok:
            kept |= FINAL
        if reply.stream is not None:
            await self._stream(route, reply, respond)
        elif not reply.ok:
            await self._send_json(respond, reply.status, as_error(path, reply), headers=kept)
        elif asked.get("stream") is True and not route.streams:
            await self._send(
                respond, 200, route.replayed(reply.body), kind=b"text/event-stream", headers=kept
            )
        elif reply.raw is not None:
            await self._send(
                respond, reply.status, reply.raw, kind=b"application/octet-stream", headers=kept
            )
        else:
            await self._send_json(respond, reply.status, route.reply(reply.body), headers=kept)

    async def _stream(self, route: Route, reply: ModelReply, respond: Respond) -> None:
        assert reply.stream is not None
        self._statuses["200"] += 1
        head = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
        await respond({"type": "http.response.start", "status": 200, "headers": head})
        scrubber = StreamScrubber()
        async for data in route.stream(reply.stream):
            clean = scrubber.feed(data)
            if clean:
                await respond({"type": "http.response.body", "body": clean, "more_body": True})
        await respond({"type": "http.response.body", "body": scrubber.finish(), "more_body": False})

    async def _send_json(
        self, respond: Respond, status: int, body: Any, headers: Any = None
    ) -> None:
        await self._send(
            respond, status, orjson.dumps(body), kind=b"application/json", headers=headers or {}
        )

    async def _send(
        self, respond: Respond, status: int, body: bytes, kind: bytes, headers: Any
    ) -> None:
        self._statuses[str(status)] += 1
        if kind == b"text/event-stream":
            scrubber = StreamScrubber()
            body = scrubber.feed(body) + scrubber.finish()
        else:
            if kind == b"application/json":
                body = scrub_json(body)
            else:
                body = scrub_bytes(body)
        head = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        for name, value in headers.items():
            head.append((name.encode("latin-1"), scrub(str(value)).encode("latin-1", "replace")))
        await respond({"type": "http.response.start", "status": status, "headers": head})
        await respond({"type": "http.response.body", "body": body, "more_body": False})


def _nothing() -> None:
    """For a server that cannot close a connection."""


def _holder(caller: CallScope | None, *, trusted: bool) -> Holder:
    """Whose connections and bodies those of a caller are."""
    if trusted or caller is None:
        return TRUSTED
    return ("session", caller.session)


def _name(scope: Scope, holder: Holder) -> None:
    """Tell the server whose a connection is. Raises Refused when that session has too many."""
    name_holder = scope.get(NAME_HOLDER)
    most = SESSION_CONNECTIONS if holder[0] == "session" else None
    if name_holder is not None and not name_holder(holder, most):
        text = f"this session has {SESSION_CONNECTIONS} connections open; close some"
        refused = Refused(429, text, "rate_limit_error")
        refused.headers = {"connection": "close"}
        raise refused


async def _read(receive: Receive, hold: Callable[[int], None]) -> JsonDict:
    """The JSON object that is posted. Raises Refused."""
    try:
        async with asyncio.timeout(BODY_BOUND):
            raw = await read_body(receive, hold)
    except TimeoutError:
        late = Refused(408, f"the body did not arrive within {BODY_BOUND:g} s")
        late.headers = {"connection": "close"}
        raise late from None
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
    """Refuse a name that could not stand in a URL."""
    if split_path(f"/s/{name}/v1/models") != (name, "/models"):
        raise UsageError(
            f"{name!r} is not a session name", hint="up to 128 letters, digits, - and _"
        )
