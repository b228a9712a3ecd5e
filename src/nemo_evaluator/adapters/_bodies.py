"""Small readings of answer bodies that several stages need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nemo_evaluator.core.types import JsonDict


def choices_of(body: JsonDict) -> list[JsonDict]:
    """The choices of a body that has some."""
    given = body.get("choices")
    return [choice for choice in given if isinstance(choice, dict)] if isinstance(given, list) else []


def messages_in(body: JsonDict) -> Iterator[JsonDict]:
    """The messages of the choices of a chat completion."""
    for choice in choices_of(body):
        message = choice.get("message")
        if isinstance(message, dict):
            yield message


def finish_reason_of(body: JsonDict) -> str | None:
    """The finish reason of an answer of any protocol."""
    choices = body.get("choices")
    if choices and isinstance(choices, list) and isinstance(choices[0], dict):
        reason = choices[0].get("finish_reason")
        return str(reason) if reason else None
    details = body.get("incomplete_details")
    if isinstance(details, dict):
        return "length" if details.get("reason") == "max_output_tokens" else str(details.get("reason"))
    return "stop" if body.get("status") == "completed" else None


def texts_of(body: JsonDict) -> tuple[str, str, list[JsonDict]]:
    """Content, reasoning and tool calls ``{id, name, arguments}`` of an answer of any protocol."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[JsonDict] = []
    for choice in choices_of(body):
        message = choice.get("message")
        if not isinstance(message, dict):
            content.append(str(choice.get("text") or ""))
            continue
        content.append(str(message.get("content") or ""))
        reasoning.append(str(message.get("reasoning_content") or message.get("reasoning") or ""))
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            calls.append({"id": call.get("id"), "name": function.get("name"), "arguments": function.get("arguments")})
    for item in _output_of(body):
        kind = item.get("type")
        if kind == "message":
            content.extend(str(part.get("text", "")) for part in item.get("content") or () if isinstance(part, dict))
        elif kind == "reasoning":
            reasoning.extend(str(part.get("text", "")) for part in item.get("summary") or () if isinstance(part, dict))
        elif kind == "function_call":
            calls.append({"id": item.get("call_id"), "name": item.get("name"), "arguments": item.get("arguments")})
    return "".join(content), "".join(reasoning), calls


def _output_of(body: JsonDict) -> list[Any]:
    given = body.get("output")
    return [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
