"""The proxy as an ASGI application: token, sessions, requests in, replies and streams out."""

import asyncio
from collections import Counter
from dataclasses import asdict
from typing import Any, Final

import orjson

from nemo_evaluator.adapters._access import Access, Caller, passed_headers, pin_model, split_path, token_of
from nemo_evaluator.adapters._errors import FINAL, Refused, as_error, refused_by
from nemo_evaluator.adapters._stream_scrubber import StreamScrubber
from nemo_evaluator.adapters.base import OUTSIDE
from nemo_evaluator.adapters.convert import Route, route_of
from nemo_evaluator.adapters.http_server import BODY_BOUND, Receive, Respond, Scope, read_body
from nemo_evaluator.adapters.in_process import Door
from nemo_evaluator.core.errors import NelError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.files import scrub_json
from nemo_evaluator.core.secrets import scrub, scrub_bytes
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelReply, ModelRequest

_KEPT: Final = frozenset({"retry-after", "retry-after-ms", "x-request-id", "request-id"})
_WATCH_AFTER: Final = 0.05


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
        self.left = True
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
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

    def __init__(self, door: Door, access: Access) -> None:
        self._door, self._access = door, access
        self._statuses: Counter[str] = Counter()
        self._working: set[Work] = set()

    def stats(self) -> JsonDict:
        """Counts of the proxy, the pipeline and the transport."""
        return {
            "service": self._door.endpoint.name,
            "sessions": len(self._access.opened),
            "in_flight": len(self._working),
            "statuses": dict(self._statuses),
            "transport": asdict(self._door.transport.stats),
            "stages": self._door.pipeline.stats(),
        }

    async def leave_all(self) -> None:
        for work in list(self._working):
            work.leave()
        for _ in range(500):
            if not self._working:
                return
            await asyncio.sleep(0.01)

    async def __call__(self, scope: Scope, receive: Receive, respond: Respond) -> None:
        if scope["type"] != "http":
            return
        asks = scope["method"] == "GET"
        if scope["path"] == "/health" and asks:
            await self._send_json(respond, 200, {"status": "ok"})
            return
        session, path = split_path(scope["path"])
        headers = scope["headers"]
        try:
            caller = self._access.caller(token_of(headers), session)
            if asks:
                await self._send_json(respond, 200, self._get(path, caller))
            elif scope["method"] != "POST":
                raise Refused(405, "method not allowed: POST a request")
            else:
                self._access.check(caller, path)
                await self._post(path, caller, passed_headers(headers), receive, respond)
        except Refused as refused:
            await self._send_json(respond, refused.status, refused.body(path), refused.headers)

    def _get(self, path: str, caller: Caller) -> JsonDict:
        own = self._door.endpoint
        names = (own.model, *own.allowed_models)
        models = {name: {"id": name, "object": "model", "created": 0, "owned_by": "nel"} for name in names}
        if path == "/stats" and caller.holds_token:
            return self.stats()
        if path == "/models":
            return {"object": "list", "data": list(models.values())}
        if (name := path.removeprefix("/models/")) in models:
            return models[name]
        text = "only /health, /v1/models and, with the proxy's token, /stats answer GET"
        raise Refused(404, text, code="unknown_url")

    async def _post(
        self, path: str, caller: Caller, headers: dict[str, str], receive: Receive, respond: Respond
    ) -> None:
        body = await _read(receive)
        pin_model(body, self._door.endpoint.model, self._door.endpoint.allowed_models)
        work = Work(receive)
        self._working.add(work)
        try:
            await self._carry(path, caller, headers, body, respond)
        except asyncio.CancelledError:
            # The agent has left, or the proxy stops: nobody waits for an answer.
            if not work.left:
                raise
        finally:
            work.end()
            self._working.discard(work)

    async def _carry(
        self, path: str, caller: Caller, headers: dict[str, str], body: JsonDict, respond: Respond
    ) -> None:
        route = route_of(path, self._door.endpoint.protocol)
        reply: ModelReply | None = None
        try:
            with boundary(Cause.TRANSPORT):
                request = ModelRequest(route.path, route.request(body), headers, caller.scope)
                request.notes[OUTSIDE] = True
                request.whole = not (body.get("stream") is True and route.streams)
                reply = await self._door.pipeline(request)
                # A stage may have asked for the whole, or the service may have answered without streaming.
                await self._answer(path, route, body, reply, respond)
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

    async def _answer(self, path: str, route: Route, asked: JsonDict, reply: ModelReply, respond: Respond) -> None:
        kept = {name: value for name in _KEPT if (value := reply.headers.get(name)) is not None}
        if reply.attempts > 1 and not reply.ok:
            kept |= FINAL
        if reply.stream is not None:
            await self._stream(route, reply, respond)
        elif not reply.ok:
            await self._send_json(respond, reply.status, as_error(path, reply), kept)
        elif asked.get("stream") is True and not route.streams:
            await self._send(respond, 200, route.replayed(reply.body), b"text/event-stream", kept)
        elif reply.raw is not None:
            await self._send(respond, reply.status, reply.raw, b"application/octet-stream", kept)
        else:
            await self._send_json(respond, reply.status, route.reply(reply.body), kept)

    async def _stream(self, route: Route, reply: ModelReply, respond: Respond) -> None:
        assert reply.stream is not None
        self._statuses["200"] += 1
        head = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
        await respond({"type": "http.response.start", "status": 200, "headers": head})
        scrubber = StreamScrubber()
        async for data in route.stream(reply.stream):
            if clean := scrubber.feed(data):
                await respond({"type": "http.response.body", "body": clean, "more_body": True})
        await respond({"type": "http.response.body", "body": scrubber.finish(), "more_body": False})

    async def _send_json(self, respond: Respond, status: int, body: Any, headers: Any = None) -> None:
        await self._send(respond, status, orjson.dumps(body), b"application/json", headers or {})

    async def _send(self, respond: Respond, status: int, body: bytes, kind: bytes, headers: Any) -> None:
        self._statuses[str(status)] += 1
        if kind == b"text/event-stream":
            scrubber = StreamScrubber()
            body = scrubber.feed(body) + scrubber.finish()
        else:
            body = scrub_json(body) if kind == b"application/json" else scrub_bytes(body)
        head = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        head += [
            (name.encode("latin-1"), scrub(str(value)).encode("latin-1", "replace")) for name, value in headers.items()
        ]
        await respond({"type": "http.response.start", "status": status, "headers": head})
        await respond({"type": "http.response.body", "body": body, "more_body": False})


async def _read(receive: Receive) -> JsonDict:
    """The JSON object that is posted. Raises Refused."""
    try:
        async with asyncio.timeout(BODY_BOUND):
            raw = await read_body(receive)
    except TimeoutError:
        late = Refused(408, f"the body did not arrive within {BODY_BOUND:g} s")
        late.headers = {"connection": "close"}
        raise late from None
    if raw is None:
        raise Refused(413, "the body is larger than 64 MB")
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise Refused(400, "the body is not a JSON object")
    return body
