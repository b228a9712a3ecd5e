"""Asking a judge: structured output where the server takes it, one repair of an unparsable reply, then JudgeError."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar
from weakref import WeakSet

from nemo_evaluator.core.errors import (
    AuthError,
    BoundaryError,
    InterruptedRunError,
    JudgeError,
    NotFoundError,
    OutageError,
    RequestRejectedError,
    UsageError,
)
from nemo_evaluator.core.slots import lent_slot
from nemo_evaluator.core.types import JsonDict, Message, ModelResponse
from nemo_evaluator.models.budget import BudgetExhausted

if TYPE_CHECKING:
    from nemo_evaluator.config.scoring import RubricMetric
    from nemo_evaluator.models import Client

T = TypeVar("T")
# Failures that end the benchmark, whoever meets them.
STOPS: Final = (AuthError, NotFoundError, OutageError, BudgetExhausted, InterruptedRunError)
_MAX_TOKENS: Final = 2048
_PAUSE: Final = 0.5
_SHOWN: Final = 160
_AGAIN: Final = "Give your verdict again, in exactly the form you were asked for and with nothing around it."
# Clients whose server refused a JSON schema once: it is not offered again.
_plain_only: WeakSet[Client] = WeakSet()


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """How a judge is asked."""

    temperature: float = 0.0
    timeout: float = 120.0
    max_retries: int = 2

    @classmethod
    def of(cls, config: RubricMetric) -> Self:
        return cls(config.temperature, config.timeout, config.max_retries)


def client_of(clients: Mapping[str, Client], service: str) -> Client:
    """The client of a service that a metric names."""
    try:
        return clients[service]
    except KeyError:
        raise UsageError(f"no service is called {service!r}") from None


@dataclass(frozen=True, slots=True)
class Judged(Generic[T]):
    """What a judge said, as a value and as it came."""

    value: T
    answer: ModelResponse

    def describe(self) -> JsonDict:
        """What rows keep of the call."""
        facts: JsonDict = {
            "judge_model": self.answer.model,
            "judge_tokens": self.answer.total_tokens,
            "judge_latency_ms": self.answer.latency_ms,
        }
        return facts if self.answer.cost_usd is None else {**facts, "judge_cost_usd": self.answer.cost_usd}


async def ask_judge(
    client: Client,
    messages: list[Message],
    read: Callable[[str], T],
    *,
    settings: JudgeSettings,
    schema: JsonDict | None = None,
) -> Judged[T]:
    """Ask, read, and if need be ask once more for the agreed form. ``read`` raises JudgeError. A wrong key or model of
    the judge stops the benchmark like that of the solver; every other failure is a JudgeError."""
    answer = await _said(client, messages, settings, schema)
    try:
        return Judged(read(answer.content), answer)
    except JudgeError as error:
        again = f"Your reply could not be parsed: {error.message}. {_AGAIN}"
    said: Message = {"role": "assistant", "content": answer.content or "(no answer)"}
    answer = await _said(client, [*messages, said, {"role": "user", "content": again}], settings, schema)
    try:
        return Judged(read(answer.content), answer)
    except JudgeError as error:
        # The allowance of this judgement is used up: asking the same thing again would give the same again.
        raise JudgeError(
            f"could not parse the reply of judge {client.endpoint.name!r}, even after asking again: {error.message}; "
            f"it said {answer.content[:_SHOWN]!r}",
            attempts=settings.max_retries + 1,
        ) from error


async def _said(
    client: Client, messages: list[Message], settings: JudgeSettings, schema: JsonDict | None
) -> ModelResponse:
    tries = settings.max_retries + 1
    for number in range(tries):
        try:
            async with asyncio.timeout(None if client.endpoint.batch else settings.timeout):
                return await _structured(client, messages, settings, schema)
        except STOPS:
            raise
        except (BoundaryError, TimeoutError) as error:
            last: BoundaryError | TimeoutError = error
            if isinstance(error, RequestRejectedError) or (isinstance(error, BoundaryError) and error.final):
                break
        if number + 1 < tries:
            async with lent_slot():
                await asyncio.sleep(_PAUSE * 2**number)
    said = str(last) or f"no answer within {settings.timeout:g} s"
    raise JudgeError(f"judge {client.endpoint.name!r}: {said}", attempts=tries) from last


async def _structured(
    client: Client, messages: list[Message], settings: JudgeSettings, schema: JsonDict | None
) -> ModelResponse:
    generation: dict[str, Any] = {"temperature": settings.temperature}
    own = client.endpoint.generation
    if not {"max_tokens", "max_completion_tokens"} & own.keys():
        generation["max_tokens"] = _MAX_TOKENS
    if schema is None or client in _plain_only or client.endpoint.protocol != "chat_completions":
        return await client.chat(messages, generation=generation)
    form = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema, "strict": True}}
    try:
        return await client.chat(messages, generation={**generation, "response_format": form})
    except RequestRejectedError:
        answer = await client.chat(messages, generation=generation)
        # Only now is it known that the schema was what the server refused.
        _plain_only.add(client)
        return answer
