"""The last stage: HTTP to the endpoint, with time limits, retries by the policy table, and a shared limiter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import nullcontext
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import orjson

from nemo_evaluator.core.errors import (
    BoundaryError,
    InterruptedRunError,
    OutageError,
    RateLimitError,
    RequestRejectedError,
    TransportError,
)
from nemo_evaluator.core.plain import plain
from nemo_evaluator.core.slots import lent_slot
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, replace
from nemo_evaluator.models.breaker import Breaker
from nemo_evaluator.models.budgeted_send import spend
from nemo_evaluator.models.chat_template_guard import guard_completions
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.faults import error_of, retry_after, stream_error
from nemo_evaluator.models.health import Health
from nemo_evaluator.models.http.answer import Answer, WireError
from nemo_evaluator.models.http.http_proxy import proxy_for
from nemo_evaluator.models.http.request_head import RequestHeads
from nemo_evaluator.models.http.sse import StreamReader
from nemo_evaluator.models.lane import Lane
from nemo_evaluator.models.limiter import LONGEST_PAUSE, Limiter
from nemo_evaluator.models.reply_check import flaw_of
from nemo_evaluator.models.types import ModelReply, ModelRequest, Stream

if TYPE_CHECKING:
    from nemo_evaluator.models.traffic_counts import TransportCounts


@dataclass(slots=True)
class TransportStats:
    """Counts of one endpoint's traffic; a retried request counts once per attempt."""

    failures: int = 0
    # Answers of batches that were paid for and could not be read.
    lost_answers: int = 0
    rate_limited: int = 0
    replies: int = 0
    requests: int = 0
    retries: int = 0

    def to_dict(self) -> TransportCounts:
        """Return the counts as JSON."""
        return {
            "failures": self.failures,
            "lost_answers": self.lost_answers,
            "rate_limited": self.rate_limited,
            "replies": self.replies,
            "requests": self.requests,
            "retries": self.retries,
        }


