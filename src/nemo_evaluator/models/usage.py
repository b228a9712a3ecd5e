"""Token counts, whatever a server calls them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from nemo_evaluator.core.json_coerce import as_count
from nemo_evaluator.core.types import JsonDict, ModelResponse


class Usage(NamedTuple):
    """Tokens of one call; None where the server did not say."""

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
        asked = usage.get("prompt_tokens")
        said = usage.get("completion_tokens")
        if (
            type(asked) is int
            and type(said) is int
            and 0 <= asked <= total >= said >= 0
            and total < 2**40
        ):
            # The usual three fields and nothing else: the short way.
            return Usage(asked, said, total)
    prompt = _first(usage, "prompt_tokens", "input_tokens", "inputTokens")
    completion = _first(
        usage, "completion_tokens", "output_tokens", "outputTokens", "content_tokens"
    )
    total = _first(usage, "total_tokens", "totalTokens")
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    out = usage.get("completion_tokens_details") or usage.get("output_tokens_details") or usage
    given = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or usage
    reasoning = _first(out, "reasoning_tokens")
    cached = _first(given, "cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
    audio = _first(out, "audio_tokens")
    return Usage(prompt, completion, total, reasoning=reasoning, cached=cached, audio=audio)


def together(replies: Sequence[ModelResponse]) -> ModelResponse:
    """All calls of an agent as one: the last answer, with what all of them took."""
    whole = replace(replies[-1], request_body=None)
    for name in (
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "reasoning_tokens",
        "cached_tokens",
        "cost_usd",
    ):
        known = [value for reply in replies if (value := getattr(reply, name)) is not None]
        setattr(whole, name, sum(known) if known else None)
    whole.latency_ms = round(sum(reply.latency_ms for reply in replies), 2)
    whole.queue_ms = round(sum(reply.queue_ms for reply in replies), 2)
    return whole


def _first(values: Any, *names: str) -> int | None:
    """The first of some fields that holds a count; anything else is as good as missing."""
    if not isinstance(values, dict):
        return None
    return next(
        (count for name in names if (count := as_count(values.get(name))) is not None), None
    )
