"""The bytes a scripted server sends: whole answers and event streams of each protocol."""

import itertools
from collections.abc import Iterator
from typing import Any

import orjson

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.testing.script import Fault, Say

_numbers = itertools.count(1)


def usage_of(say: Say, prompt_chars: int) -> JsonDict:
    """The usage an answer reports: as scripted, or four characters to a token."""
    if say.usage is not None:
        return say.usage
    prompt, completion = max(1, prompt_chars // 4), max(1, len(say.text) // 4)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def answer_body(path: str, say: Say, model: str, prompt_chars: int) -> Any:
    """The JSON value of a whole answer for the protocol of ``path``."""
    if say.body is not None:
        return say.body
    if say.status >= 400:
        return error_body(path, say)
    usage = usage_of(say, prompt_chars)
    if path.endswith("/completions"):
        chat = path.endswith("/chat/completions")
        said: JsonDict = {"message": _chat_message(say)} if chat else {"text": say.text}
        choice = {"index": 0, **said, "finish_reason": say.finish_reason, "logprobs": say.logprobs}
        return {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{next(_numbers)}",
            "object": "chat.completion" if chat else "text_completion",
            "created": 1,
            "model": model,
            "choices": _spoil_choices([choice], say),
            "usage": usage,
        }
    if path.endswith("/responses"):
        return response_object(say, model, usage)
    if path.endswith("/messages"):
        return message_object(say, model, usage)
    raise ValueError(path)


def error_body(path: str, say: Say) -> JsonDict:
    """An error in the shape of the protocol."""
    message = say.message or f"scripted error {say.status}"
    kind = "server_error" if say.status >= 500 else "invalid_request_error"
    if path.endswith("/messages"):
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "code": None, "param": None}}


def _chat_message(say: Say) -> JsonDict:
    message: JsonDict = {"role": "assistant", "content": say.text}
    if say.reasoning is not None:
        message[say.reasoning_field] = say.reasoning
    if say.tool_calls:
        message["tool_calls"] = tool_calls_of(say)
        message["content"] = say.text or None
    return message


def _spoil_choices(choices: list[JsonDict], say: Say) -> Any:
    if say.fault is Fault.EMPTY_CHOICES:
        return []
    if say.fault is Fault.NULL_CHOICES:
        return None
    if say.fault is Fault.NO_MESSAGE:
        return [{"index": 0, "finish_reason": "stop"}]
    return choices


def tool_calls_of(say: Say) -> list[JsonDict]:
    """Tool calls in the OpenAI shape; ``arguments`` may be given as a value or as text."""
    calls = []
    for number, call in enumerate(say.tool_calls):
        arguments = call.get("arguments", {})
        text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
        function = {"name": call["name"], "arguments": text}
        calls.append({"id": call.get("id", f"call_{number}"), "type": "function", "function": function})
    return calls


def response_object(say: Say, model: str, usage: JsonDict, *, status: str = "completed") -> JsonDict:
    """A whole answer of the Responses API."""
    output: list[JsonDict] = []
    if say.reasoning is not None:
        output.append({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": say.reasoning}]})
    if say.text or not say.tool_calls:
        part = {"type": "output_text", "text": say.text, "annotations": [], "logprobs": []}
        output.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
    for call in tool_calls_of(say):
        function = call["function"]
        output.append({"type": "function_call", "id": f"fc_{call['id']}", "call_id": call["id"], **function})
    cut = say.finish_reason == "length"
    return {
        "id": f"resp_{next(_numbers)}",
        "object": "response",
        "created_at": 1,
        "status": "incomplete" if cut else status,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "model": model,
        "output": [] if say.fault is Fault.EMPTY_CHOICES else output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": usage.get("prompt_tokens", 0),
            "output_tokens": usage.get("completion_tokens", 0),
            "total_tokens": usage.get("total_tokens", 0),
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def message_object(say: Say, model: str, usage: JsonDict) -> JsonDict:
    """A whole answer of the Anthropic Messages API."""
    content: list[JsonDict] = []
    if say.reasoning is not None:
        content.append({"type": "thinking", "thinking": say.reasoning, "signature": "s"})
    if say.text or not say.tool_calls:
        content.append({"type": "text", "text": say.text})
    for call in tool_calls_of(say):
        function = call["function"]
        arguments = orjson.loads(function["arguments"])
        content.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments})
    reason = {"length": "max_tokens", "tool_calls": "tool_use"}.get(say.finish_reason, "end_turn")
    return {
        "id": f"msg_{next(_numbers)}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": usage.get("prompt_tokens", 0), "output_tokens": usage.get("completion_tokens", 0)},
    }


