"""Small readings of the bodies of requests and answers that several stages need, whichever protocol they speak."""

from collections.abc import Iterator

from nemo_evaluator.core.json_coerce import as_list
from nemo_evaluator.core.types import JsonDict, Message
from nemo_evaluator.models.responses import chat_of_response
from nemo_evaluator.models.types import ModelRequest


def messages_of(request: ModelRequest) -> list[Message] | None:
    """The messages of a chat or Responses request; None for requests that have none."""
    body = request.body
    if request.path.endswith("/responses"):
        given = body.get("input")
        if isinstance(given, str):
            return [{"role": "user", "content": given}]
        if isinstance(given, list):
            return list(given)
        return None
    if request.path.endswith("/chat/completions") or "messages" in body:
        given = body.get("messages")
        if isinstance(given, (list, tuple)):
            return list(given)
        return []
    return None


def put_messages(request: ModelRequest, messages: list[Message]) -> None:
    if request.path.endswith("/responses"):
        key = "input"
    else:
        key = "messages"
    request.body = {**request.body, key: messages}


def text_of(content: object) -> str:
    """The text of a message's content: a string, or the parts of a list that have text, joined by newlines."""
    if isinstance(content, list):
        return "\n".join(
            str(part["text"]) for part in content if isinstance(part, dict) and part.get("text")
        )
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


def texts_of(body: JsonDict) -> tuple[str, str, list[JsonDict]]:
    """Content, reasoning and tool calls ``{id, name, arguments}`` of an answer of any protocol."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[JsonDict] = []
    for choice in choices_of(chat_of_response(body) if "output" in body else body):
        message = choice.get("message")
        if not isinstance(message, dict):
            content.append(str(choice.get("text") or ""))
            continue
        content.append(str(message.get("content") or ""))
        reasoning.append(str(message.get("reasoning_content") or message.get("reasoning") or ""))
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            calls.append(
                {
                    "id": call.get("id"),
                    "name": function.get("name"),
                    "arguments": function.get("arguments"),
                }
            )
    return "".join(content), "".join(reasoning), calls
