"""The last stage: HTTP to the endpoint, every wait bounded, retries by the policy table, the limiter shared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from time import monotonic
from typing import Any, Final

import aiohttp
import orjson
from yarl import URL

from nemo_evaluator.core.errors import BoundaryError, RateLimitError, RequestRejectedError, TransportError
from nemo_evaluator.core.slots import lent_slot
from nemo_evaluator.models._lanes import Lane, leave_lane, take_lane
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.faults import error_of, retry_after
from nemo_evaluator.models.guard import guard_completions
from nemo_evaluator.models.spending import spend
from nemo_evaluator.models.sse import gather_stream
from nemo_evaluator.models.stream import Stream
from nemo_evaluator.models.types import ModelReply, ModelRequest

_LARGEST: Final = 64 * 2**20
_HOP: Final = frozenset({"host", "content-length", "connection", "transfer-encoding", "authorization", "x-api-key"})
_LIST_OF: Final = {"/chat/completions": "choices", "/completions": "choices", "/responses": "output"}


class TransportStats:
    """What one endpoint's traffic came to."""

    __slots__ = ("failures", "rate_limited", "replies", "requests", "retries")

    def __init__(self) -> None:
        self.requests = 0
        self.replies = 0
        self.retries = 0
        self.rate_limited = 0
        self.failures = 0

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return {name: getattr(self, name) for name in self.__slots__}


