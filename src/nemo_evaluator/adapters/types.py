"""Interceptors of the documented shape: a request or a response goes in, and comes out changed.

::

    class Shout(RequestInterceptor):
        async def intercept_request(self, req: AdapterRequest) -> AdapterRequest:
            req.body["user"] = "loud"
            return req

They run wherever an interceptor does (``name: file.py:Shout``). New interceptors should derive from
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
    """On which side of the endpoint a stage runs."""

    REQUEST = 1
    REQUEST_TO_RESPONSE = 2
    RESPONSE = 3


@dataclass(slots=True)
class InterceptorContext:
    """Values that the stages of one call share; ``extra["session_id"]`` is its session."""

    request_id: str = field(default_factory=lambda: secrets.token_hex(6))
    extra: dict[str, Any] = field(default_factory=dict)


_context: ContextVar[InterceptorContext | None] = ContextVar("interceptor_context", default=None)


def get_context() -> InterceptorContext | None:
    """The context of the current call."""
    return _context.get()


def set_context(context: InterceptorContext | None) -> None:
    """Make a context that of the current call."""
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
    """A response: a JSON object, or the bytes of anything else."""

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
    """The base class of the three kinds."""

    stage: ClassVar[Stage]
    best_effort: ClassVar[bool] = False


class RequestInterceptor(StagedInterceptor):
    """Sees or changes requests."""

    stage: ClassVar[Stage] = Stage.REQUEST

    @abstractmethod
    async def intercept_request(self, req: AdapterRequest) -> AdapterRequest:
        """Return the request to send, changed or not."""


class RequestToResponseInterceptor(StagedInterceptor):
    """Sees or changes requests, and may answer them itself."""

    stage: ClassVar[Stage] = Stage.REQUEST_TO_RESPONSE

    @abstractmethod
    async def intercept_request(self, req: AdapterRequest) -> AdapterRequest | AdapterResponse:
        """Return the request to send, or the answer."""


class ResponseInterceptor(StagedInterceptor):
    """Sees or changes responses of any status."""

    stage: ClassVar[Stage] = Stage.RESPONSE

    @abstractmethod
    async def intercept_response(self, resp: AdapterResponse) -> AdapterResponse:
        """Return the response, changed or not."""


class StagedAdapter(Interceptor):
    """Runs an interceptor of the documented shape as a stage. It does not see streams: they have no body."""

    def __init__(self, inner: StagedInterceptor) -> None:
        """Find the methods of the interceptor."""
        self._inner: Any = inner
        self._intercept_request = getattr(inner, "intercept_request", None)
        self._intercept_response = getattr(inner, "intercept_response", None)

    async def on_request(self, request: ModelRequest) -> ModelReply | None:
        """Show a request to the interceptor."""
        if self._intercept_request is None:
            return None
        context = _context_of(request)
        set_context(context)
        result = await self._intercept_request(
            AdapterRequest(
                method="POST",
                path=request.path,
                headers=dict(request.headers),
                body=dict(request.body),
                ctx=context,
            )
        )
        if isinstance(result, AdapterResponse):
            return _reply(result, ModelReply(result.status_code))
        if not isinstance(result, AdapterRequest):
            raise self._wrong("intercept_request", result)
        request.path = result.path
        request.headers = result.headers
        request.body = result.body
        return None

    async def on_reply(self, request: ModelRequest, reply: ModelReply) -> ModelReply:
        """Show a reply to the interceptor."""
        if self._intercept_response is None:
            return reply
        context = _context_of(request)
        set_context(context)
        result = await self._intercept_response(
            AdapterResponse(
                status_code=reply.status,
                headers=dict(reply.headers),
                body=reply.body if reply.raw is None else reply.raw,
                latency_ms=reply.latency_ms,
                ctx=context,
            )
        )
        if not isinstance(result, AdapterResponse):
            raise self._wrong("intercept_response", result)
        return _reply(result, reply)

    async def close(self) -> None:
        """Close the interceptor, if it can be closed."""
        if hasattr(self._inner, "close"):
            closing = self._inner.close()
            if inspect.isawaitable(closing):
                await closing

    def _wrong(self, method: str, result: object) -> UsageError:
        name = type(self._inner).__qualname__
        return UsageError(
            f"{method} of {name} returned {type(result).__name__}",
            hint="return what it was given",
        )


def adapted(inner: StagedInterceptor) -> StagedAdapter:
    """The stage that runs an interceptor of the documented shape, in the place of its kind."""
    place = Place.REPLY if inner.stage is Stage.RESPONSE else Place.EDIT
    attributes = {"best_effort": inner.best_effort, "place": place}
    kind = type("StagedAdapter", (StagedAdapter,), attributes)
    adapter: StagedAdapter = kind(inner)
    return adapter


def _context_of(request: ModelRequest) -> InterceptorContext:
    context: InterceptorContext | None = request.notes.get(_NOTE)
    if context is None:
        context = request.notes[_NOTE] = InterceptorContext()
        if request.session is not None:
            context.extra["session_id"] = request.session
    return context


def _reply(response: AdapterResponse, reply: ModelReply) -> ModelReply:
    """A reply with the status, headers and body of a response."""
    reply.status = response.status_code
    reply.headers = response.headers
    if isinstance(response.body, bytes):
        reply.raw = response.body
    else:
        reply.body = response.body
        reply.raw = None
    return reply
