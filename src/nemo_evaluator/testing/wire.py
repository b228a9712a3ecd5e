"""The bytes that a scripted server sends: headers, whole answers and event streams of each protocol."""

import email.utils
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

from nemo_evaluator.adapters.convert import SPEECH, Speech
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.testing.script import Fault, Say

_numbers = itertools.count(1)
_REASONS: Final = {
    200: b"OK",
    400: b"Bad Request",
    401: b"Unauthorized",
    404: b"Not Found",
    429: b"Too Many Requests",
}
SPOILED: Final[dict[Fault, Callable[[bytes, Say], bytes]]] = {
    Fault.TRUNCATED_JSON: lambda payload, say: payload[: len(payload) // 2],
    Fault.TRUNCATED_BODY: lambda payload, say: payload[: len(payload) // 2],
    Fault.MALFORMED_JSON: lambda payload, say: payload[:-1] + b",,}",
    Fault.NOT_AN_OBJECT: lambda payload, say: b'["a", "list"]',
    Fault.EMPTY_BODY: lambda payload, say: b"",
    Fault.WRONG_TYPE: lambda payload, say: b"<html><body>Gateway login</body></html>",
    Fault.BAD_ENCODING: lambda payload, say: b"\xff\xfe" + payload,
    Fault.HUGE: lambda payload, say: b'{"padding": "' + b"x" * say.size + b'"}',
}
_SPOILED_CHOICES: Final[dict[Fault | None, Any]] = {
    Fault.EMPTY_CHOICES: [],
    Fault.NULL_CHOICES: None,
    Fault.NO_MESSAGE: [{"index": 0, "finish_reason": "stop"}],
}


def usage_of(say: Say, prompt_chars: int) -> JsonDict:
    """Return the usage that an answer reports: as scripted, else estimated at four characters per token."""
    if say.usage is not None:
        return say.usage
    prompt = max(1, prompt_chars // 4)
    completion = max(1, len(say.text) // 4)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def answer_body(path: str, say: Say, model: str, prompt_chars: int) -> Any:
    """Return the JSON value of a whole answer for the protocol of ``path``."""
    if say.body is not None:
        return say.body
    if say.status >= 400:
        return error_body(path, say)
    choice = {"index": 0, "message": _chat_message(say), "finish_reason": say.finish_reason}
    envelope = {**_head(model), "object": "chat.completion", "usage": usage_of(say, prompt_chars)}
    body = speech_of(path).from_chat({**envelope, "choices": [choice]})
    if "choices" in body:
        choices = [{**body["choices"][0], "logprobs": say.logprobs}]
        body["choices"] = _SPOILED_CHOICES.get(say.fault, choices)
    elif say.fault is Fault.EMPTY_CHOICES:
        body["output"] = []
    return body


def embeddings_of(body: JsonDict) -> JsonDict:
    """Return small vectors that differ between texts."""
    texts = body.get("input")
    if not isinstance(texts, list):
        texts = [texts]
    data: list[JsonDict] = []
    for number, text in enumerate(texts):
        vector = [float(len(str(text))), float(number)]
        data.append({"object": "embedding", "index": number, "embedding": vector})
    # Out of order on purpose, because a client must sort by index.
    return {
        "object": "list",
        "data": data[::-1],
        "model": body.get("model"),
        "usage": {"prompt_tokens": 1},
    }


def speech_of(path: str) -> Speech:
    """Return the protocol of a path, which converts answers and chunks of chat completions."""
    return next(speech for suffix, speech in SPEECH.items() if path.endswith(suffix))


def _head(model: str) -> JsonDict:
    return {"id": f"chatcmpl-{next(_numbers)}", "created": 1, "model": model}


def error_body(path: str, say: Say) -> JsonDict:
    """Return the JSON value of an error for the protocol of ``path``."""
    message = say.message or f"scripted error {say.status}"
    error_type = "server_error" if say.status >= 500 else "invalid_request_error"
    if path.endswith("/messages"):
        return {"type": "error", "error": {"type": error_type, "message": message}}
    return {"error": {"message": message, "type": error_type, "code": None, "param": None}}


def error_event(path: str, say: Say) -> bytes:
    """Return the server-sent event of an error in the middle of a stream."""
    return b"".join(speech_of(path).translator().feed(error_body(path, say)))


def _chat_message(say: Say) -> JsonDict:
    message: JsonDict = {"role": "assistant", "content": say.text}
    if say.reasoning is not None:
        message[say.reasoning_field] = say.reasoning
    if say.tool_calls:
        message["tool_calls"] = tool_calls_of(say)
        message["content"] = say.text or None
    return message


def tool_calls_of(say: Say) -> list[JsonDict]:
    """Return the scripted tool calls in OpenAI's format; a script may give ``arguments`` as a value or as text."""
    calls = []
    for number, call in enumerate(say.tool_calls):
        arguments = call.get("arguments", {})
        if not isinstance(arguments, str):
            arguments = orjson.dumps(arguments).decode()
        call_id = call.get("id", f"call_{number}")
        function = {"name": call["name"], "arguments": arguments}
        calls.append({"id": call_id, "type": "function", "function": function})
    return calls


def pieces(say: Say) -> list[str]:
    """Split the answer's text into ``say.chunks`` chunks, or one per word."""
    if not say.text:
        return []
    if say.chunks:
        chunk_length = max(1, -(-len(say.text) // say.chunks))
        return [
            say.text[start : start + chunk_length]
            for start in range(0, len(say.text), chunk_length)
        ]
    words = say.text.split(" ")
    return [word if number == 0 else f" {word}" for number, word in enumerate(words)]


def stream_events(
    path: str, say: Say, model: str, prompt_chars: int, *, usage: bool
) -> Iterator[bytes]:
    """Yield the server-sent events of an answer.

    Args:
        path: The path of the request.
        say: The answer.
        model: The name of the model.
        prompt_chars: The length of the prompt, for the reported usage.
        usage: Whether completions report their usage; the other protocols always do.
    """
    reported_usage: JsonDict | None = None
    if usage or not path.endswith("/completions"):
        reported_usage = usage_of(say, prompt_chars)
    translator = speech_of(path).translator()
    for chunk in _chunks(say, model, reported_usage):
        yield from translator.feed(chunk)
    yield from translator.end()


def _chunks(say: Say, model: str, usage: JsonDict | None) -> Iterator[JsonDict]:
    """Yield the answer as chunks of chat completions."""
    envelope = {**_head(model), "object": "chat.completion.chunk"}

    def chunk(delta: JsonDict, finish: str | None = None) -> JsonDict:
        return {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    if say.reasoning is not None:
        yield chunk({say.reasoning_field: say.reasoning})
    for piece in pieces(say):
        yield chunk({"content": piece})
    for number, call in enumerate(tool_calls_of(say)):
        for call_part in _tool_call_parts(number, call):
            yield chunk({"tool_calls": [call_part]})
    yield chunk({}, say.finish_reason)
    if usage is not None:
        yield {**envelope, "choices": [], "usage": usage}


def _tool_call_parts(number: int, call: JsonDict) -> Iterator[JsonDict]:
    """Yield a tool call as it is streamed: its name first, then its arguments in two halves."""
    name = call["function"]["name"]
    arguments: str = call["function"]["arguments"]
    start = {"index": number, "id": call["id"], "type": "function"}
    yield {**start, "function": {"name": name, "arguments": ""}}
    middle = len(arguments) // 2
    for half in (arguments[:middle], arguments[middle:]):
        yield {"index": number, "function": {"arguments": half}}


def extra_lines(say: Say) -> bytes:
    """Return the header lines that the script sets."""
    lines = [f"{name}: {value}" for name, value in say.headers.items()]
    retry_after = say.retry_after
    if retry_after is not None:
        if isinstance(retry_after, str) and retry_after.startswith("date+"):
            retry_after = email.utils.formatdate(time.time() + float(retry_after[5:]), usegmt=True)
        lines.append(f"Retry-After: {retry_after}")
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")


def head_of(say: Say, length: int) -> bytes:
    """Return the status line and the headers of an answer whose body has ``length`` bytes."""
    reason = _REASONS.get(say.status, b"Scripted")
    content_type = b"text/html" if say.fault is Fault.WRONG_TYPE else b"application/json"
    script_headers = b""
    if say.headers or say.retry_after is not None:
        script_headers = extra_lines(say)
    template = b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n"
    return template % (say.status, reason, content_type, length, script_headers)
