"""The Responses API: a client uses it and a chat service answers, or the other way round."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from nemo_evaluator.adapters._streams import encode_event
from nemo_evaluator.adapters.convert.base import (
    Speech,
    Translator,
    error_in,
    first_choice,
    thought_of,
)
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict, Message
from nemo_evaluator.models.chat import call_of
from nemo_evaluator.models.responses import chat_of_response, to_responses

# Fields of a Responses request that chat does not have.
_OWN: Final = frozenset(
    {
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "text",
        "reasoning",
        "max_output_tokens",
        "store",
        "include",
        "previous_response_id",
        "truncation",
        "background",
    }
)


@dataclass(slots=True)
class _Call:
    """A tool call whose arguments arrive in pieces."""

    call_id: Any
    name: Any
    arguments: list[str] = field(default_factory=list)


class _ResponsesTranslator(Translator):
    """Converts chat chunks to Responses events."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._head: JsonDict | None = None
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._finish: Any = None
        self._usage: Any = None

    def feed(self, chunk: JsonDict) -> Iterator[bytes]:
        """Convert one chunk to events."""
        if chunk.get("error"):
            error = error_in(chunk)
            message = error.get("message", "")
            yield self._event("error", code=error.get("code"), message=message, param=None)
            return
        if self._head is None:
            self._head = chunk
            response = _response(chunk, [], None, usage=None)
            yield self._event("response.created", response={**response, "status": "in_progress"})
        self._usage = chunk.get("usage") or self._usage
        choice, delta = first_choice(chunk)
        thought = thought_of(delta)
        if thought:
            self._thoughts.append(thought)
        if delta.get("content"):
            yield from self._add_text(delta["content"])
        for call in delta.get("tool_calls") or ():
            yield from self._add_call(call)
        self._finish = choice.get("finish_reason") or self._finish

    def end(self) -> Iterator[bytes]:
        """Yield the events that complete the items and the response."""
        output: list[JsonDict] = []
        if self._text:
            text = "".join(self._text)
            item = _message_item(text)
            yield self._event(
                "response.output_text.done",
                item_id=item["id"],
                output_index=0,
                content_index=0,
                text=text,
                logprobs=[],
            )
            yield self._event("response.output_item.done", output_index=0, item=item)
            output.append(item)
        for call in self._calls.values():
            item = _call_item(call.call_id, call.name, "".join(call.arguments))
            index = len(output)
            yield self._event(
                "response.function_call_arguments.done",
                name=item["name"],
                item_id=item["id"],
                output_index=index,
                arguments=item["arguments"],
            )
            yield self._event("response.output_item.done", output_index=index, item=item)
            output.append(item)
        if self._thoughts:
            output.insert(0, _thought_item("".join(self._thoughts)))
        response = _response(self._head or {}, output, self._finish, usage=self._usage)
        yield self._event(f"response.{response['status']}", response=response)

    def _add_text(self, text: str) -> Iterator[bytes]:
        """Yield the events of a part of the text; the first part also opens the item."""
        position = {"item_id": "msg_0", "output_index": 0}
        if not self._text:
            item = {**_message_item(""), "status": "in_progress", "content": []}
            yield self._event("response.output_item.added", output_index=0, item=item)
            part = {"type": "output_text", "text": "", "annotations": []}
            yield self._event("response.content_part.added", **position, content_index=0, part=part)
        self._text.append(text)
        yield self._event(
            "response.output_text.delta", **position, content_index=0, delta=text, logprobs=[]
        )

    def _add_call(self, chunk: JsonDict) -> Iterator[bytes]:
        """Yield the events of a part of a tool call."""
        number = chunk.get("index", 0)
        function = chunk.get("function") or {}
        # The text, if there is any, is the first item.
        output_index = number + 1 if self._text else number
        call = self._calls.get(number)
        if call is None:
            call = self._calls[number] = _Call(chunk.get("id"), function.get("name"))
            item = {**_call_item(call.call_id, call.name, ""), "status": "in_progress"}
            yield self._event("response.output_item.added", output_index=output_index, item=item)
        arguments = function.get("arguments")
        if arguments:
            call.arguments.append(arguments)
            yield self._event(
                "response.function_call_arguments.delta",
                item_id=f"fc_{call.call_id}",
                output_index=output_index,
                delta=arguments,
            )

    def _event(self, kind: str, **fields: Any) -> bytes:
        return encode_event(
            {"type": kind, "sequence_number": next(self._numbers), **fields}, named=True
        )