def pieces(say: Say) -> list[str]:
    """The answer text cut into chunks: ``say.chunks`` of them, or one per word."""
    if not say.text:
        return []
    if say.chunks:
        size = max(1, -(-len(say.text) // say.chunks))
        return [say.text[start : start + size] for start in range(0, len(say.text), size)]
    words = say.text.split(" ")
    return [word if number == 0 else f" {word}" for number, word in enumerate(words)]


def stream_events(path: str, say: Say, model: str, prompt_chars: int, *, usage: bool) -> Iterator[bytes]:
    """The server-sent events of an answer, one at a time."""
    if path.endswith("/responses"):
        return _response_events(say, model, usage_of(say, prompt_chars))
    if path.endswith("/messages"):
        return _message_events(say, model, usage_of(say, prompt_chars))
    return _completion_events(path, say, model, usage_of(say, prompt_chars) if usage else None)


def event(value: JsonDict, name: str | None = None) -> bytes:
    """One server-sent event."""
    head = b"event: " + name.encode() + b"\n" if name else b""
    return head + b"data: " + orjson.dumps(value) + b"\n\n"


def _completion_events(path: str, say: Say, model: str, usage: JsonDict | None) -> Iterator[bytes]:
    chat = path.endswith("/chat/completions")
    kind = "chat.completion.chunk" if chat else "text_completion"
    base = {"id": f"chatcmpl-{next(_numbers)}", "object": kind, "created": 1, "model": model}

    def chunk(delta: JsonDict | str, finish: str | None = None) -> bytes:
        key = "delta" if chat else "text"
        return event({**base, "choices": [{"index": 0, key: delta, "finish_reason": finish}]})

    if chat:
        yield chunk({"role": "assistant", "content": ""})
        if say.reasoning is not None:
            yield chunk({say.reasoning_field: say.reasoning})
    for piece in pieces(say):
        yield chunk({"content": piece} if chat else piece)
    for number, call in enumerate(tool_calls_of(say) if chat else ()):
        function = call["function"]
        head = {"index": number, "id": call["id"], "type": "function"}
        yield chunk({"tool_calls": [{**head, "function": {"name": function["name"], "arguments": ""}}]})
        text = function["arguments"]
        for part in (text[: len(text) // 2], text[len(text) // 2 :]):
            yield chunk({"tool_calls": [{"index": number, "function": {"arguments": part}}]})
    yield chunk({} if chat else "", say.finish_reason)
    if usage is not None:
        yield event({**base, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def _response_events(say: Say, model: str, usage: JsonDict) -> Iterator[bytes]:
    whole = response_object(say, model, usage)
    numbers = itertools.count()

    def send(kind: str, **fields: Any) -> bytes:
        return event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    yield send("response.created", response={**whole, "status": "in_progress", "output": [], "usage": None})
    for index, item in enumerate(whole["output"]):
        yield send("response.output_item.added", output_index=index, item={**item, "content": []})
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            part = {"type": "output_text", "text": "", "annotations": []}
            yield send("response.content_part.added", **place, content_index=0, part=part)
            for piece in pieces(say):
                yield send("response.output_text.delta", **place, content_index=0, delta=piece, logprobs=[])
            yield send("response.output_text.done", **place, content_index=0, text=say.text, logprobs=[])
        elif item["type"] == "function_call":
            yield send("response.function_call_arguments.delta", **place, delta=item["arguments"])
            yield send("response.function_call_arguments.done", **place, arguments=item["arguments"], name=item["name"])
        yield send("response.output_item.done", output_index=index, item=item)
    end = "response.incomplete" if whole["status"] == "incomplete" else "response.completed"
    yield send(end, response=whole)


def _message_events(say: Say, model: str, usage: JsonDict) -> Iterator[bytes]:
    whole = message_object(say, model, usage)

    def send(kind: str, **fields: Any) -> bytes:
        return event({"type": kind, **fields}, kind)

    start = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield send("message_start", message=start)
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            yield send("content_block_start", index=index, content_block={"type": "text", "text": ""})
            for piece in pieces(say):
                yield send("content_block_delta", index=index, delta={"type": "text_delta", "text": piece})
        elif block["type"] == "thinking":
            yield send("content_block_start", index=index, content_block={**block, "thinking": ""})
            yield send(
                "content_block_delta", index=index, delta={"type": "thinking_delta", "thinking": block["thinking"]}
            )
        else:
            yield send("content_block_start", index=index, content_block={**block, "input": {}})
            text = orjson.dumps(block["input"]).decode()
            yield send("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": text})
        yield send("content_block_stop", index=index)
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield send("message_delta", delta=delta, usage={"output_tokens": whole["usage"]["output_tokens"]})
    yield send("message_stop")
