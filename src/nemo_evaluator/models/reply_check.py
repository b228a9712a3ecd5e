"""The border: a 200 answer is looked at field by field before anything else reads it.

What may be missing and is not what the protocol says is dropped (finish reason, model, id, reasoning, usage, logprobs);
what the answer consists of (choices, messages, content, tool calls) makes it no answer: a transport failure.
"""

from collections.abc import Callable
from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict, as_list, as_word
from nemo_evaluator.core.text import text_of
from nemo_evaluator.core.types import JsonDict

_LONGEST_WORD: Final = 200
_LONGEST_NOTE: Final = 300
# Finish reasons of answers that a server gave up: vLLM and SGLang say the first, vLLM and routers the second.
_BROKEN_OFF: Final = frozenset({"abort", "error"})
# What the Responses API says of a response that is none, with 200 and an empty output.
_UNANSWERED: Final = frozenset({"failed", "cancelled", "queued", "in_progress"})


def flaw_of(path: str, body: JsonDict) -> str | None:
    """What makes a 200 answer none, in words; None when it is one, with every field of the type it should have."""
    check = _CHECKS.get(path)
    if check is None:
        return None
    # Every reply passes here: what is as it should be is told by its type alone.
    model = body.get("model")
    identity = body.get("id")
    if (
        type(model) is not str
        or type(identity) is not str
        or len(model) + len(identity) > _LONGEST_WORD
    ):
        _keep_words(body, "model", "id")
    if type(body.get("usage")) is not dict:
        body.pop("usage", None)
    return check(body)


def _chat(body: JsonDict) -> str | None:
    choices = body.get("choices")
    if type(choices) is not list or not choices:
        return _without(body, "choices")
    for choice in choices:
        if type(choice) is dict:
            message = choice.get("message")
        else:
            message = None
        if type(message) is not dict:
            return "with a choice that has no message"
        reason = choice.get("finish_reason")
        content = message.get("content")
        if type(reason) is not str or len(reason) > _LONGEST_WORD:
            _keep_words(choice, "finish_reason")
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
    """What a message has besides role and content."""
    for name in ("reasoning_content", "reasoning"):
        if message.get(name) is not None and type(message[name]) is not str:
            del message[name]
    if message.get("tool_calls"):
        return _tool_calls(message["tool_calls"])
    return None


def _text(body: JsonDict) -> str | None:
    choices = body.get("choices")
    if type(choices) is not list or not choices:
        return _without(body, "choices")
    for choice in choices:
        if type(choice) is not dict:
            return "with a choice that is not an object"
        reason = choice.get("finish_reason")
        text = choice.get("text", "")
        if type(reason) is not str or len(reason) > _LONGEST_WORD:
            _keep_words(choice, "finish_reason")
        elif reason in _BROKEN_OFF:
            return _without(choice, f"an end: the server broke it off ({reason})")
        if text is None:
            choice["text"] = ""
        elif type(text) is not str:
            return "with a text that is not text"
    return None


def _responses(body: JsonDict) -> str | None:
    output = body.get("output")
    if type(output) is not list:
        return _without(body, "output")
    _keep_words(body, "status")
    if body.get("status") in _UNANSWERED:
        return _without(body, f"an answer: its status is {body['status']}")
    body["incomplete_details"] = as_dict(body.get("incomplete_details")) or None
    for item in output:
        if type(item) is not dict:
            return "with an output item that is not an object"
        for name in ("content", "summary"):
            if item.get(name) is not None:
                item[name] = [part for part in as_list(item[name]) if type(part) is dict]
                for part in item[name]:
                    _keep_words(part, "text", "refusal", longest=None)
        if item.get("type") == "function_call":
            _keep_words(item, "id", "call_id")
            if type(item.get("name")) is not str or type(item.get("arguments", "")) not in (
                str,
                dict,
            ):
                return "with a malformed function call"
    return None


def _embeddings(body: JsonDict) -> str | None:
    rows = body.get("data")
    if type(rows) is not list:
        return _without(body, "data")
    for row in rows:
        if type(row) is dict:
            vector = row.get("embedding")
        else:
            vector = None
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
    error = body.get("error")
    said = (as_word(error.get("message"), _LONGEST_NOTE) if type(error) is dict else "") or text_of(
        error
    )
    if error:
        return f"with an error inside: {said[:_LONGEST_NOTE]}"
    return f"without {key}"


def _keep_words(fields: JsonDict, *names: str, longest: int | None = _LONGEST_WORD) -> None:
    """Leave texts in place, cut those that are too long for what they are, and take anything else away."""
    for name in names:
        value = fields.get(name)
        if value is None:
            continue
        if type(value) is not str:
            fields[name] = None
        elif longest is not None and len(value) > longest:
            fields[name] = value[:longest]


def _text_of_parts(content: Any) -> str | None:
    """The text of a content that is null or a list of parts; None when it is neither."""
    if content is None:
        return ""
    if type(content) is not list or not all(type(part) in (dict, str) for part in content):
        return None
    texts = (part if type(part) is str else as_dict(part).get("text") for part in content)
    return "".join(text for text in texts if type(text) is str)


def _tool_calls(calls: Any) -> str | None:
    if type(calls) is not list:
        return "with tool calls that are not a list"
    for call in calls:
        if type(call) is dict:
            function = call.get("function")
        else:
            function = None
        if type(function) is not dict or type(function.get("name")) is not str:
            return "with a tool call that names no function"
        if type(function.get("arguments") or "") not in (str, dict):
            return "with tool arguments that are neither text nor an object"
        _keep_words(call, "id")
    return None
