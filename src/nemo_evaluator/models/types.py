"""What travels between a client and a model: one request, one reply, and the function that turns one into the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from nemo_evaluator.core.turns import PartialAnswer, at_work
from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.models.health import Health

if TYPE_CHECKING:
    from nemo_evaluator.models.budget import Budget


@dataclass(slots=True)
class CallScope:
    """Who is asking: the step on whose behalf a model is called. The engine sets it, once per attempt at a step, and
    nobody changes it (said here and not to the dataclass: frozen ones take five times as long to make)."""

    session: str = ""
    benchmark: str = ""
    problem_idx: int = 0
    repeat: int = 0
    # What the calls may spend; all are asked before each of them.
    budgets: tuple[Budget, ...] = ()
    # Where the records of the calls go, if they are kept.
    traffic: Callable[[JsonDict], None] | None = None
    # Whether a sampling seed is another one in every repeat: so that repeats differ, while judges stay the same.
    vary_seed: bool = True
    # Says when the run was interrupted: from then on nothing new is sent, not even a retry.
    interrupted: Callable[[], bool] | None = None
    # Where whoever shows progress sees retries and outages.
    health: Health | None = None
    # How often each request was made for the step, where that must be known.
    turns: dict[str, int] = field(default_factory=dict, compare=False)
    # Where turns of an agent go as they happen, and its answer if it had to end now (see ``core.turns``).
    keep_turn: Callable[[Step, JsonDict], object] | None = None
    partial: PartialAnswer | None = field(default=None, compare=False)

    def record(self, turn: JsonDict) -> None:
        """Keep a finished turn of an agent."""
        if self.keep_turn is not None:
            self.keep_turn(Step(self.problem_idx, self.repeat), turn)


call_scope: ContextVar[CallScope | None] = at_work


@dataclass(slots=True)
class ModelRequest:
    """One request on its way to a model. ``path`` is relative to the versioned base URL (``/chat/completions``)."""

    path: str
    body: JsonDict
    headers: dict[str, str] = field(default_factory=dict)
    scope: CallScope | None = None
    # The asker wants the whole answer, even where it comes as a stream.
    whole: bool = False
    # What stages of the pipeline leave for each other and for the log.
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def stream(self) -> bool:
        """Whether the answer is wanted as a stream of events."""
        return self.body.get("stream") is True

    @property
    def session(self) -> str | None:
        """The session the request belongs to."""
        return (self.scope.session or None) if self.scope is not None else None


class Stream:
    """A stream of bytes that is always let go of: read to its end, broken, or left before its first byte.

    ``on_end`` is called exactly once, with the error that ended the stream, if one did.
    """

    __slots__ = ("_closes", "_source", "on_end")

    def __init__(
        self,
        source: AsyncIterator[bytes],
        on_end: Callable[[BaseException | None], None] | None = None,
        *,
        closes: Any = None,
    ) -> None:
        self._source = source
        self.on_end = on_end
        self._closes = closes

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self._source.__anext__()
        except StopAsyncIteration:
            self._end(None)
            raise
        except BaseException as error:
            self._end(error)
            raise

    async def aclose(self) -> None:
        """Leave the stream; what it stands on is closed too."""
        for inner in (self._source, self._closes):
            close = getattr(inner, "aclose", None)
            if close is not None:
                await close()
        self._end(GeneratorExit())

    def _end(self, error: BaseException | None) -> None:
        on_end = self.on_end
        self.on_end = None
        if on_end is not None:
            on_end(error)


@dataclass(slots=True)
class ModelReply:
    """What came back: an HTTP status with a JSON object, with raw bytes, or with a stream of raw event bytes."""

    status: int
    body: JsonDict = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    stream: Stream | None = None
    # The server's time, from the request's last byte to the answer's; what was waited for us before it, apart.
    latency_ms: float = 0.0
    queue_ms: float = 0.0
    first_byte_ms: float | None = None
    first_token_ms: float | None = None
    attempts: int = 1
    sent: JsonDict | None = None
    from_cache: bool = False
    # What is paid of the price: less in a batch.
    price_share: float = 1.0

    @property
    def ok(self) -> bool:
        """True for a status under 400."""
        return self.status < 400


Send: TypeAlias = Callable[[ModelRequest], Awaitable[ModelReply]]