class Transport:
    """Sends requests to one endpoint. A callable of the shape ``Send``; close it when done.

    A reply of any status comes back as a reply, once retries are used up. What never became a reply raises
    TransportError.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.stats = TransportStats()
        self._lane: Lane | None = None
        self._urls: dict[str, URL] = {}
        waits = endpoint.timeouts
        self._timeout = aiohttp.ClientTimeout(
            total=waits.total, connect=waits.connect, sock_read=min(waits.first_byte, waits.total)
        )
        headers = {
            "Accept": "application/json, text/event-stream",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "nemo-evaluator",
        }
        if endpoint.api_key:
            headers["Authorization"] = f"Bearer {endpoint.api_key.reveal()}"
        self._own = {name.lower() for name in endpoint.extra_headers}
        headers = {name: value for name, value in headers.items() if name.lower() not in self._own}
        headers.update({n: v for n, v in endpoint.extra_headers.items() if n.lower() not in _HOP - {"authorization"}})
        self._headers = headers

    @property
    def lane(self) -> Lane:
        """The pool and limiter of the endpoint, taken on first use."""
        if self._lane is None:
            self._lane = take_lane(self.endpoint)
        return self._lane

    async def close(self) -> None:
        """Give the pool back."""
        lane, self._lane = self._lane, None
        if lane is not None:
            await leave_lane(lane)

    async def __call__(self, request: ModelRequest) -> ModelReply:
        """Send a request, again if need be, within the budgets of whoever asks."""
        if request.scope is not None and request.scope.budgets:
            return await spend(request, self._send, self.endpoint)
        return await self._send(request)

    async def _send(self, request: ModelRequest) -> ModelReply:
        endpoint = self.endpoint
        body = request.body
        if endpoint.extra_body:
            body = {**body, **endpoint.extra_body}
        if request.path == "/completions":
            body = guard_completions(body)
        elif body.get("stream") is True and request.path == "/chat/completions" and "stream_options" not in body:
            body = {**body, "stream_options": {"include_usage": True}}
        try:
            data = orjson.dumps(body)
        except TypeError as error:
            raise RequestRejectedError(f"{endpoint.name}: the request is not JSON: {error}") from error
        attempt = 0
        while True:
            attempt += 1
            try:
                reply = await self._once(request, body, data)
            except TransportError as error:
                failed: BoundaryError = error
                failed.attempts = attempt
            else:
                reply.attempts = attempt
                if reply.status < 400:
                    self.stats.replies += 1
                    return reply
                failed = error_of(reply, endpoint)
                if not endpoint.retry.wants(failed, attempt):
                    self.stats.failures += 1
                    return reply
            if not endpoint.retry.wants(failed, attempt):
                self.stats.failures += 1
                raise failed
            await self._back_off(failed, attempt)

    async def _back_off(self, failed: BoundaryError, attempt: int) -> None:
        asked = failed.retry_after if isinstance(failed, RateLimitError) else None
        longest = self.endpoint.timeouts.total
        if asked is not None and asked > longest:
            failed.hint = f"the server asks to wait {asked:.0f} s, longer than timeouts.total ({longest:.0f} s)"
            self.stats.failures += 1
            raise failed
        self.stats.retries += 1
        async with lent_slot():
            await asyncio.sleep(self.endpoint.retry.delay(failed, attempt))

    async def _once(self, request: ModelRequest, body: dict[str, Any], data: bytes) -> ModelReply:
        limiter = (self._lane or self.lane).limiter
        if not limiter.enter(monotonic()):
            await limiter.wait()
        self.stats.requests += 1
        sent_at = monotonic()
        try:
            reply = await self._exchange(request, data, sent_at)
        except TransportError:
            limiter.leave_failed(sent_at, monotonic())
            raise
        except BaseException:
            limiter.leave_cancelled()
            raise
        now = monotonic()
        reply.sent = body
        reply.latency_ms = (now - sent_at) * 1000.0
        if reply.status == 429:
            self.stats.rate_limited += 1
            limiter.leave_limited(sent_at, now, retry_after(reply.headers))
        elif reply.status >= 500:
            limiter.leave_failed(sent_at, now)
        elif reply.stream is not None:
            reply.stream = Stream(reply.stream, partial(self._leave, sent_at), closes=reply.stream)
        else:
            limiter.leave(sent_at, now)
        return reply

    async def _exchange(self, request: ModelRequest, data: bytes, sent_at: float) -> ModelReply:
        """One HTTP exchange: a reply, or TransportError."""
        answered = False
        try:
            response = await self.lane.session.post(
                self._url(request.path),
                data=data,
                headers=self._headers_for(request),
                timeout=self._timeout,
                allow_redirects=False,
            )
            answered = True
            first_byte_ms = (monotonic() - sent_at) * 1000.0
            content = response.content
            if not content.is_eof():
                self._watch_idle(response)
            if response.status < 400 and response.content_type == "text/event-stream":
                reply = ModelReply(response.status, headers=response.headers, first_byte_ms=first_byte_ms)
                reply.stream = Stream(self._events(response), partial(_let_go, response))
                return await self._gather(request.path, reply, sent_at) if request.whole else reply
            raw = await _read(response, self.endpoint.name)
        except TimeoutError as error:
            raise self._timed_out(error, answered) from error
        except (aiohttp.ClientError, OSError) as error:
            where = "the connection broke" if answered else "no connection"
            detail = str(error) or type(error).__name__
            if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
                where = "the server closed the connection"
            raise TransportError(f"{self.endpoint.name}: {where}: {detail} ({self.endpoint.url})") from error
        return self._reply(request.path, response, raw, first_byte_ms)

    def _reply(self, path: str, response: aiohttp.ClientResponse, raw: bytes, first_byte_ms: float) -> ModelReply:
        status = response.status
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            if status >= 400:
                return ModelReply(status, headers=response.headers, raw=raw, first_byte_ms=first_byte_ms)
            kind = response.content_type
            shown = raw[:80].decode("utf-8", "replace")
            text = f"{self.endpoint.name}: HTTP {status} without JSON ({kind}, {len(raw)} bytes): {shown!r}"
            raise TransportError(text, status=None) from error
        if not isinstance(body, dict):
            if status >= 400:
                return ModelReply(status, headers=response.headers, raw=raw, first_byte_ms=first_byte_ms)
            raise TransportError(f"{self.endpoint.name}: HTTP {status} with JSON that is not an object")
        if status < 400:
            flaw = _flaw(path, body)
            if flaw is not None:
                raise TransportError(f"{self.endpoint.name}: HTTP {status} {flaw}")
        return ModelReply(status, body, response.headers, first_byte_ms=first_byte_ms)

    def _watch_idle(self, response: aiohttp.ClientResponse) -> None:
        connection = response.connection
        protocol = connection.protocol if connection is not None else None
        if protocol is not None:
            protocol.read_timeout = self.endpoint.timeouts.idle
            protocol.start_timeout()

    def _idle_words(self) -> str:
        return f"{self.endpoint.name}: nothing came for {self.endpoint.timeouts.idle:g} s (timeouts.idle)"

    def _timed_out(self, error: TimeoutError, answered: bool) -> TransportError:
        waits, name = self.endpoint.timeouts, self.endpoint.name
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            text = f"{name}: no connection within {waits.connect:g} s (timeouts.connect)"
        elif isinstance(error, aiohttp.SocketTimeoutError):
            text = (
                self._idle_words()
                if answered
                else (f"{name}: no answer within {waits.first_byte:g} s (timeouts.first_byte)")
            )
        else:
            text = f"{name}: not done within {waits.total:g} s (timeouts.total)"
        return TransportError(text)

    def _url(self, path: str) -> URL:
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = URL(self.endpoint.url + path, encoded=True)
        return url

    def _headers_for(self, request: ModelRequest) -> dict[str, str]:
        if not request.headers:
            return self._headers
        mine = {name.lower() for name in self._headers}
        given = {n: v for n, v in request.headers.items() if n.lower() not in _HOP and n.lower() not in mine}
        return {**given, **self._headers}

    async def _gather(self, path: str, reply: ModelReply, sent_at: float) -> ModelReply:
        """A streamed reply as a whole one; a stream that broke off or carried an error raises TransportError."""
        assert reply.stream is not None
        name = self.endpoint.name
        try:
            gathered = await gather_stream(path, reply.stream)
        except asyncio.CancelledError:
            await reply.stream.aclose()
            raise
        except orjson.JSONDecodeError as error:
            raise TransportError(f"{name}: an event of the stream is not JSON: {error}") from error
        if gathered.error is not None:
            return _stream_error(reply, gathered.error)
        if not gathered.complete:
            raise TransportError(f"{name}: the stream ended before the answer did")
        reply.stream, reply.body = None, gathered.body
        if gathered.first_token_at is not None:
            reply.first_token_ms = (gathered.first_token_at - sent_at) * 1000.0
        return reply

    async def _events(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except TimeoutError as error:
            raise self._timed_out(error, True) from error
        except (aiohttp.ClientError, OSError) as error:
            detail = str(error) or type(error).__name__
            raise TransportError(f"{self.endpoint.name}: the stream broke: {detail}") from error

    def _leave(self, sent_at: float, error: BaseException | None) -> None:
        """Give the place in the limiter back when a stream has ended."""
        limiter = self.lane.limiter
        if error is None:
            limiter.leave(sent_at, monotonic())
        elif isinstance(error, TransportError):
            limiter.leave_failed(sent_at, monotonic())
        else:
            limiter.leave_cancelled()


def _let_go(response: aiohttp.ClientResponse, error: BaseException | None) -> None:
    # Unless the stream was read to its end, the connection is closed, and the server learns that we left.
    if error is None:
        response.release()
    else:
        response.close()


def _stream_error(reply: ModelReply, error: Any) -> ModelReply:
    """An error inside a stream, as the reply it would have been without streaming."""
    fields = error if isinstance(error, dict) else {"message": str(error)}
    said = fields.get("status") or fields.get("status_code") or fields.get("code")
    reply.status = said if isinstance(said, int) and 400 <= said <= 599 else 502
    reply.body, reply.stream = {"error": fields}, None
    return reply


async def _read(response: aiohttp.ClientResponse, name: str) -> bytes:
    size = response.content_length
    if size is not None and size <= _LARGEST:
        return await response.read()
    if size is None:
        parts: list[bytes] = []
        total = 0
        async for part in response.content.iter_any():
            parts.append(part)
            total += len(part)
            if total > _LARGEST:
                break
        else:
            return b"".join(parts)
    response.close()
    raise TransportError(f"{name}: the answer is larger than {_LARGEST // 2**20} MB")


def _flaw(path: str, body: dict[str, Any]) -> str | None:
    """What is missing in a 200 answer; a null content becomes an empty one on the way."""
    key = _LIST_OF.get(path)
    if key is None:
        return None
    items = body.get(key)
    if not isinstance(items, list) or (not items and key == "choices"):
        error = body.get("error")
        said = error.get("message") if isinstance(error, dict) else error
        return f"with an error inside: {said}" if error else f"without {key}"
    if path == "/chat/completions":
        for choice in items:
            message = choice.get("message") if isinstance(choice, dict) else None
            if not isinstance(message, dict):
                return "with a choice that has no message"
            if message.get("content", "") is None:
                message["content"] = ""
    return None
