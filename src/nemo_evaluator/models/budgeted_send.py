"""One call within budgets: reserved before, settled after, also when its answer is a stream."""

from collections.abc import AsyncIterator
from time import monotonic
from typing import Final, TypeAlias

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
# The guess for an answer without max_tokens.
_ANSWER_TOKENS: Final = 1024


async def spend(
    request: ModelRequest, send: Send, endpoint: Endpoint, share: float | None = None
) -> ModelReply:
    """Send a request within the budgets of its scope.

    Args:
        request: The request.
        send: What sends it.
        endpoint: The endpoint, for its price.
        share: The share of the price that a request in a batch costs; None for single requests. Many requests of a
            batch are under way before the first cost is known, so the cost of each is guessed from its length and
            its ``max_tokens``.

    Returns:
        The reply. If it is a stream, its cost is settled when the stream ends.

    Raises:
        BoundaryError: A budget is used up, or ``send`` raised.
    """
    if request.scope is None or not request.scope.budgets:
        return await send(request)
    started_at = monotonic()
    guess = _guess(request, endpoint, share) if share is not None else None
    reservations = await _reserve(request.scope.budgets, endpoint, guess)
    queued = (monotonic() - started_at) * 1000.0
    try:
        reply = await send(request)
    except BoundaryError as error:
        _settle(reservations, requests=error.attempts)
        raise
    except BaseException:
        _settle(reservations, requests=1)
        raise
    reply.queue_ms += queued
    if reply.stream is not None:
        reply.stream = _until_spent(
            reply.stream, reply, reservations, endpoint=endpoint, request=request
        )
    else:
        _settle_reply(reply, reservations, endpoint, request=request)
    return reply


_Reservations: TypeAlias = list[tuple[Budget, Cost]]


def _guess(request: ModelRequest, endpoint: Endpoint, share: float) -> Cost:
    """The most that a request probably costs."""
    body = request.body
    prompt = len(dumps(body)) // _BYTES_PER_TOKEN
    answer = int(body.get("max_tokens") or body.get("max_completion_tokens") or _ANSWER_TOKENS)
    price = price_of(endpoint)
    usd = 0.0
    if price is not None:
        usd = share * (tokens_cost(price, prompt, answer) or 0.0)
    return usd, float(prompt + answer)


async def _reserve(
    budgets: tuple[Budget, ...], endpoint: Endpoint, guess: Cost | None = None
) -> _Reservations:
    """Reserve the estimated cost of a request in every budget.

    Raises:
        BudgetExhausted: A budget is used up, or one in USD has no price to check it by.
    """
    reservations: _Reservations = []
    try:
        for budget in budgets:
            if budget.usd is not None and price_of(endpoint) is None:
                # Without a price the limit could not be checked, so the run stops before it spends anything.
                raise BudgetExhausted(
                    f"a budget in USD needs the price of service {endpoint.name!r}",
                    hint="add price: {input: ..., output: ...} (USD per million tokens) to the service",
                )
            cost = await budget.reserve(guess)
            reservations.append((budget, cost))
    except BaseException:
        _settle(reservations)
        raise
    return reservations


def _settle(
    reservations: _Reservations, *, usd: float = 0.0, tokens: int = 0, requests: int = 0
) -> None:
    for budget, cost in reservations:
        budget.settle(cost, usd=usd, tokens=tokens, requests=requests)


def _settle_reply(
    reply: ModelReply, reservations: _Reservations, endpoint: Endpoint, request: ModelRequest
) -> None:
    """Replace the reservations by the cost of a reply; tokens that the server does not report are estimated."""
    if not reply.ok:
        _settle(reservations, requests=reply.attempts)
        return
    usage = usage_of(reply.body)
    prompt = usage.prompt
    completion = usage.completion
    if prompt is None and completion is None:
        # The server does not report tokens: they are estimated, so that the budget still works.
        prompt = len(dumps(request.body)) // _BYTES_PER_TOKEN
        completion = len(dumps(reply.body)) // _BYTES_PER_TOKEN
    price = price_of(endpoint)
    usd = tokens_cost(price, prompt, completion, cached=usage.cached) if price is not None else None
    _settle(
        reservations,
        usd=(usd or 0.0) * reply.price_share * reply.payments,
        tokens=((prompt or 0) + (completion or 0)) * reply.payments,
        requests=reply.attempts,
    )


def _until_spent(
    stream: Stream,
    reply: ModelReply,
    reservations: _Reservations,
    endpoint: Endpoint,
    request: ModelRequest,
) -> Stream:
    """A stream whose cost is settled when it ends, however it ends."""
    # The last event with a usage.
    usage_event: JsonDict = {}

    async def watched() -> AsyncIterator[bytes]:
        nonlocal usage_event
        parser = EventParser()
        async for data in stream:
            for event in parser.feed(data):
                # The Responses API reports the usage inside of the response.
                response = event.get("response")
                if event.get("usage"):
                    usage_event = event
                elif isinstance(response, dict) and response.get("usage"):
                    usage_event = response
            yield data

    def settle(error: BaseException | None) -> None:
        whole_reply = ModelReply(reply.status, usage_event, attempts=reply.attempts)
        _settle_reply(whole_reply, reservations, endpoint, request=request)

    return Stream(watched(), settle, closes=stream)
