"""Chat requests as requests of Anthropic's Messages API, and its messages as chat answers.

Only for single questions: tools would need more than one request.
"""

from __future__ import annotations

from typing import Any, Final

from nemo_evaluator.core.errors import RequestRejectedError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.completions import text_of

# Fields that both protocols have.
_SAME: Final = ("model", "temperature", "top_p", "top_k", "thinking", "metadata", "service_tier")
_KNOWN: Final = {*_SAME, "messages", "max_tokens", "max_completion_tokens", "stop"}
_SYSTEM_ROLES: Final = ("system", "developer")
_FINISH_REASONS: Final = {
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def to_messages(body: JsonDict) -> JsonDict:
    """A chat request as a Messages request.

    Raises:
        RequestRejectedError: A field has no equivalent there, or ``max_tokens`` is missing.
    """
    chat = {key: value for key, value in body.items() if value is not None}
    unknown = sorted(chat.keys() - _KNOWN)
    if unknown:
        text = f"Anthropic's batches do not know {unknown[0]!r}"
        raise RequestRejectedError(text, hint="remove it from generation")
    max_tokens = chat.get("max_tokens") or chat.get("max_completion_tokens")
    if max_tokens is None:
        hint = "set generation.max_tokens on the service or the solver"
        raise RequestRejectedError("Anthropic needs max_tokens", hint=hint)
    request: JsonDict = {key: chat[key] for key in _SAME if key in chat}
    request["max_tokens"] = max_tokens
    stop = chat.get("stop")
    if stop:
        request["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    system_texts: list[str] = []
    messages: list[JsonDict] = []
    for message in body["messages"]:
        if message["role"] in _SYSTEM_ROLES:
            system_texts.append(text_of(message.get("content")))
        else:
            content = _content(message.get("content"))
            messages.append({"role": message["role"], "content": content})
    if system_texts:
        request["system"] = "\n\n".join(system_texts)
    request["messages"] = messages
    return request


def chat_of_message(body: JsonDict) -> JsonDict:
    """A message as a chat answer."""
    blocks = [block for block in body.get("content") or () if isinstance(block, dict)]
    text = "".join(block.get("text", "") for block in blocks)
    message: JsonDict = {"role": "assistant", "content": text}
    reasoning = "".join(block.get("thinking", "") for block in blocks)
    if reasoning:
        message["reasoning_content"] = reasoning
    finish_reason = _FINISH_REASONS.get(str(body.get("stop_reason")), "stop")
    return {
        "id": body.get("id", ""),
        "object": "chat.completion",
        "model": body.get("model", ""),
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": _usage(body.get("usage") or {}),
    }


def _usage(usage: JsonDict) -> JsonDict:
    """The token counts of a message in the form of chat; there, cached tokens are part of the prompt."""
    counts: dict[str, int] = {}
    for key, value in usage.items():
        if isinstance(value, int):
            counts[key] = value
    cached = counts.get("cache_read_input_tokens", 0)
    newly_cached = counts.get("cache_creation_input_tokens", 0)
    prompt = counts.get("input_tokens", 0) + cached + newly_cached
    completion = counts.get("output_tokens", 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
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
    media_type, _, data = url.removeprefix("data:").partition(";base64,")
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}
