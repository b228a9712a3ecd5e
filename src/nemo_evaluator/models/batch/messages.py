"""Chat requests as requests of Anthropic's Messages API, and its messages as chat answers."""

from __future__ import annotations

from typing import Any, Final

import orjson

from nemo_evaluator.core.errors import RequestRejectedError
from nemo_evaluator.core.types import JsonDict, Message
from nemo_evaluator.models.chat import parse_arguments
from nemo_evaluator.models.completions import text_of

_SAME: Final = ("model", "max_tokens", "temperature", "top_p", "top_k", "thinking", "metadata", "service_tier")
_KNOWN: Final = {*_SAME, "messages", "max_completion_tokens", "stop", "tools", "tool_choice"}
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}
_STOPS: Final = {"max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}


def to_messages(body: JsonDict) -> JsonDict:
    """The request; raises RequestRejectedError for what the Messages API has no word for."""
    unknown = sorted(key for key, value in body.items() if value is not None and key not in _KNOWN)
    if unknown:
        raise RequestRejectedError(f"Anthropic's batches do not know {unknown[0]!r}", hint="remove it from generation")
    made: JsonDict = {key: body[key] for key in _SAME if body.get(key) is not None}
    if (most := body.get("max_tokens") or body.get("max_completion_tokens")) is None:
        raise RequestRejectedError(
            "Anthropic needs max_tokens", hint="set generation.max_tokens on the service or the solver"
        )
    made["max_tokens"] = most
    if stop := body.get("stop"):
        made["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if tools := body.get("tools"):
        made["tools"] = [_tool(tool["function"]) for tool in tools]
    if choice := body.get("tool_choice"):
        named = {"type": "tool", "name": choice["function"]["name"]} if isinstance(choice, dict) else None
        made["tool_choice"] = named or {"type": _CHOICES.get(choice, choice)}
    said = [message for message in body["messages"] if message["role"] not in ("system", "developer")]
    if system := [text_of(one.get("content")) for one in body["messages"] if one["role"] in ("system", "developer")]:
        made["system"] = "\n\n".join(system)
    return made | {"messages": [_message(message) for message in said]}


def chat_of_message(body: JsonDict) -> JsonDict:
    """The answer."""
    blocks = [block for block in body.get("content") or () if isinstance(block, dict)]
    message: JsonDict = {"role": "assistant", "content": "".join(one.get("text", "") for one in blocks)}
    if thought := "".join(one.get("thinking", "") for one in blocks):
        message["reasoning_content"] = thought
    if used := [one for one in blocks if one.get("type") == "tool_use"]:
        message["tool_calls"] = [
            {"id": one["id"], "type": "function", "function": {"name": one["name"], "arguments": _text(one["input"])}}
            for one in used
        ]
    ended = _STOPS.get(str(body.get("stop_reason")), "stop")
    usage = body.get("usage") or {}
    cached = usage.get("cache_read_input_tokens") or 0
    prompt = (usage.get("input_tokens") or 0) + cached + (usage.get("cache_creation_input_tokens") or 0)
    completion = usage.get("output_tokens") or 0
    return {
        "id": body.get("id", ""),
        "object": "chat.completion",
        "model": body.get("model", ""),
        "choices": [{"index": 0, "message": message, "finish_reason": ended}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


def _message(message: Message) -> JsonDict:
    content = message.get("content")
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": text_of(content)}
        return {"role": "user", "content": [result]}
    if isinstance(content, str) and not message.get("tool_calls"):
        return {"role": message["role"], "content": content}
    parts = [_part(part) for part in content] if isinstance(content, list) else []
    parts += [{"type": "text", "text": content}] if isinstance(content, str) and content else []
    for call in message.get("tool_calls") or ():
        given = parse_arguments(call["function"].get("arguments"))
        parts.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": given})
    return {"role": message["role"], "content": parts}


def _part(part: JsonDict) -> JsonDict:
    if part.get("type") != "image_url":
        return part
    url = part["image_url"]["url"]
    if not url.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def _tool(function: JsonDict) -> JsonDict:
    made = {"name": function["name"], "input_schema": function.get("parameters") or {"type": "object"}}
    return made | ({"description": function["description"]} if function.get("description") else {})


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()
