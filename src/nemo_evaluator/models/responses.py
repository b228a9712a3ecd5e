"""The Responses protocol: chat requests written as Responses requests, and answers read."""

from collections.abc import Iterable
from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_count, as_dict, as_list, as_word
from nemo_evaluator.core.types import JsonDict, Message, ModelResponse
from nemo_evaluator.models.chat import answered, call_of, parse_tool_call
from nemo_evaluator.models.completions import text_of

_RENAMED: Final = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}


def to_responses(chat: JsonDict) -> JsonDict:
    """A chat-completions body as a Responses body; fields that both know, or that only a server may know, stay."""
    body: JsonDict = {}
    for key, value in chat.items():
        if key == "messages":
            body["input"] = [item for message in value for item in _items(message)]
        elif key == "tools":
            body["tools"] = [_tool(tool) for tool in value]
        elif key == "tool_choice" and isinstance(value, dict):
            body["tool_choice"] = {
                "type": "function",
                "name": (value.get("function") or {}).get("name"),
            }
        elif key == "response_format":
            body["text"] = {"format": _format(value)}
        elif key == "reasoning_effort":
            body["reasoning"] = {"effort": value}
        elif key != "stream_options":
            body[_RENAMED.get(key, key)] = value
    return body


def _items(message: Message) -> Iterable[JsonDict]:
    role = message.get("role")
    content = message.get("content")
    if role == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message.get("tool_call_id"),
            "output": text_of(content),
        }
        return
    if content:
        yield {"role": role, "content": _parts(content, assistant=role == "assistant")}
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        yield {
            "type": "function_call",
            "call_id": call.get("id"),
            "name": function.get("name"),
            "arguments": function.get("arguments"),
        }


def _parts(content: Any, *, assistant: bool) -> Any:
    if isinstance(content, str):
        if assistant:
            return [{"type": "output_text", "text": content}]
        return content
    kind = "output_text" if assistant else "input_text"
    parts = []
    for part in content:
        if part.get("type") == "text":
            parts.append({"type": kind, "text": part.get("text", "")})
        elif part.get("type") == "image_url":
            image = part.get("image_url") or {}
            if isinstance(image, dict):
                image = image
            else:
                image = {"url": image}
            parts.append(
                {
                    "type": "input_image",
                    "image_url": image.get("url"),
                    "detail": image.get("detail") or "auto",
                }
            )
        else:
            parts.append(part)
    return parts


def _tool(tool: JsonDict) -> JsonDict:
    function = tool.get("function")
    if isinstance(function, dict):
        return {"type": "function", **function}
    return tool


def _format(value: JsonDict) -> JsonDict:
    schema = value.get("json_schema")
    if isinstance(schema, dict):
        return {"type": "json_schema", **schema}
    return value


def chat_of_response(body: JsonDict) -> JsonDict:
    """An answer of the Responses API as a chat answer: text of its messages, reasoning apart, function calls."""
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[JsonDict] = []
    for item in (one for one in as_list(body.get("output")) if isinstance(one, dict)):
        kind = item.get("type")
        parts: list[dict[Any, Any]] = []
        for part in item.get("content") or item.get("summary") or ():
            if isinstance(part, dict):
                parts.append(part)
        if kind == "message":
            texts += [part.get("text") or part.get("refusal") or "" for part in parts]
        elif kind == "reasoning":
            reasoning += [part.get("text") or "" for part in parts]
        elif kind == "function_call":
            calls.append(
                call_of(
                    item.get("call_id") or item.get("id"), item.get("name"), item.get("arguments")
                )
            )
    message: JsonDict = {"role": "assistant", "content": "".join(texts)}
    if any(reasoning):
        message["reasoning_content"] = "\n".join(reasoning)
    if calls:
        message["tool_calls"] = calls
    usage = as_dict(body.get("usage"))
    given = as_count(usage.get("input_tokens")) or 0
    made = as_count(usage.get("output_tokens")) or 0
    return {
        "id": body.get("id"),
        "object": "chat.completion",
        "created": as_count(body.get("created_at")) or 0,
        "model": body.get("model"),
        "choices": [
            {"index": 0, "message": message, "finish_reason": finish_reason(body, bool(calls))}
        ],
        "usage": {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made},
    }


def parse_response(body: JsonDict, model: str) -> ModelResponse:
    """An answer of the Responses API: text of its messages, reasoning apart, function calls parsed."""
    choice = chat_of_response(body)["choices"][0]
    message = choice["message"]
    return answered(
        body,
        model,
        content=message["content"],
        finish_reason=choice["finish_reason"],
        reasoning_content=message.get("reasoning_content"),
        tool_calls=[parse_tool_call(call) for call in message.get("tool_calls", ())],
    )


def finish_reason(body: JsonDict, has_calls: bool) -> str:
    """The finish reason of a response, in the words of chat completions."""
    if body.get("status") == "incomplete":
        details = body.get("incomplete_details") or {}
        reason = details.get("reason")
        if reason in (None, "max_output_tokens"):
            return "length"
        return as_word(reason)
    return "tool_calls" if has_calls else "stop"
