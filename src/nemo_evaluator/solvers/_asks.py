"""The answer to a problem that consists of several requests: their results as a JSON list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import Ask, JsonDict, ModelResponse, SolveResult
from nemo_evaluator.models import Client

# As many stop strings as chat endpoints take; the text is cut at the others here.
_STOPS: Final = 4
_SUMMED: Final = ("prompt_tokens", "completion_tokens", "total_tokens", "reasoning_tokens", "cached_tokens", "cost_usd")


async def ask_all(client: Client, asks: Sequence[Ask], generation: JsonDict | None) -> SolveResult:
    """Send all requests at once. A text alone is the response as it stands."""
    tasks = [asyncio.ensure_future(_one(client, ask, generation)) for ask in asks]
    try:
        replies = await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    if len(asks) == 1 and asks[0].weigh_from is None:
        return SolveResult(replies[0].content, replies[0])
    results = [
        reply.content if ask.weigh_from is None else json.loads(reply.content)
        for ask, reply in zip(asks, replies, strict=True)
    ]
    response = dumps(results).decode()
    return SolveResult(response, _whole(response, replies))


async def _one(client: Client, ask: Ask, generation: JsonDict | None) -> ModelResponse:
    if ask.weigh_from is not None:
        return await client.weigh(ask.prompt, ask.weigh_from)
    settings = ask.generation | (generation or {})
    stops: list[str] = settings.get("stop") or []
    if client.endpoint.protocol != "completions" and len(stops) > _STOPS:
        settings["stop"] = stops[:_STOPS]
    reply = await client.complete(str(ask.prompt), generation=settings)
    ends = [at for stop in stops if stop and (at := reply.content.find(stop)) >= 0]
    if ends:
        reply.content = reply.content[: min(ends)]
    return reply


def _whole(response: str, replies: Sequence[ModelResponse]) -> ModelResponse:
    def summed(name: str) -> float | int | None:
        values = [value for reply in replies if (value := getattr(reply, name)) is not None]
        return sum(values) if values else None

    return replace(
        replies[0],
        content=response,
        raw_response={},
        finish_reason=next((one.finish_reason for one in replies if one.finish_reason == "length"), "stop"),
        attempts=max(reply.attempts for reply in replies),
        latency_ms=max(reply.latency_ms for reply in replies),
        queue_ms=max(reply.queue_ms for reply in replies),
        from_cache=all(reply.from_cache for reply in replies),
        **{name: summed(name) for name in _SUMMED},  # type: ignore[arg-type]
    )
