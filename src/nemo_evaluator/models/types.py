"""Requests and replies between a client and a model, and the function that turns one into the other."""

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
    """On whose behalf a model is called. The engine sets it once per attempt at a step.

    Nobody changes it afterwards. It is not frozen because frozen dataclasses take five times as long to create.

    Attributes:
        session: The name of the attempt.
        benchmark: The benchmark.
        problem_idx: The number of the problem.
        repeat: The number of the repeat.
        budgets: The budgets of the calls; each call reserves its cost in all of them.
        traffic: Takes the records of the calls, if they are kept.
        vary_seed: Every repeat gets another sampling seed. Judges switch that off.
        interrupted: Returns whether the run was interrupted; then no request and no retry is sent any more.
        health: Where retries and outages are shown.
        turns: How often each request was sent for the step, where that must be known.
        keep_turn: Takes the turns of an agent as they happen.
        partial: Returns the agent's answer if it had to end now (see ``core.turns``).
    """

    session: str = ""
    benchmark: str = ""
    problem_idx: int = 0
    repeat: int = 0
    budgets: tuple[Budget, ...] = ()
    traffic: Callable[[JsonDict], None] | None = None
    vary_seed: bool = True
    interrupted: Callable[[], bool] | None = None
    health: Health | None = None
    turns: dict[str, int] = field(default_factory=dict, compare=False)
    keep_turn: Callable[[Step, JsonDict], object] | None = None
    partial: PartialAnswer | None = field(default=None, compare=False)

    def record(self, turn: JsonDict) -> None:
        """Keep a finished turn of an agent."""
        if self.keep_turn is not None:
            self.keep_turn(Step(self.problem_idx, self.repeat), turn)


call_scope: ContextVar[CallScope | None] = at_work


@dataclass(slots=True)
class ModelRequest:
    """One request to a model.

    Attributes:
        path: The path, relative to the versioned base URL (``/chat/completions``).
        body: The JSON body; it is replaced, never changed.
        headers: Further headers.
        scope: On whose behalf the model is called.
        whole: The caller wants a whole answer, even if it arrives as a stream.
        notes: Values that stages of the pipeline leave for each other.
    """

    path: str
    body: JsonDict
    headers: dict[str, str] = field(default_factory=dict)
    scope: CallScope | None = None
    whole: bool = False
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def stream(self) -> bool:
        """Return whether the request asks for a stream of events."""
        return self.body.get("stream") is True

    @property
    def session(self) -> str | None:
        """The session the request belongs to."""
        if self.scope is None:
            return None
        return self.scope.session or None


class Stream:
    """A stream of bytes whose end is always noticed: read completely, broken, or left before its first byte.

    Attributes:
        on_end: Called exactly once, with the error that ended the stream, if there was one.
    """

    __slots__ = ("_closes", "_source", "on_end")

    def __init__(
        self,
        source: AsyncIterator[bytes],
        on_end: Callable[[BaseException | None], None] | None = None,
        *,
        closes: Any = None,
    ) -> None:
        """Wrap a source of bytes.

        Args:
            source: The bytes.
            on_end: Called when the stream has ended.
            closes: Another stream that ``aclose`` closes too.
        """
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
        """Leave the stream, and close its source."""
        for source in (self._source, self._closes):
            close = getattr(source, "aclose", None)
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
    """A reply: an HTTP status with a JSON object, with raw bytes, or with a stream of raw event bytes.

    Attributes:
        status: The HTTP status.
        body: The JSON object; empty for other replies.
        headers: The headers, names in lower case.
        raw: The bytes of a reply that is not a JSON object.
        stream: The bytes of a streamed reply.
        latency_ms: The server's time, from the last byte of the request to the last byte of the answer.
        queue_ms: The time that the request waited for the limiter and for budgets.
        first_byte_ms: The server's time until the first byte.
        first_token_ms: The server's time until the first token of a stream.
        attempts: The number of attempts.
        sent: The body that was sent.
        from_cache: The reply comes from the answer cache.
        price_share: The share of the price that is paid: less than 1 in a batch.
        lost_answers: How many answers to the request were paid for and could not be read, before this one.
    """

    status: int
    body: JsonDict = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    stream: Stream | None = None
    latency_ms: float = 0.0
    queue_ms: float = 0.0
    first_byte_ms: float | None = None
    first_token_ms: float | None = None
    attempts: int = 1
    sent: JsonDict | None = None
    from_cache: bool = False
    price_share: float = 1.0
    lost_answers: int = 0

    @property
    def ok(self) -> bool:
        """True for a status under 400."""
        return self.status < 400

    @property
    def payments(self) -> int:
        """How many answers were paid for; nel assumes that a lost one cost as much as this one."""
        return 1 + self.lost_answers


Send: TypeAlias = Callable[[ModelRequest], Awaitable[ModelReply]]