def _to_chat(body: JsonDict) -> JsonDict:
    """A Responses request as a chat request."""
    chat = {key: value for key, value in body.items() if key not in _OWN}
    chat["messages"] = _chat_messages(body)
    if body.get("max_output_tokens") is not None:
        chat["max_tokens"] = body["max_output_tokens"]
    if body.get("tools"):
        chat["tools"] = [_tool(tool) for tool in body["tools"]]
    tool_choice = body.get("tool_choice")
    if isinstance(tool_choice, dict) and tool_choice.get("name"):
        chat["tool_choice"] = {"type": "function", "function": {"name": tool_choice["name"]}}
    elif tool_choice is not None:
        chat["tool_choice"] = tool_choice
    text_format = (body.get("text") or {}).get("format")
    if isinstance(text_format, dict) and text_format.get("type") != "text":
        chat["response_format"] = _response_format(text_format)
    effort = (body.get("reasoning") or {}).get("effort")
    if effort:
        chat["reasoning_effort"] = effort
    return chat


def _chat_messages(body: JsonDict) -> list[Message]:
    """Convert the instructions and the input items to chat messages."""
    messages: list[Message] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": body["instructions"]})
    items = body.get("input")
    if isinstance(items, str):
        messages.append({"role": "user", "content": items})
        return messages
    for item in items or ():
        _add_item(messages, item)
    return messages


def _response_format(text_format: JsonDict) -> JsonDict:
    if text_format.get("type") != "json_schema":
        return text_format
    schema = {key: value for key, value in text_format.items() if key != "type"}
    return {"type": "json_schema", "json_schema": schema}


def _from_chat(body: JsonDict) -> JsonDict:
    """A chat answer as a response."""
    choice, message = first_choice(body)
    output: list[JsonDict] = []
    thought = thought_of(message)
    if thought:
        output.append(_thought_item(thought))
    if message.get("content"):
        output.append(_message_item(str(message["content"])))
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        arguments = function.get("arguments") or ""
        output.append(_call_item(call.get("id"), function.get("name"), arguments))
    return _response(body, output, choice.get("finish_reason"), usage=body.get("usage"))


def _add_item(messages: list[Message], item: JsonDict) -> None:
    """Add an input item to the chat messages; items of other types are left out."""
    kind = item.get("type", "message")
    if kind == "function_call":
        call = call_of(item.get("call_id"), item.get("name"), item.get("arguments"))
        if messages and messages[-1].get("role") == "assistant":
            messages[-1].setdefault("tool_calls", []).append(call)
        else:
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    elif kind == "function_call_output":
        output = item.get("output")
        text = output if isinstance(output, str) else orjson.dumps(output).decode()
        messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": text})
    elif kind == "message":
        role = item.get("role")
        if role == "developer":
            role = "system"
        messages.append({"role": role, "content": _content(item.get("content"))})


def _content(content: Any) -> Any:
    """Convert the content of a message: text alone, or text and images as parts."""
    if not isinstance(content, list):
        return content
    parts: list[JsonDict] = []
    for part in content:
        if part.get("type") in ("input_text", "output_text", "text"):
            parts.append({"type": "text", "text": part.get("text", "")})
        elif part.get("type") == "input_image":
            image = {"url": part.get("image_url"), "detail": part.get("detail") or "auto"}
            parts.append({"type": "image_url", "image_url": image})
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _tool(tool: JsonDict) -> JsonDict:
    if tool.get("type") != "function":
        return tool
    function = {key: value for key, value in tool.items() if key != "type"}
    return {"type": "function", "function": function}


def _thought_item(text: str) -> JsonDict:
    return {"type": "reasoning", "id": "rs_0", "summary": [{"type": "summary_text", "text": text}]}


def _message_item(text: str) -> JsonDict:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": "msg_0",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _call_item(call_id: Any, name: Any, arguments: str) -> JsonDict:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def _response(head: JsonDict, output: list[JsonDict], finish: Any, usage: Any) -> JsonDict:
    """Build a whole response from the head of the stream, its output and its usage."""
    counts = as_dict(usage)
    prompt_tokens = counts.get("prompt_tokens") or 0
    completion_tokens = counts.get("completion_tokens") or 0
    truncated = finish == "length"
    return {
        "id": head.get("id", "resp"),
        "object": "response",
        "created_at": head.get("created") or 0,
        "status": "incomplete" if truncated else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if truncated else None,
        "error": None,
        "model": head.get("model", ""),
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": prompt_tokens,
            "output_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


RESPONSES: Final = Speech(
    to_chat=_to_chat,
    from_chat=_from_chat,
    translator=_ResponsesTranslator,
    request=to_responses,
    answer=chat_of_response,
)
