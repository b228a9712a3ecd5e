"""Asking a judge: structured output where the server takes it, one repair of an unparsable reply, then JudgeError. And
canaries: a right and a wrong answer that it must tell apart before it may judge, which catches one that says yes to
all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
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
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.slots import lent_slot
from nemo_evaluator.core.types import JsonDict, Message, ModelResponse
from nemo_evaluator.models.budget import BudgetExhausted
from nemo_evaluator.scoring.metric import Canary, MetricInput, MetricResult

if TYPE_CHECKING:
    from nemo_evaluator.config.scoring import RubricMetric
    from nemo_evaluator.models import Client

T = TypeVar("T")
# Failures that end the benchmark, whoever meets them.
STOPS: Final = (AuthError, NotFoundError, OutageError, BudgetExhausted, InterruptedRunError)
_MAX_TOKENS: Final = 2048
_PAUSE: Final = 0.5
_SHOWN: Final = 160
# Raised whenever the same judge could be asked or read otherwise than before.
_VERSION: Final = 2
_AGAIN: Final = (
    "Give your verdict again, in exactly the form you were asked for and with nothing around it."
)
_HINT: Final = (
    "use another judge or fix the rubric, then run again with --resume (finished answers are reused); for a rubric "
    "that rightly gives both the same grade, set canaries: false on the metric"
)
# Clients whose server refused a JSON schema once: it is not offered again.
_plain_only: WeakSet[Client] = WeakSet()


def client_of(clients: Mapping[str, Client], service: str) -> Client:
    """The client of a service that a metric names."""
    try:
        return clients[service]
    except KeyError:
        raise UsageError(f"no service is called {service!r}") from None


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge and how it is asked."""

    client: Client
    temperature: float
    timeout: float
    max_retries: int
    canaries: bool

    @classmethod
    def of(cls, config: RubricMetric, client: Client) -> Self:
        return cls(client, config.temperature, config.timeout, config.max_retries, config.canaries)

    def fingerprint(self, kind: str, rubric: JsonDict, *others: Client, **more: Any) -> str:
        """Identity of a judged metric: who judges, by what, and how."""
        services = [client.describe() for client in (self.client, *others)]
        return digest([_VERSION, kind, services, rubric, {"temperature": self.temperature}, more])

    async def ask(
        self, messages: list[Message], read: Callable[[str], T], schema: JsonDict | None = None
    ) -> tuple[T, JsonDict]:
        """What it says, read, and what rows keep of the call; if need be it is asked once more for the agreed form.
        ``read`` raises JudgeError. A wrong key or model of the judge stops the benchmark like that of the solver; every
        other failure is a JudgeError."""
        answer = await self._said(messages, schema)
        try:
            return read(answer.content), _kept(answer)
        except JudgeError as error:
            again = f"Your reply could not be parsed: {error.message}. {_AGAIN}"
        said: Message = {"role": "assistant", "content": answer.content or "(no answer)"}
        answer = await self._said([*messages, said, {"role": "user", "content": again}], schema)
        try:
            return read(answer.content), _kept(answer)
        except JudgeError as error:
            # The allowance of this judgement is used up: asking the same thing again would give the same again.
            raise JudgeError(
                f"could not parse the reply of judge {self.client.endpoint.name!r}, even after asking again: "
                f"{error.message}; it said {answer.content[:_SHOWN]!r}",
                attempts=self.max_retries + 1,
            ) from error

    async def check(
        self, canary: Canary | None, measure: Callable[[MetricInput], Awaitable[MetricResult]]
    ) -> JsonDict:
        """Judge both answers of a canary, where that is wanted. Raises JudgeError when it does not tell them apart."""
        if not self.canaries:
            return {"skipped": "canaries: false"}
        if canary is None:
            return {
                "skipped": "the benchmark has its own question for the judge and no reference answer"
            }
        right, wrong = [
            await measure(MetricInput(text, canary.seed)) for text in (canary.right, canary.wrong)
        ]
        if canary.sure:
            told = right.reward > 0.5 > wrong.reward
        else:
            told = right.reward != wrong.reward
        if not told:
            raise JudgeError(
                f"the judge {self.client.endpoint.name!r} cannot tell a right answer from a wrong one: it gave "
                f"{right.reward:.2g} to {canary.right[:80]!r} and {wrong.reward:.2g} to {canary.wrong[:80]!r}",
                hint=_HINT,
            )
        facts: JsonDict = {"right": right.reward, "wrong": wrong.reward}
        for key in ("judge_tokens", "judge_cost_usd"):
            spent = [one.details[key] for one in (right, wrong) if one.details.get(key) is not None]
            if spent:
                facts[key] = sum(spent)
        return facts

    async def _said(self, messages: list[Message], schema: JsonDict | None) -> ModelResponse:
        tries = self.max_retries + 1
        for number in range(tries):
            try:
                async with asyncio.timeout(None if self.client.endpoint.batch else self.timeout):
                    return await self._structured(messages, schema)
            except STOPS:
                raise
            except (BoundaryError, TimeoutError) as error:
                last: BoundaryError | TimeoutError = error
                if isinstance(error, RequestRejectedError) or (
                    isinstance(error, BoundaryError) and error.final
                ):
                    break
            if number + 1 < tries:
                async with lent_slot():
                    await asyncio.sleep(_PAUSE * 2**number)
        said = str(last) or f"no answer within {self.timeout:g} s"
        raise JudgeError(f"judge {self.client.endpoint.name!r}: {said}", attempts=tries) from last

    async def _structured(self, messages: list[Message], schema: JsonDict | None) -> ModelResponse:
        client = self.client
        generation = {"temperature": self.temperature}
        if not {"max_tokens", "max_completion_tokens"} & client.endpoint.generation.keys():
            generation["max_tokens"] = _MAX_TOKENS
        if (
            schema is None
            or client in _plain_only
            or client.endpoint.protocol != "chat_completions"
        ):
            return await client.chat(messages, generation=generation)
        form = {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "schema": schema, "strict": True},
        }
        try:
            return await client.chat(messages, generation={**generation, "response_format": form})
        except RequestRejectedError:
            answer = await client.chat(messages, generation=generation)
            # Only now is it known that the schema was what the server refused.
            _plain_only.add(client)
            return answer


def _kept(answer: ModelResponse) -> JsonDict:
    facts: JsonDict = {
        "judge_model": answer.model,
        "judge_tokens": answer.total_tokens,
        "judge_latency_ms": answer.latency_ms,
    }
    if answer.cost_usd is None:
        return facts
    return {**facts, "judge_cost_usd": answer.cost_usd}
