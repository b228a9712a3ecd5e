"""The Responses protocol: chat requests written as Responses requests, and answers read."""

from collections.abc import Iterable
from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_count, as_dict, as_list, as_word
from nemo_evaluator.core.types import JsonDict, Message, ModelResponse
from nemo_evaluator.models.chat import answered, call_of, parse_tool_call
from nemo_evaluator.models.completions import text_of

_RENAMED: Final = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}


def to_responses(chat: JsonDict) -> JsonDict:
    """A chat request as a Responses request; fields of both protocols and unknown ones are kept."""
    body: JsonDict = {}
    for key, value in chat.items():
        if key == "messages":
            items: list[JsonDict] = []
            for message in value:
                items += _items(message)
            body["input"] = items
        elif key == "tools":
            body["tools"] = [_tool(tool) for tool in value]
        elif key == "tool_choice" and isinstance(value, dict):
            function = value.get("function") or {}
            body["tool_choice"] = {"type": "function", "name": function.get("name")}
        elif key == "response_format":
            body["text"] = {"format": _format(value)}
        elif key == "reasoning_effort":
            body["reasoning"] = {"effort": value}
        elif key != "stream_options":
            body[_RENAMED.get(key, key)] = value
    return body


def _items(message: Message) -> Iterable[JsonDict]:
    """One chat message as input items: every tool call becomes an item of its own."""
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
    """The content of a chat message in the form of the Responses API."""
    if isinstance(content, str):
        return [{"type": "output_text", "text": content}] if assistant else content
    text_type = "output_text" if assistant else "input_text"
    parts: list[JsonDict] = []
    for part in content:
        if part.get("type") == "text":
            parts.append({"type": text_type, "text": part.get("text", "")})
        elif part.get("type") == "image_url":
            parts.append(_image(part.get("image_url") or {}))
        else:
            parts.append(part)
    return parts


def _image(image: Any) -> JsonDict:
    if not isinstance(image, dict):
        image = {"url": image}
    return {
        "type": "input_image",
        "image_url": image.get("url"),
        "detail": image.get("detail") or "auto",
    }


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
    """A response as a chat answer: the text of its messages, the reasoning apart, and the function calls."""
    message = _message_of(as_list(body.get("output")))
    has_calls = "tool_calls" in message
    usage = as_dict(body.get("usage"))
    prompt_tokens = as_count(usage.get("input_tokens")) or 0
    completion_tokens = as_count(usage.get("output_tokens")) or 0
    choice = {"index": 0, "message": message, "finish_reason": finish_reason(body, has_calls)}
    return {
        "id": body.get("id"),
        "object": "chat.completion",
        "created": as_count(body.get("created_at")) or 0,
        "model": body.get("model"),
        "choices": [choice],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _message_of(output: list[Any]) -> JsonDict:
    """The output items of a response as one chat message."""
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[JsonDict] = []
    for item in output:
        if not isinstance(item, dict):
            continue
        kind = item.get("type")
        all_parts = item.get("content") or item.get("summary") or ()
        parts = [part for part in all_parts if isinstance(part, dict)]
        if kind == "message":
            texts += [part.get("text") or part.get("refusal") or "" for part in parts]
        elif kind == "reasoning":
            reasoning += [part.get("text") or "" for part in parts]
        elif kind == "function_call":
            call_id = item.get("call_id") or item.get("id")
            calls.append(call_of(call_id, item.get("name"), item.get("arguments")))
    message: JsonDict = {"role": "assistant", "content": "".join(texts)}
    if any(reasoning):
        message["reasoning_content"] = "\n".join(reasoning)
    if calls:
        message["tool_calls"] = calls
    return message


def parse_response(body: JsonDict, model: str) -> ModelResponse:
    """A response as a ModelResponse."""
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
    """The finish reason of a response, in the terms of chat completions."""
    if body.get("status") == "incomplete":
        details = body.get("incomplete_details") or {}
        reason = details.get("reason")
        if reason in (None, "max_output_tokens"):
            return "length"
        return as_word(reason)
    return "tool_calls" if has_calls else "stop"