class Transport:
    """Sends requests to one endpoint. A callable of the shape ``Send``; close it when done.

    It returns a reply of any status once retries are used up, and raises TransportError if there was no reply.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        """Prepare the request heads; the first request connects."""
        self.endpoint = endpoint
        self.stats = TransportStats()
        self._proxy = proxy_for(endpoint.url)
        self._heads: list[RequestHeads] = []
        for url in endpoint.urls:
            self._heads.append(RequestHeads(replace(endpoint, url=url), self._proxy))
        self._lane: Lane | None = None

    @property
    def lane(self) -> Lane:
        """The connections and the limiter of the endpoint, taken on first use."""
        if self._lane is None:
            self._lane = Lane.take(self.endpoint, self._proxy)
        return self._lane

    async def close(self) -> None:
        """Release the connections."""
        lane = self._lane
        self._lane = None
        if lane is not None:
            await lane.leave()

    def __call__(self, request: ModelRequest) -> Awaitable[ModelReply]:
        """Send a request within the budgets of its scope, and retry it if need be."""
        if request.scope is not None and request.scope.budgets:
            return spend(request, self._send, self.endpoint)
        return self._send(request)

    async def _send(self, request: ModelRequest) -> ModelReply:
        """Send a request until it has an answer or its retries are used up."""
        endpoint = self.endpoint
        body, data = self._prepared(request)
        attempt = 0
        queued = 0.0
        reply: ModelReply | None
        lane = self._lane or self.lane
        limiter = lane.limiter
        breaker = lane.breaker
        while True:
            attempt += 1
            try:
                waiting_since = monotonic()
                if not limiter.enter(waiting_since):
                    await limiter.wait()
                    queued += (monotonic() - waiting_since) * 1000.0
                reply = await self._once(request, data, limiter)
            except TransportError as error:
                failed: BoundaryError = error
                failed.attempts = attempt
                reply = None
            else:
                reply.attempts = attempt
                reply.queue_ms = queued
                reply.sent = body
                if reply.status < 400:
                    self.stats.replies += 1
                    if breaker.outage is not None or not breaker.healthy or breaker.streak:
                        breaker.answered()
                    return reply
                failed = error_of(reply, endpoint)
            if self._outage(request, failed, breaker):
                attempt -= 1
            elif endpoint.retry.wants(failed, attempt):
                health = request.scope.health if request.scope is not None else None
                await self._back_off(failed, attempt, health)
            else:
                self.stats.failures += 1
                if reply is None:
                    raise failed
                return reply

    def _outage(self, request: ModelRequest, failed: BoundaryError, breaker: Breaker) -> bool:
        """Whether a failed request waits for the server to come back; such an attempt does not count.

        Raises:
            OutageError: The server has been down for too long, or has stopped for good.
        """
        cause = failed.__cause__
        wire_error = cause if isinstance(cause, WireError) else None
        if wire_error is not None and wire_error.own:
            # The failure is on this side and says nothing about the server.
            return False
        if wire_error is None and (failed.status is None or failed.status < 500):
            breaker.alive()
            return False
        on_status = self.endpoint.retry.retry_on_status
        if failed.status is not None and on_status is not None and failed.status not in on_status:
            return False
        loss_reason = self.endpoint.lost() if self.endpoint.lost is not None else None
        if loss_reason:
            self.stats.failures += 1
            hint = "fix it, then run the same command with --resume"
            raise OutageError(f"{self.endpoint.name}: {loss_reason}", hint=hint)
        connected = wire_error is None or wire_error.connected
        try:
            breaker.failed(id(request), failed, self.endpoint, connected=connected)
        except OutageError:
            self.stats.failures += 1
            raise
        if breaker.outage is None:
            return False
        if request.scope is not None and request.scope.health is not None:
            request.scope.health.outage = breaker.outage
        return True

    def _encoded(self, body: JsonDict) -> bytes:
        """A body as JSON.

        Raises:
            RequestRejectedError: It contains an object that is not a JSON value.
        """
        try:
            return orjson.dumps(body)
        except TypeError:
            pass
        try:
            # Values from tools and datasets (surrogates, huge numbers) are repaired; other objects are a mistake.
            return orjson.dumps(plain(body, _refused))
        except TypeError as error:
            text = f"{self.endpoint.name}: the request is not JSON: {error}"
            raise RequestRejectedError(text) from error

    def _prepared(self, request: ModelRequest) -> tuple[JsonDict, bytes]:
        """The body to send, and its bytes."""
        body = request.body
        if self.endpoint.extra_body:
            body = {**body, **self.endpoint.extra_body}
        if (
            body.get("stream") is True
            and request.path == "/chat/completions"
            and "stream_options" not in body
        ):
            body = {**body, "stream_options": {"include_usage": True}}
        data = self._encoded(body)
        # Searching the bytes is cheap and excludes nearly every request.
        if request.path == "/completions" and b"chat_template" in data:
            body = guard_completions(body)
            data = self._encoded(body)
        return body, data

    async def _back_off(self, failed: BoundaryError, attempt: int, health: Health | None) -> None:
        """Wait before the next attempt; raises the failure if the server requests a longer wait than allowed."""
        requested = failed.retry_after if isinstance(failed, RateLimitError) else None
        longest = min(self.endpoint.timeouts.total, LONGEST_PAUSE)
        if requested is not None and requested > longest:
            failed.hint = (
                f"the server asks to wait {requested:.0f} s, longer than we do ({longest:.0f} s)"
            )
            self.stats.failures += 1
            raise failed
        self.stats.retries += 1
        async with lent_slot():
            with health.retry(failed) if health is not None else nullcontext():
                await asyncio.sleep(self.endpoint.retry.delay(failed, attempt))

    async def _once(self, request: ModelRequest, data: bytes, limiter: Limiter) -> ModelReply:
        """Send the request once, and report the outcome to the limiter."""
        sent_at = monotonic()
        try:
            scope = request.scope
            if scope is not None and scope.interrupted is not None and scope.interrupted():
                text = "the run was interrupted before this request was sent"
                raise InterruptedRunError(text, attempts=0)
            self.stats.requests += 1
            reply = await self._exchange(request, data)
        except TransportError:
            limiter.leave_failed(sent_at, monotonic())
            raise
        except BaseException:
            limiter.leave_cancelled()
            raise
        now = monotonic()
        if reply.status == 429:
            self.stats.rate_limited += 1
            pause = retry_after(reply.headers)
            if pause is not None:
                pause = min(pause, self.endpoint.timeouts.total)
            limiter.leave_limited(sent_at, now, pause)
        elif reply.status >= 500:
            limiter.leave_failed(sent_at, now)
        elif reply.stream is not None:
            reply.stream.on_end = partial(self._leave, sent_at)
        else:
            limiter.leave(sent_at, now)
        return reply

    async def _exchange(self, request: ModelRequest, data: bytes) -> ModelReply:
        """Send a request to one of the servers, and read the head of its answer."""
        lane = self._lane or self.lane
        while True:
            server = lane.pick()
            try:
                head = self._heads[server].request(request, data)
                answer = await lane.pools[server].post(head, self.endpoint.timeouts)
                break
            except WireError as error:
                self._check_proxy(error.status)
                if error.own:
                    raise TransportError(f"{self.endpoint.name}: {error}") from error
                # A request that never reached one server may go to another immediately.
                another_is_available = lane.failed(server)
                if error.connected or not another_is_available:
                    raise TransportError(f"{self.endpoint.name}: {error}") from error
        if answer.status == 407:
            self._check_proxy(answer.status)
        if answer.status >= 500:
            lane.failed(server)
        else:
            lane.answered(server)
        reply = ModelReply(answer.status, {}, answer.headers)
        # The server's time: from the moment the request was written.
        reply.first_byte_ms = reply.latency_ms = (answer.first_byte_at - answer.sent_at) * 1000.0
        if answer.stream is None:
            reply.latency_ms = (answer.last_byte_at - answer.sent_at) * 1000.0
            return self._reply(request.path, answer, reply)
        reply.stream = Stream(self._events(answer.stream), closes=answer.stream)
        if request.whole:
            return await self._gather(request.path, reply, answer)
        return reply

    def _check_proxy(self, status: int) -> None:
        """Raise AuthError if a proxy requires a login: it answers instead of the server."""
        if status == 407 and self._proxy is not None:
            raise self._proxy.refusal(status, "", self.endpoint.url.partition("?")[0])

    def _reply(self, path: str, answer: Answer, reply: ModelReply) -> ModelReply:
        """Parse a whole answer.

        Raises:
            TransportError: A 200 answer does not follow its protocol.
        """
        status = answer.status
        raw = answer.body
        flaw: str | None
        try:
            body = orjson.loads(raw)
            flaw = "with JSON that is not an object"
        except orjson.JSONDecodeError:
            body = None
            excerpt = raw[:80].decode("utf-8", "replace")
            flaw = f"without JSON ({answer.content_type}, {len(raw)} bytes): {excerpt!r}"
        if isinstance(body, dict):
            reply.body = body
            flaw = flaw_of(path, body) if status < 400 else None
        else:
            reply.raw = raw
        if flaw is not None and status < 400:
            raise TransportError(f"{self.endpoint.name}: HTTP {status} {flaw}")
        return reply

    async def _gather(self, path: str, reply: ModelReply, answer: Answer) -> ModelReply:
        """A streamed reply as a whole one.

        Raises:
            TransportError: The stream broke, or does not follow its protocol.
        """
        assert reply.stream is not None
        name = self.endpoint.name
        reader = StreamReader(path)
        try:
            async for data in reply.stream:
                reader.feed(data)
            reader.finish()
        except TransportError as error:
            await reply.stream.aclose()
            message = error.message.removeprefix(f"{name}: ")
            raise TransportError(f"{name}: {message}") from error
        except asyncio.CancelledError:
            await reply.stream.aclose()
            raise
        reply.latency_ms = (monotonic() - answer.sent_at) * 1000.0
        if reader.error is not None:
            return stream_error(reply, reader.error)
        if not reader.gathered.complete:
            raise TransportError(f"{name}: the stream ended before the answer did")
        body = reader.gathered.body()
        flaw = flaw_of(path, body)
        if flaw is not None:
            raise TransportError(f"{name}: a stream {flaw}")
        reply.stream = None
        reply.body = body
        if reader.first_token_at is not None:
            reply.first_token_ms = (reader.first_token_at - answer.sent_at) * 1000.0
        return reply

    async def _events(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The bytes of a stream; a broken connection raises TransportError."""
        try:
            async for piece in pieces:
                yield piece
        except WireError as error:
            raise TransportError(f"{self.endpoint.name}: the stream broke: {error}") from error

    def _leave(self, sent_at: float, error: BaseException | None) -> None:
        """Tell the limiter that a stream has ended."""
        limiter = self.lane.limiter
        if error is None:
            limiter.leave(sent_at, monotonic())
        elif isinstance(error, TransportError):
            limiter.leave_failed(sent_at, monotonic())
        else:
            limiter.leave_cancelled()


def _refused(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not a JSON value")
