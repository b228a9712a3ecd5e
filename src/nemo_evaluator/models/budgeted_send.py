"""One call within budgets: reserved before, settled after, also when its answer is a stream."""

from collections.abc import AsyncIterator
from time import monotonic
from typing import Final

from nemo_evaluator.core.errors import BoundaryError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.budget import Budget, BudgetExhausted, Cost
from nemo_evaluator.models.cost import price_of, tokens_cost
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.http.sse import EventParser
from nemo_evaluator.models.types import ModelReply, ModelRequest, Send, Stream
from nemo_evaluator.models.usage import usage_of

_BYTES_PER_TOKEN: Final = 4
# Of an answer whose length nobody limits.
_ANSWER_TOKENS: Final = 1024


async def spend(
    request: ModelRequest, send: Send, endpoint: Endpoint, share: float | None = None
) -> ModelReply:
    """Send a request within the budgets of its scope.

    Many requests of a batch (``share`` is what is paid of the price there) are under way before the first has a
    cost: what each of them may cost is told beforehand, from its length and its ``max_tokens``.
    """
    if request.scope is None or not request.scope.budgets:
        return await send(request)
    asked_at = monotonic()
    guess = _guess(request, endpoint, share) if share is not None else None
    held = await _reserve(request.scope.budgets, endpoint, guess)
    queued = (monotonic() - asked_at) * 1000.0
    try:
        reply = await send(request)
    except BoundaryError as error:
        _settle(held, requests=error.attempts)
        raise
    except BaseException:
        _settle(held, requests=1)
        raise
    reply.queue_ms += queued
    if reply.stream is not None:
        reply.stream = _until_spent(reply.stream, reply, held, endpoint=endpoint, request=request)
    else:
        _settle_reply(reply, held, endpoint, request=request)
    return reply


_Held = list[tuple[Budget, Cost]]


def _guess(request: ModelRequest, endpoint: Endpoint, share: float) -> Cost:
    body = request.body
    price = price_of(endpoint)
    prompt = len(dumps(body)) // _BYTES_PER_TOKEN
    answer = int(body.get("max_tokens") or body.get("max_completion_tokens") or _ANSWER_TOKENS)
    return share * (tokens_cost(price, prompt, answer) or 0.0 if price is not None else 0.0), float(
        prompt + answer
    )


async def _reserve(
    budgets: tuple[Budget, ...], endpoint: Endpoint, guess: Cost | None = None
) -> _Held:
    held: _Held = []
    try:
        for budget in budgets:
            if budget.usd is not None and price_of(endpoint) is None:
                # It ends the run at once, before anything is spent: a limit that nobody can watch is no limit.
                raise BudgetExhausted(
                    f"a budget in USD needs the price of service {endpoint.name!r}",
                    hint="add price: {input: ..., output: ...} (USD per million tokens) to the service",
                )
            held.append((budget, await budget.reserve(guess)))
    except BaseException:
        _settle(held)
        raise
    return held


def _settle(held: _Held, *, usd: float = 0.0, tokens: int = 0, requests: int = 0) -> None:
    for budget, cost in held:
        budget.settle(cost, usd=usd, tokens=tokens, requests=requests)


def _settle_reply(
    reply: ModelReply, held: _Held, endpoint: Endpoint, request: ModelRequest
) -> None:
    if not reply.ok:
        _settle(held, requests=reply.attempts)
        return
    usage = usage_of(reply.body)
    prompt = usage.prompt
    completion = usage.completion
    if prompt is None and completion is None:
        # A server that does not count: four bytes to a token, so that a budget still holds.
        prompt = len(dumps(request.body)) // _BYTES_PER_TOKEN
        completion = len(dumps(reply.body)) // _BYTES_PER_TOKEN
    price = price_of(endpoint)
    usd = tokens_cost(price, prompt, completion, cached=usage.cached) if price is not None else None
    _settle(
        held,
        usd=(usd or 0.0) * reply.price_share,
        tokens=(prompt or 0) + (completion or 0),
        requests=reply.attempts,
    )


def _until_spent(
    stream: Stream, reply: ModelReply, held: _Held, endpoint: Endpoint, request: ModelRequest
) -> Stream:
    """The stream; what it cost is settled when it ends, however it ends."""
    seen: list[JsonDict] = [{}]

    async def watched() -> AsyncIterator[bytes]:
        parser = EventParser()
        async for data in stream:
            for event in parser.feed(data):
                inner = event.get("response")
                said = event if event.get("usage") else inner if isinstance(inner, dict) else None
                if said is not None and said.get("usage"):
                    seen[0] = said
            yield data

    def settle(error: BaseException | None) -> None:
        _settle_reply(
            ModelReply(reply.status, seen[0], attempts=reply.attempts),
            held,
            endpoint,
            request=request,
        )

    return Stream(watched(), settle, closes=stream)
