"""The transport of a service with a batch API: single requests go through batches, whatever else is asked at once."""

from __future__ import annotations

from itertools import count
from time import monotonic
from typing import Final

from nemo_evaluator.core.errors import BoundaryError, InterruptedRunError, TransportError
from nemo_evaluator.core.hashing import digest, digest_parts
from nemo_evaluator.core.slots import lent_slot
from nemo_evaluator.models.batch.desk import ABSENT, THROTTLED, Desk
from nemo_evaluator.models.batch.vendor import Vendor
from nemo_evaluator.models.budgeted_send import spend
from nemo_evaluator.models.cost import batch_share
from nemo_evaluator.models.endpoint import BatchSettings, Endpoint
from nemo_evaluator.models.faults import error_of
from nemo_evaluator.models.reply_check import flaw_of
from nemo_evaluator.models.transport import Transport
from nemo_evaluator.models.types import CallScope, ModelReply, ModelRequest

# How often a request is put into a batch before it counts as failed.
_TRIES: Final = 3
# The engine's questions to judges before a run: an answer is needed at once.
_AT_ONCE: Final = "canary"
# How much of a session's name is the fingerprint of the answer; the rest counts the tries of its step.
_FINGERPRINT: Final = 12


def vendor_of(endpoint: Endpoint) -> Vendor:
    """The vendor of a service with a batch API."""
    assert endpoint.batch is not None
    if endpoint.batch.provider == "anthropic":
        from nemo_evaluator.models.batch.anthropic import Anthropic  # noqa: PLC0415 - one vendor is enough

        return Anthropic(endpoint)
    from nemo_evaluator.models.batch.openai import OpenAI  # noqa: PLC0415

    return OpenAI(endpoint)


class BatchTransport(Transport):
    """Sends the requests of one service through its vendor's batches; the ledger in their folder outlives it."""

    def __init__(self, endpoint: Endpoint, settings: BatchSettings) -> None:
        super().__init__(endpoint)
        self._settings = settings
        self._share = batch_share(settings.provider)
        self._vendor = vendor_of(self.endpoint)
        self._desk: Desk | None = None

    async def __call__(self, request: ModelRequest) -> ModelReply:
        """Send a request within the budgets of whoever asks; a step that waits for a batch gives its slot away."""
        scope = request.scope
        if request.path != self.endpoint.path or (scope is not None and scope.session == _AT_ONCE):
            return await spend(request, self._direct, self.endpoint)
        async with lent_slot():
            return await spend(request, self._send, self.endpoint, share=self._share)

    async def close(self) -> None:
        """Let the desk go, and give the connections back."""
        desk = self._desk
        self._desk = None
        if desk is not None:
            await desk.close()
        await self._vendor.close()
        await super().close()

    async def _send(self, request: ModelRequest) -> ModelReply:
        asked_at = monotonic()
        scope = request.scope or CallScope()
        whole, _ = self._prepared(request)
        body = {
            key: value for key, value in whole.items() if key not in ("stream", "stream_options")
        }
        desk = self._desk = self._desk or Desk(self._vendor, self._settings, request.path)
        key = digest(
            [scope.session[:_FINGERPRINT], scope.problem_idx, scope.repeat, request.path, body]
        )
        turn = scope.turns[key] = scope.turns.get(key, -1) + 1
        tries = 0
        for attempt in count():
            custom_id = digest_parts(key, turn, attempt)
            if custom_id in desk.spent:
                continue
            line = self._vendor.line(custom_id, request.path, body)
            result = await desk.result(custom_id, line, scope.interrupted)
            while result is ABSENT:
                result = await desk.result(custom_id, line, scope.interrupted)
            if result is THROTTLED:
                continue
            tries += 1
            reply = ModelReply(
                result.status, result.body, attempts=tries, sent=body, price_share=self._share
            )
            reply.queue_ms = (monotonic() - asked_at) * 1000.0
            failed = self._failure(request.path, reply, result.why)
            if failed is None:
                self.stats.replies += 1
                return reply
            if scope.interrupted is not None and scope.interrupted():
                raise InterruptedRunError(
                    "interrupted before the batch had an answer", attempts=0
                ) from failed
            if result.status and not self.endpoint.retry.wants(failed, tries):
                return reply
            if self._settings.finish_synchronously:
                return await self._direct(request)
            if result.final or tries >= _TRIES:
                failed.attempts = tries
                failed.final = True
                raise failed
        raise AssertionError("unreachable")

    def _failure(self, path: str, reply: ModelReply, why: str) -> BoundaryError | None:
        """What makes a result no answer."""
        if reply.status >= 400:
            return error_of(reply, self.endpoint)
        if reply.status:
            flaw = flaw_of(path, reply.body)
        else:
            flaw = f"not executed: {why}"
        if flaw:
            return TransportError(f"{self.endpoint.name}: batch: {flaw}")
        return None

    async def _direct(self, request: ModelRequest) -> ModelReply:
        reply = await super()._send(self._vendor.direct(request))
        if reply.ok:
            reply.body = self._vendor.read(reply.body)
        return reply
