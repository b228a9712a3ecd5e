"""Interceptors of the documented shape: a request or a response goes in, and comes out changed.

::

    class Shout(RequestInterceptor):
        async def intercept_request(self, req: AdapterRequest) -> AdapterRequest:
            req.body["user"] = "loud"
            return req

They run wherever an interceptor does (``name: file.py:Shout``). New ones had better derive from
``nemo_evaluator.adapters.Interceptor``, which also sees the events of streams.
"""

import secrets
from abc import ABC, abstractmethod
from contextvars import ContextVar
from enum import IntEnum
from typing import Any, ClassVar

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field


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
