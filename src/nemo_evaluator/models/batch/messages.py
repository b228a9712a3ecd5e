"""Chat requests as requests of Anthropic's Messages API, and its messages as chat answers.

Only what a single question needs: tools would take more than one request.
"""

from __future__ import annotations

from typing import Any, Final

from nemo_evaluator.core.errors import RequestRejectedError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.completions import text_of

_SAME: Final = ("model", "temperature", "top_p", "top_k", "thinking", "metadata", "service_tier")
_KNOWN: Final = {*_SAME, "messages", "max_tokens", "max_completion_tokens", "stop"}
_SYSTEM: Final = ("system", "developer")
_STOPS: Final = {"max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}


def to_messages(body: JsonDict) -> JsonDict:
    """The request; raises RequestRejectedError for what the Messages API has no word for."""
    given = {key: value for key, value in body.items() if value is not None}
    unknown = sorted(given.keys() - _KNOWN)
    if unknown:
        raise RequestRejectedError(
            f"Anthropic's batches do not know {unknown[0]!r}", hint="remove it from generation"
        )
    most = given.get("max_tokens") or given.get("max_completion_tokens")
    if most is None:
        hint = "set generation.max_tokens on the service or the solver"
        raise RequestRejectedError("Anthropic needs max_tokens", hint=hint)
    made: JsonDict = {key: given[key] for key in _SAME if key in given} | {"max_tokens": most}
    stop = given.get("stop")
    if stop:
        if isinstance(stop, str):
            made["stop_sequences"] = [stop]
        else:
            made["stop_sequences"] = stop
    system = [text_of(one.get("content")) for one in body["messages"] if one["role"] in _SYSTEM]
    if system:
        made["system"] = "\n\n".join(system)
    said = [one for one in body["messages"] if one["role"] not in _SYSTEM]
    made["messages"] = [
        {"role": one["role"], "content": _content(one.get("content"))} for one in said
    ]
    return made


def chat_of_message(body: JsonDict) -> JsonDict:
    """The answer."""
    blocks = [block for block in body.get("content") or () if isinstance(block, dict)]
    message: JsonDict = {
        "role": "assistant",
        "content": "".join(one.get("text", "") for one in blocks),
    }
    thought = "".join(one.get("thinking", "") for one in blocks)
    if thought:
        message["reasoning_content"] = thought
    ended = _STOPS.get(str(body.get("stop_reason")), "stop")
    usage: dict[Any, int] = {}
    for key, value in (body.get("usage") or {}).items():
        if isinstance(value, int):
            usage[key] = value
    cached = usage.get("cache_read_input_tokens", 0)
    completion = usage.get("output_tokens", 0)
    prompt = usage.get("input_tokens", 0) + cached + usage.get("cache_creation_input_tokens", 0)
    tokens = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    return {
        "id": body.get("id", ""),
        "object": "chat.completion",
        "model": body.get("model", ""),
        "choices": [{"index": 0, "message": message, "finish_reason": ended}],
        "usage": tokens | {"prompt_tokens_details": {"cached_tokens": cached}},
    }


def _content(content: Any) -> Any:
    if isinstance(content, list):
        return [_part(part) for part in content]
    return content or ""


def _part(part: JsonDict) -> JsonDict:
    if part.get("type") != "image_url":
        return part
    url = part["image_url"]["url"]
    if not url.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
