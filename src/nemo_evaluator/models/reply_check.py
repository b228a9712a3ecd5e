"""Checks a 200 answer field by field before anything else reads it.

Optional fields of a wrong type are dropped (finish reason, model, id, reasoning, usage, logprobs). If the content is
wrong (choices, messages, content, tool calls), the answer counts as a transport failure.
"""

from collections.abc import Callable
from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict, as_list, as_word
from nemo_evaluator.core.text import text_of
from nemo_evaluator.core.types import JsonDict

_LONGEST_STRING: Final = 200
_LONGEST_MESSAGE: Final = 300
# Finish reasons of answers that a server gave up: the first of vLLM and SGLang, the second of vLLM and routers.
_BROKEN_OFF: Final = frozenset({"abort", "error"})
# Statuses of the Responses API for a response without an answer, with 200 and an empty output.
_UNANSWERED: Final = frozenset({"failed", "cancelled", "queued", "in_progress"})


def flaw_of(path: str, body: JsonDict) -> str | None:
    """Check a 200 answer.

    Args:
        path: The path of the request.
        body: The answer; wrong optional fields are dropped from it.

    Returns:
        What is wrong with the answer, as the end of an error message; None if it is valid.
    """
    check = _CHECKS.get(path)
    if check is None:
        return None
    # Every reply passes here, so the usual case is decided by types and lengths alone.
    model = body.get("model")
    identity = body.get("id")
    if (
        type(model) is not str
        or type(identity) is not str
        or len(model) + len(identity) > _LONGEST_STRING
    ):
        _keep_strings(body, "model", "id")
    if type(body.get("usage")) is not dict:
        body.pop("usage", None)
    return check(body)


def _chat(body: JsonDict) -> str | None:
    """Check a chat completion."""
    choices = body.get("choices")
    if type(choices) is not list or not choices:
        return _without(body, "choices")
    for choice in choices:
        message = choice.get("message") if type(choice) is dict else None
        if type(message) is not dict:
            return "with a choice that has no message"
        reason = choice.get("finish_reason")
        content = message.get("content")
        if type(reason) is not str or len(reason) > _LONGEST_STRING:
            _keep_strings(choice, "finish_reason")
        elif reason in _BROKEN_OFF:
            return _without(choice, f"an end: the server broke it off ({reason})")
        if type(content) is not str:
            text = _text_of_parts(content)
            if text is None:
                return "with a content that is not text"
            message["content"] = text
        if len(message) > 2 and (flaw := _further(message)):
            return flaw
        if choice.get("logprobs") is not None and type(choice["logprobs"]) is not dict:
            del choice["logprobs"]
    return None


def _further(message: JsonDict) -> str | None:
    """Check the other fields of a message."""
    for name in ("reasoning_content", "reasoning"):
        if message.get(name) is not None and type(message[name]) is not str:
            del message[name]
    if message.get("tool_calls"):
        return _tool_calls(message["tool_calls"])
    return None


def _text(body: JsonDict) -> str | None:
    """Check a text completion."""
    choices = body.get("choices")
    if type(choices) is not list or not choices:
        return _without(body, "choices")
    for choice in choices:
        if type(choice) is not dict:
            return "with a choice that is not an object"
        reason = choice.get("finish_reason")
        text = choice.get("text", "")
        if type(reason) is not str or len(reason) > _LONGEST_STRING:
            _keep_strings(choice, "finish_reason")
        elif reason in _BROKEN_OFF:
            return _without(choice, f"an end: the server broke it off ({reason})")
        if text is None:
            choice["text"] = ""
        elif type(text) is not str:
            return "with a text that is not text"
    return None


def _responses(body: JsonDict) -> str | None:
    """Check a response."""
    output = body.get("output")
    if type(output) is not list:
        return _without(body, "output")
    _keep_strings(body, "status")
    if body.get("status") in _UNANSWERED:
        return _without(body, f"an answer: its status is {body['status']}")
    body["incomplete_details"] = as_dict(body.get("incomplete_details")) or None
    for item in output:
        if type(item) is not dict:
            return "with an output item that is not an object"
        _keep_parts(item, "content")
        _keep_parts(item, "summary")
        if item.get("type") != "function_call":
            continue
        _keep_strings(item, "id", "call_id")
        has_arguments = type(item.get("arguments", "")) in (str, dict)
        if type(item.get("name")) is not str or not has_arguments:
            return "with a malformed function call"
    return None


def _keep_parts(item: JsonDict, name: str) -> None:
    """Drop everything from a list of parts that is not an object, and wrong texts from the objects."""
    if item.get(name) is None:
        return
    parts = [part for part in as_list(item[name]) if type(part) is dict]
    for part in parts:
        _keep_strings(part, "text", "refusal", longest=None)
    item[name] = parts


def _embeddings(body: JsonDict) -> str | None:
    """Check the vectors of an embeddings answer."""
    rows = body.get("data")
    if type(rows) is not list:
        return _without(body, "data")
    for row in rows:
        vector = row.get("embedding") if type(row) is dict else None
        if type(vector) is not list or type(row.get("index")) is not int:
            return "with an embedding that has no index or no vector"
        if not all(type(number) in (float, int) for number in vector):
            return "with a vector that does not consist of numbers"
    return None


_CHECKS: Final[dict[str, Callable[[JsonDict], str | None]]] = {
    "/chat/completions": _chat,
    "/completions": _text,
    "/responses": _responses,
    "/embeddings": _embeddings,
}


def _without(body: JsonDict, key: str) -> str:
    """The text for an answer without a required field: the error in its place, if there is one."""
    error = body.get("error")
    if not error:
        return f"without {key}"
    message = as_word(error.get("message"), _LONGEST_MESSAGE) if type(error) is dict else ""
    message = message or text_of(error)
    return f"with an error inside: {message[:_LONGEST_MESSAGE]}"


def _keep_strings(fields: JsonDict, *names: str, longest: int | None = _LONGEST_STRING) -> None:
    """Keep fields that are strings, shortened to ``longest`` characters, and set others to None."""
    for name in names:
        value = fields.get(name)
        if value is None:
            continue
        if type(value) is not str:
            fields[name] = None
        elif longest is not None and len(value) > longest:
            fields[name] = value[:longest]


def _text_of_parts(content: Any) -> str | None:
    """The text of a content that is null or a list of parts; None if it is neither."""
    if content is None:
        return ""
    if type(content) is not list or not all(type(part) in (dict, str) for part in content):
        return None
    texts: list[str] = []
    for part in content:
        text = part if type(part) is str else as_dict(part).get("text")
        if type(text) is str:
            texts.append(text)
    return "".join(texts)


def _tool_calls(calls: Any) -> str | None:
    """Check the tool calls of a message."""
    if type(calls) is not list:
        return "with tool calls that are not a list"
    for call in calls:
        function = call.get("function") if type(call) is dict else None
        if type(function) is not dict or type(function.get("name")) is not str:
            return "with a tool call that names no function"
        if type(function.get("arguments") or "") not in (str, dict):
            return "with tool arguments that are neither text nor an object"
        _keep_strings(call, "id")
    return None
