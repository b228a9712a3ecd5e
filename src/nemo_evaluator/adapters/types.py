"""Interceptors of the documented shape: a request or a response goes in, and comes out changed.

::

    class Shout(RequestInterceptor):
        async def intercept_request(self, req: AdapterRequest) -> AdapterRequest:
            req.body["user"] = "loud"
            return req

They run wherever an interceptor does (``name: file.py:Shout``). New ones had better derive from
``nemo_evaluator.adapters.Interceptor``, which also sees the events of streams.
"""

import inspect
import secrets
from abc import ABC, abstractmethod
from contextvars import ContextVar
from enum import IntEnum
from typing import Any, ClassVar

from nemo_evaluator.adapters.base import Interceptor, Place
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.models.types import ModelReply, ModelRequest

_NOTE = "interceptor_context"


class Stage(IntEnum):
    """On which side of the endpoint a stage stands."""

    REQUEST = 1
    REQUEST_TO_RESPONSE = 2
    RESPONSE = 3


@dataclass(slots=True)
class InterceptorContext:
    """What the stages of one call share; ``extra["session_id"]`` is the session it belongs to."""

    request_id: str = field(default_factory=lambda: secrets.token_hex(6))
    extra: dict[str, Any] = field(default_factory=dict)


_context: ContextVar[InterceptorContext | None] = ContextVar("interceptor_context", default=None)


def get_context() -> InterceptorContext | None:
    """The context of the call under way."""
    return _context.get()


def set_context(context: InterceptorContext | None) -> None:
    """Make a context that of the call under way."""
    _context.set(context)


@dataclass(slots=True)
class AdapterRequest:
    """A request on its way to the model."""

    method: str
    path: str
    headers: dict[str, str]
    body: JsonDict
    ctx: InterceptorContext = field(default_factory=InterceptorContext)


@dataclass(slots=True)
class AdapterResponse:
    """What came back: a JSON object, or the bytes of anything else."""

    status_code: int
    headers: dict[str, str]
    body: JsonDict | bytes
    latency_ms: float = 0.0
    ctx: InterceptorContext = field(default_factory=InterceptorContext)

    @property
    def ok(self) -> bool:
        """True for 200 to 399."""
        return 200 <= self.status_code < 400


class StagedInterceptor(ABC):
    """What the three kinds have in common."""

    stage: ClassVar[Stage]
    best_effort: ClassVar[bool] = False


class RequestInterceptor(StagedInterceptor):
    """Sees or changes requests."""

    stage: ClassVar[Stage] = Stage.REQUEST

    @abstractmethod
    async def intercept_request(self, req: AdapterRequest) -> AdapterRequest:
        """The request as it goes on."""


class RequestToResponseInterceptor(StagedInterceptor):
    """Sees or changes requests, and may answer them itself."""

    stage: ClassVar[Stage] = Stage.REQUEST_TO_RESPONSE

    @abstractmethod
    async def intercept_request(self, req: AdapterRequest) -> AdapterRequest | AdapterResponse:
        """The request as it goes on, or the answer."""


class ResponseInterceptor(StagedInterceptor):
    """Sees or changes responses of any status."""

    stage: ClassVar[Stage] = Stage.RESPONSE

    @abstractmethod
    async def intercept_response(self, resp: AdapterResponse) -> AdapterResponse:
        """The response as it goes on."""


class StagedAdapter(Interceptor):
    """Runs such an interceptor as a stage. Streams that pass through the proxy go by unseen: they have no body."""

    def __init__(self, inner: StagedInterceptor) -> None:
        self._inner: Any = inner
        self._asks = getattr(inner, "intercept_request", None)
        self._answers = getattr(inner, "intercept_response", None)

    async def on_request(self, request: ModelRequest) -> ModelReply | None:
        if self._asks is None:
            return None
        given = AdapterRequest(
            "POST",
            request.path,
            dict(request.headers),
            body=dict(request.body),
            ctx=_context_of(request),
        )
        set_context(given.ctx)
        made = await self._asks(given)
        if isinstance(made, AdapterResponse):
            return _reply(made, ModelReply(made.status_code))
        if not isinstance(made, AdapterRequest):
            raise self._wrong("intercept_request", made)
        request.path, request.headers, request.body = made.path, made.headers, made.body
        return None

    async def on_reply(self, request: ModelRequest, reply: ModelReply) -> ModelReply:
        if self._answers is None:
            return reply
        body = reply.body if reply.raw is None else reply.raw
        context = _context_of(request)
        set_context(context)
        made = await self._answers(
            AdapterResponse(
                reply.status, dict(reply.headers), body, latency_ms=reply.latency_ms, ctx=context
            )
        )
        if not isinstance(made, AdapterResponse):
            raise self._wrong("intercept_response", made)
        return _reply(made, reply)

    async def close(self) -> None:
        if hasattr(self._inner, "close"):
            closing: Any | None = self._inner.close()
        else:
            closing = None
        if inspect.isawaitable(closing):
            await closing

    def _wrong(self, method: str, made: object) -> UsageError:
        name = type(self._inner).__qualname__
        return UsageError(
            f"{method} of {name} returned {type(made).__name__}", hint="return what it was given"
        )


def adapted(inner: StagedInterceptor) -> StagedAdapter:
    place = Place.REPLY if inner.stage is Stage.RESPONSE else Place.EDIT
    kind = type(
        "StagedAdapter", (StagedAdapter,), {"best_effort": inner.best_effort, "place": place}
    )
    made: StagedAdapter = kind(inner)
    return made


def _context_of(request: ModelRequest) -> InterceptorContext:
    context: InterceptorContext | None = request.notes.get(_NOTE)
    if context is None:
        context = request.notes[_NOTE] = InterceptorContext()
        if request.session is not None:
            context.extra["session_id"] = request.session
    return context


def _reply(made: AdapterResponse, reply: ModelReply) -> ModelReply:
    reply.status = made.status_code
    reply.headers = made.headers
    if isinstance(made.body, bytes):
        reply.raw = made.body
    else:
        reply.body = made.body
        reply.raw = None
    return reply
