"""Token counts, whatever names a server gives them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from nemo_evaluator.core.json_coerce import as_count
from nemo_evaluator.core.types import JsonDict, ModelResponse


class Usage(NamedTuple):
    """The tokens of one call; None for counts that the server did not report."""

    prompt: int | None = None
    completion: int | None = None
    total: int | None = None
    reasoning: int | None = None
    cached: int | None = None
    audio: int | None = None


_NOTHING = Usage()


def usage_of(body: JsonDict) -> Usage:
    """The usage of an answer of any of the protocols."""
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return _NOTHING
    if len(usage) == 3 and type(total := usage.get("total_tokens")) is int:
        prompt = usage.get("prompt_tokens")
        completion = usage.get("completion_tokens")
        if (
            type(prompt) is int
            and type(completion) is int
            and 0 <= prompt <= total >= completion >= 0
            and total < 2**40
        ):
            # The usual three fields and nothing else: no further checks are needed.
            return Usage(prompt, completion, total)
    prompt = _first(usage, "prompt_tokens", "input_tokens", "inputTokens")
    completion = _first(
        usage, "completion_tokens", "output_tokens", "outputTokens", "content_tokens"
    )
    total = _first(usage, "total_tokens", "totalTokens")
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    outputs = usage.get("completion_tokens_details") or usage.get("output_tokens_details") or usage
    inputs = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or usage
    reasoning = _first(outputs, "reasoning_tokens")
    cached = _first(inputs, "cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
    audio = _first(outputs, "audio_tokens")
    return Usage(prompt, completion, total, reasoning=reasoning, cached=cached, audio=audio)


def together(replies: Sequence[ModelResponse]) -> ModelResponse:
    """All calls of an agent combined: the last answer, with the tokens, the cost and the time of all."""
    combined = replace(replies[-1], request_body=None)
    combined.prompt_tokens = _sum(reply.prompt_tokens for reply in replies)
    combined.completion_tokens = _sum(reply.completion_tokens for reply in replies)
    combined.total_tokens = _sum(reply.total_tokens for reply in replies)
    combined.reasoning_tokens = _sum(reply.reasoning_tokens for reply in replies)
    combined.cached_tokens = _sum(reply.cached_tokens for reply in replies)
    combined.cost_usd = _sum(reply.cost_usd for reply in replies)
    combined.latency_ms = round(sum(reply.latency_ms for reply in replies), 2)
    combined.queue_ms = round(sum(reply.queue_ms for reply in replies), 2)
    return combined


N = TypeVar("N", int, float)


def _sum(values: Iterable[N | None]) -> N | None:
    """Return the sum of the values that are not None; None if there are none."""
    known_values = [value for value in values if value is not None]
    if not known_values:
        return None
    return sum(known_values)


def _first(values: Any, *names: str) -> int | None:
    """Return the first of some fields that contains a count."""
    if not isinstance(values, dict):
        return None
    for name in names:
        count = as_count(values.get(name))
        if count is not None:
            return count
    return None
