"""Helpers that read and change the bodies of requests and answers, whatever their protocol."""

from collections.abc import Iterator
from typing import NamedTuple

from nemo_evaluator.core.json_coerce import as_list
from nemo_evaluator.core.types import JsonDict, Message
from nemo_evaluator.models.responses import chat_of_response
from nemo_evaluator.models.types import ModelRequest


def messages_of(request: ModelRequest) -> list[Message] | None:
    """The messages of a chat or Responses request; None for requests that have none."""
    body = request.body
    if request.path.endswith("/responses"):
        items = body.get("input")
        if isinstance(items, str):
            return [{"role": "user", "content": items}]
        if isinstance(items, list):
            return list(items)
        return None
    if request.path.endswith("/chat/completions") or "messages" in body:
        messages = body.get("messages")
        if isinstance(messages, (list, tuple)):
            return list(messages)
        return []
    return None


def put_messages(request: ModelRequest, messages: list[Message]) -> None:
    """Give a chat or Responses request other messages, in a new body."""
    key = "input" if request.path.endswith("/responses") else "messages"
    request.body = {**request.body, key: messages}


def text_of(content: object) -> str:
    """The text of a message's content: a string, or the parts of a list that have text, joined by newlines."""
    if isinstance(content, list):
        texts: list[str] = []
        for part in content:
            if isinstance(part, dict) and part.get("text"):
                texts.append(str(part["text"]))
        return "\n".join(texts)
    if isinstance(content, str):
        return content
    return ""


def choices_of(body: JsonDict) -> list[JsonDict]:
    """The choices of a body that has some."""
    return [choice for choice in as_list(body.get("choices")) if isinstance(choice, dict)]


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
        if reason:
            return str(reason)
        return None
    details = body.get("incomplete_details")
    if isinstance(details, dict):
        if details.get("reason") == "max_output_tokens":
            return "length"
        return str(details.get("reason"))
    if body.get("status") == "completed":
        return "stop"
    return None


class AnswerTexts(NamedTuple):
    """The content of an answer of any protocol.

    Attributes:
        content: The text.
        reasoning: The reasoning.
        tool_calls: The tool calls as ``{id, name, arguments}``.
    """

    content: str
    reasoning: str
    tool_calls: list[JsonDict]


def texts_of(body: JsonDict) -> AnswerTexts:
    """The content, the reasoning and the tool calls of an answer of any protocol."""
    contents: list[str] = []
    thoughts: list[str] = []
    tool_calls: list[JsonDict] = []
    chat = chat_of_response(body) if "output" in body else body
    for choice in choices_of(chat):
        message = choice.get("message")
        if not isinstance(message, dict):
            contents.append(str(choice.get("text") or ""))
            continue
        contents.append(str(message.get("content") or ""))
        thoughts.append(str(message.get("reasoning_content") or message.get("reasoning") or ""))
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            tool_call = {
                "id": call.get("id"),
                "name": function.get("name"),
                "arguments": function.get("arguments"),
            }
            tool_calls.append(tool_call)
    return AnswerTexts("".join(contents), "".join(thoughts), tool_calls)
