"""The answer to a problem that consists of several requests: their results as a JSON list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Final

from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import JsonDict, ModelResponse, PromptRequest, SolveResult
from nemo_evaluator.models import Client
from nemo_evaluator.models.usage import together

# As many stop strings as chat endpoints take; the text is cut at the others here.
_STOPS: Final = 4


async def send_all(client: Client, requests: Sequence[PromptRequest], generation: JsonDict | None) -> SolveResult:
    """Send all requests at once. A text alone is the response as it stands."""
    if len(requests) == 1 and requests[0].scored_from is None:
        reply = await _send(client, requests[0], generation)
        return SolveResult(reply.content, reply)
    tasks = [asyncio.ensure_future(_send(client, request, generation)) for request in requests]
    try:
        replies = await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    results = [
        reply.content if request.scored_from is None else json.loads(reply.content)
        for request, reply in zip(requests, replies, strict=True)
    ]
    response = dumps(results).decode()
    return SolveResult(response, _whole(response, replies))


async def _send(client: Client, request: PromptRequest, generation: JsonDict | None) -> ModelResponse:
    if request.scored_from is not None:
        return await client.loglikelihood(request.prompt, request.scored_from)
    settings = request.generation | (generation or {})
    stops: list[str] = settings.get("stop") or []
    if client.endpoint.protocol != "completions" and len(stops) > _STOPS:
        settings["stop"] = stops[:_STOPS]
    reply = await client.complete(str(request.prompt), generation=settings)
    ends = [at for stop in stops if stop and (at := reply.content.find(stop)) >= 0]
    if ends:
        reply.content = reply.content[: min(ends)]
    return reply


def _whole(response: str, replies: Sequence[ModelResponse]) -> ModelResponse:
    """All replies as one. They were asked for side by side, so the slowest is how long it took."""
    whole = together(replies)
    whole.content, whole.raw_response = response, {}
    whole.finish_reason = "length" if any(reply.finish_reason == "length" for reply in replies) else "stop"
    whole.attempts = max(reply.attempts for reply in replies)
    whole.latency_ms = max(reply.latency_ms for reply in replies)
    whole.queue_ms = max(reply.queue_ms for reply in replies)
    whole.from_cache = all(reply.from_cache for reply in replies)
    return whole
