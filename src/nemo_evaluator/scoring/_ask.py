"""Requests to a judge: structured output if the server supports it, one repair of an unparsable reply, then JudgeError.

And canaries: a right and a wrong answer that the judge must tell apart before it may judge, which catches a judge that
accepts everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar
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
    from nemo_evaluator.store.journal_record import CanaryFields

T = TypeVar("T")
# Failures that end the benchmark, in the solver as in a judge.
STOPS: Final = (AuthError, NotFoundError, OutageError, BudgetExhausted, InterruptedRunError)
_MAX_TOKENS: Final = 2048
_PAUSE: Final = 0.5
_SHOWN: Final = 160
# What two gradings of a judge can cost, as keys of their details.
_COSTS: Final[tuple[Literal["judge_tokens", "judge_cost_usd"], ...]] = (
    "judge_tokens",
    "judge_cost_usd",
)
# Raised whenever a request to the same judge, or the parsing of its reply, could change.
_VERSION: Final = 2
_AGAIN: Final = (
    "Give your verdict again, in exactly the form you were asked for and with nothing around it."
)
_HINT: Final = (
    "use another judge or fix the rubric, then run again with --resume (finished answers are reused); for a rubric "
    "that rightly gives both the same grade, set canaries: false on the metric"
)
# Clients whose server refused a JSON schema once: it is not sent again.
_plain_only: WeakSet[Client] = WeakSet()


def client_of(clients: Mapping[str, Client], service: str) -> Client:
    """Return the client of a service that a metric refers to."""
    try:
        return clients[service]
    except KeyError:
        raise UsageError(f"no service is called {service!r}") from None


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge and the settings of its requests.

    Attributes:
        client: The client of its service.
        temperature: The temperature of every request.
        timeout: Seconds for one request.
        max_retries: Attempts after the first one.
        canaries: Whether the canaries are judged first.
    """

    client: Client
    temperature: float
    timeout: float
    max_retries: int
    canaries: bool

    @classmethod
    def of(cls, config: RubricMetric, client: Client) -> Self:
        """The judge that a metric's settings describe."""
        return cls(
            client,
            config.temperature,
            config.timeout,
            max_retries=config.max_retries,
            canaries=config.canaries,
        )

    def fingerprint(self, kind: str, rubric: JsonDict, *others: Client, **more: Any) -> str:
        """Identity of a judged metric: its services, its rubric and its settings."""
        services = [client.describe() for client in (self.client, *others)]
        return digest([_VERSION, kind, services, rubric, {"temperature": self.temperature}, more])

    async def ask(
        self, messages: list[Message], read: Callable[[str], T], schema: JsonDict | None = None
    ) -> tuple[T, JsonDict]:
        """Send a request to the judge, and a second one if the first reply cannot be parsed.

        Args:
            messages: The request.
            read: Parses a reply; raises JudgeError.
            schema: The JSON schema of the reply.

        Returns:
            The parsed reply, and the facts about the request that a row keeps.

        Raises:
            JudgeError: If no reply can be parsed, or no request succeeds. A wrong key or model of the judge raises the
                errors of ``STOPS``, as it does for the solver.
        """
        reply = await self._reply(messages, schema)
        try:
            return read(reply.content), _request_facts(reply)
        except JudgeError as error:
            repair = f"Your reply could not be parsed: {error.message}. {_AGAIN}"
        first_turn: Message = {"role": "assistant", "content": reply.content or "(no answer)"}
        second_turn: Message = {"role": "user", "content": repair}
        reply = await self._reply([*messages, first_turn, second_turn], schema)
        try:
            return read(reply.content), _request_facts(reply)
        except JudgeError as error:
            # A further request of the same text would bring the same reply.
            raise JudgeError(
                f"could not parse the reply of judge {self.client.endpoint.name!r}, even after asking again: "
                f"{error.message}; it said {reply.content[:_SHOWN]!r}",
                attempts=self.max_retries + 1,
            ) from error

    async def check(
        self, canary: Canary | None, measure: Callable[[MetricInput], Awaitable[MetricResult]]
    ) -> CanaryFields:
        """Judge both answers of a canary.

        Args:
            canary: The canary; None if the benchmark allows none.
            measure: Judges one answer.

        Returns:
            Both rewards and their cost, or why the canaries were skipped.

        Raises:
            JudgeError: If the judge does not tell them apart.
        """
        if not self.canaries:
            return {"skipped": "canaries: false"}
        if canary is None:
            return {
                "skipped": "the benchmark has its own question for the judge and no reference answer"
            }
        right = await measure(MetricInput(canary.right, canary.seed))
        wrong = await measure(MetricInput(canary.wrong, canary.seed))
        if canary.sure:
            distinguishes = right.reward > 0.5 > wrong.reward
        else:
            distinguishes = right.reward != wrong.reward
        if not distinguishes:
            raise JudgeError(
                f"the judge {self.client.endpoint.name!r} cannot tell a right answer from a wrong one: it gave "
                f"{right.reward:.2g} to {canary.right[:80]!r} and {wrong.reward:.2g} to {canary.wrong[:80]!r}",
                hint=_HINT,
            )
        facts: CanaryFields = {"right": right.reward, "wrong": wrong.reward}
        for key in _COSTS:
            costs = [result.details.get(key) for result in (right, wrong)]
            known_costs = [cost for cost in costs if cost is not None]
            if known_costs:
                facts[key] = sum(known_costs)
        return facts

    async def _reply(self, messages: list[Message], schema: JsonDict | None) -> ModelResponse:
        """Request the judge's reply, with retries. Raises JudgeError after the last one."""
        tries = self.max_retries + 1
        for number in range(tries):
            try:
                async with asyncio.timeout(None if self.client.endpoint.batch else self.timeout):
                    return await self._structured(messages, schema)
            except STOPS:
                raise
            except (BoundaryError, TimeoutError) as error:
                last_error: BoundaryError | TimeoutError = error
                is_final = isinstance(error, BoundaryError) and error.final
                if is_final or isinstance(error, RequestRejectedError):
                    break
            if number + 1 < tries:
                async with lent_slot():
                    await asyncio.sleep(_PAUSE * 2**number)
        reason = str(last_error) or f"no answer within {self.timeout:g} s"
        raise JudgeError(
            f"judge {self.client.endpoint.name!r}: {reason}", attempts=tries
        ) from last_error

    async def _structured(self, messages: list[Message], schema: JsonDict | None) -> ModelResponse:
        """Send one request, with the schema unless the server is known to refuse it."""
        client = self.client
        generation = {"temperature": self.temperature}
        if not {"max_tokens", "max_completion_tokens"} & client.endpoint.generation.keys():
            generation["max_tokens"] = _MAX_TOKENS
        takes_schema = client.endpoint.protocol == "chat_completions" and client not in _plain_only
        if schema is None or not takes_schema:
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


def _request_facts(reply: ModelResponse) -> JsonDict:
    """Return the facts about a request that a row stores."""
    facts: JsonDict = {
        "judge_model": reply.model,
        "judge_tokens": reply.total_tokens,
        "judge_latency_ms": reply.latency_ms,
    }
    if reply.cost_usd is not None:
        facts["judge_cost_usd"] = reply.cost_usd
    return facts
