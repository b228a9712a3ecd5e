"""Runs an interceptor of the documented shape (``adapters.types``) as a stage of the pipeline."""

import inspect
from typing import Any

from nemo_evaluator.adapters.base import Interceptor, Place
from nemo_evaluator.adapters.types import (
    AdapterRequest,
    AdapterResponse,
    InterceptorContext,
    Stage,
    StagedInterceptor,
    set_context,
)
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.models.types import ModelReply, ModelRequest

_NOTE = "interceptor_context"


class StagedAdapter(Interceptor):
    """One such interceptor. Streams that pass through the proxy go by unseen: they have no body to hand over."""

    def __init__(self, inner: StagedInterceptor) -> None:
        self._inner: Any = inner
        self._asks = getattr(inner, "intercept_request", None)
        self._answers = getattr(inner, "intercept_response", None)

    async def on_request(self, request: ModelRequest) -> ModelReply | None:
        """Hand the request over, and take back what became of it."""
        if self._asks is None:
            return None
        given = AdapterRequest("POST", request.path, dict(request.headers), dict(request.body), _context(request))
        set_context(given.ctx)
        made = await self._asks(given)
        if isinstance(made, AdapterResponse):
            return _reply(made, ModelReply(made.status_code))
        if not isinstance(made, AdapterRequest):
            raise self._wrong("intercept_request", made)
        request.path, request.headers, request.body = made.path, made.headers, made.body
        return None

    async def on_reply(self, request: ModelRequest, reply: ModelReply) -> ModelReply:
        """Hand the reply over, and take back what became of it."""
        if self._answers is None:
            return reply
        body = reply.body if reply.raw is None else reply.raw
        context = _context(request)
        set_context(context)
        made = await self._answers(AdapterResponse(reply.status, dict(reply.headers), body, reply.latency_ms, context))
        if not isinstance(made, AdapterResponse):
            raise self._wrong("intercept_response", made)
        return _reply(made, reply)

    async def close(self) -> None:
        """Close the interceptor, if it wants to be."""
        closing = self._inner.close() if hasattr(self._inner, "close") else None
        if inspect.isawaitable(closing):
            await closing

    def _wrong(self, method: str, made: object) -> UsageError:
        name = type(self._inner).__qualname__
        return UsageError(f"{method} of {name} returned {type(made).__name__}", hint="return what it was given")


def adapted(inner: StagedInterceptor) -> StagedAdapter:
    """The stage that runs ``inner``."""
    place = Place.REPLY if inner.stage is Stage.RESPONSE else Place.EDIT
    kind = type("StagedAdapter", (StagedAdapter,), {"best_effort": inner.best_effort, "place": place})
    made: StagedAdapter = kind(inner)
    return made


def _context(request: ModelRequest) -> InterceptorContext:
    context: InterceptorContext | None = request.notes.get(_NOTE)
    if context is None:
        context = request.notes[_NOTE] = InterceptorContext()
        if request.session is not None:
            context.extra["session_id"] = request.session
    return context


def _reply(made: AdapterResponse, reply: ModelReply) -> ModelReply:
    reply.status, reply.headers = made.status_code, made.headers
    if isinstance(made.body, bytes):
        reply.raw = made.body
    else:
        reply.body, reply.raw = made.body, None
    return reply
