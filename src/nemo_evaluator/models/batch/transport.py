"""The transport of a service with a batch API: single requests go through batches, everything else directly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from time import monotonic
from typing import Final

from nemo_evaluator.core.errors import BoundaryError, InterruptedRunError, TransportError
from nemo_evaluator.core.hashing import digest, digest_parts
from nemo_evaluator.core.slots import lent_slot
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.batch.desk import ABSENT, THROTTLED, Desk
from nemo_evaluator.models.batch.vendor import Result, Vendor
from nemo_evaluator.models.budgeted_send import spend
from nemo_evaluator.models.cost import batch_share
from nemo_evaluator.models.endpoint import BatchSettings, Endpoint
from nemo_evaluator.models.faults import error_of
from nemo_evaluator.models.reply_check import flaw_of
from nemo_evaluator.models.transport import Transport
from nemo_evaluator.models.types import CallScope, ModelReply, ModelRequest

# How often a request is put into a batch before it counts as failed.
_TRIES: Final = 3
# The session of the engine's test questions to judges before a run: they cannot wait for a batch.
_DIRECT_SESSION: Final = "canary"
# So much of a session's name is the fingerprint of the answer; the rest counts the attempts of its step.
_FINGERPRINT: Final = 12


def vendor_of(endpoint: Endpoint) -> Vendor:
    """Return the vendor of a service with a batch API."""
    assert endpoint.batch is not None
    if endpoint.batch.provider == "anthropic":
        from nemo_evaluator.models.batch.anthropic import Anthropic  # noqa: PLC0415 - only one is needed

        return Anthropic(endpoint)
    from nemo_evaluator.models.batch.openai import OpenAI  # noqa: PLC0415

    return OpenAI(endpoint)


class BatchTransport(Transport):
    """Sends the requests of one service through its vendor's batches; their ledger outlives the process."""

    def __init__(self, endpoint: Endpoint, settings: BatchSettings) -> None:
        """Set up the vendor; the first request opens the ledger."""
        super().__init__(endpoint)
        self._settings = settings
        self._share = batch_share(settings.provider)
        self._vendor = vendor_of(self.endpoint)
        self._desk: Desk | None = None

    async def __call__(self, request: ModelRequest) -> ModelReply:
        """Send a request within the budgets of its scope; a step that waits for a batch lends its slot."""
        scope = request.scope
        cannot_wait = scope is not None and scope.session == _DIRECT_SESSION
        if request.path != self.endpoint.path or cannot_wait:
            return await spend(request, self._direct, self.endpoint)
        async with lent_slot():
            return await spend(request, self._send, self.endpoint, share=self._share)

    async def close(self) -> None:
        """Close the desk and the connections."""
        desk = self._desk
        self._desk = None
        if desk is not None:
            await desk.close()
        await self._vendor.close()
        await super().close()

    async def _send(self, request: ModelRequest) -> ModelReply:
        """Send a request through batches, up to ``_TRIES`` of them."""
        started_at = monotonic()
        scope = request.scope or CallScope()
        prepared, _ = self._prepared(request)
        body = without_stream(prepared)
        desk = self._opened_desk(request.path)
        ids = _custom_ids(request.path, body, scope)
        tries = 0
        lost = 0
        while True:
            result = await self._next_result(desk, ids, request.path, body=body, scope=scope)
            tries += 1
            lost += result.lost
            reply = self._batch_reply(result, body, tries=tries, lost=lost)
            reply.queue_ms = (monotonic() - started_at) * 1000.0
            failed = self._failure(request.path, reply, result.why)
            if failed is None:
                self.stats.replies += 1
                self.stats.lost_answers += lost
                return reply
            if scope.interrupted is not None and scope.interrupted():
                text = "interrupted before the batch had an answer"
                raise InterruptedRunError(text, attempts=0) from failed
            if result.status and not self.endpoint.retry.wants(failed, tries):
                return reply
            if self._settings.finish_synchronously:
                return await self._finished_directly(request, lost)
            if result.final or tries >= _TRIES:
                failed.attempts = tries
                failed.final = True
                raise failed

    def _opened_desk(self, path: str) -> Desk:
        """Return the desk; the first request opens it, with its path."""
        if self._desk is None:
            self._desk = Desk(self._vendor, self._settings, path)
        return self._desk

    def _batch_reply(self, result: Result, body: JsonDict, *, tries: int, lost: int) -> ModelReply:
        """Return a result as a reply.

        Args:
            result: The result from the last batch.
            body: The body of the request.
            tries: How many batches had the request.
            lost: How many of its answers were paid for and could not be read.
        """
        return ModelReply(
            result.status,
            result.body,
            attempts=tries,
            sent=body,
            price_share=self._share,
            lost_answers=lost,
        )

    async def _finished_directly(self, request: ModelRequest, lost: int) -> ModelReply:
        """Send a request without a batch, after batches have failed and lost some of its answers."""
        reply = await self._direct(request)
        reply.lost_answers = lost
        self.stats.lost_answers += lost
        return reply

    async def _next_result(
        self, desk: Desk, ids: Iterator[str], path: str, body: JsonDict, scope: CallScope
    ) -> Result:
        """The result of a request in the next batch that executes it.

        Args:
            desk: The desk.
            ids: The ids of the request in successive batches.
            path: The path of the request.
            body: Its body.
            scope: On whose behalf it is sent.
        """
        lost = 0
        for custom_id in ids:
            if custom_id in desk.spent:
                lost += custom_id in desk.lost
                continue
            line = self._vendor.line(custom_id, path, body)
            result = await desk.result(custom_id, line, scope.interrupted)
            while result is ABSENT:
                result = await desk.result(custom_id, line, scope.interrupted)
            if result is not THROTTLED:
                return replace(result, lost=result.lost + lost)
        raise AssertionError("ids never end")

    def _failure(self, path: str, reply: ModelReply, why: str) -> BoundaryError | None:
        """The error of a result that is not an answer; None if it is one."""
        if reply.status >= 400:
            return error_of(reply, self.endpoint)
        flaw = flaw_of(path, reply.body) if reply.status else f"not executed: {why}"
        if flaw:
            return TransportError(f"{self.endpoint.name}: batch: {flaw}")
        return None

    async def _direct(self, request: ModelRequest) -> ModelReply:
        """Send a request without a batch."""
        reply = await super()._send(self._vendor.direct(request))
        if reply.ok:
            reply.body = self._vendor.read(reply.body)
        return reply


def without_stream(body: JsonDict) -> JsonDict:
    """Copy a request without its wish for a stream: batches have none."""
    return {key: value for key, value in body.items() if key not in ("stream", "stream_options")}


def _custom_ids(path: str, body: JsonDict, scope: CallScope) -> Iterator[str]:
    """The ids of a request in successive batches; a request that a step sends again gets other ids."""
    fingerprint = scope.session[:_FINGERPRINT]
    key = digest([fingerprint, scope.problem_idx, scope.repeat, path, body])
    turn = scope.turns.get(key, -1) + 1
    scope.turns[key] = turn
    return (digest_parts(key, turn, attempt) for attempt in count())
