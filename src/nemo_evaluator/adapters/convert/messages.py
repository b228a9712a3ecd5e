"""Anthropic's ``/v1/messages``: a client uses it, and a chat service answers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from nemo_evaluator.adapters._streams import named_event
from nemo_evaluator.adapters.convert.base import (
    Speech,
    Translator,
    error_in,
    first_choice,
    thought_of,
)
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict, Message
from nemo_evaluator.models.chat import call_of, parse_arguments
from nemo_evaluator.models.completions import text_of

# Fields that both protocols have.
_SAME: Final = ("model", "max_tokens", "temperature", "top_p", "top_k", "stream")
_STOPS: Final = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}


class _MessagesTranslator(Translator):
    """Converts chat chunks to Messages events: one content block at a time."""

    def __init__(self) -> None:
        self._begun = False
        self._index = -1
        # Kind and number of the content block that is open.
        self._block: tuple[str, int] | None = None
        self._stop = "end_turn"
        self._usage: Any = None

    def feed(self, chunk: JsonDict) -> Iterator[bytes]:
        """Convert one chunk to events of its content blocks."""
        if chunk.get("error"):
            message = error_in(chunk).get("message", "")
            yield named_event("error", error={"type": "api_error", "message": message})
            return
        yield from self._begin(chunk)
        self._usage = chunk.get("usage") or self._usage
        choice, delta = first_choice(chunk)
        thought = thought_of(delta)
        if thought:
            block = {"type": "thinking", "thinking": "", "signature": ""}
            yield from self._open("thinking", 0, block)
            yield self._delta({"type": "thinking_delta", "thinking": thought})
        if delta.get("content"):
            yield from self._open("text", 0, {"type": "text", "text": ""})
            yield self._delta({"type": "text_delta", "text": delta["content"]})
        for call in delta.get("tool_calls") or ():
            yield from self._call(call)
        if choice.get("finish_reason"):
            self._stop = _stop(choice["finish_reason"])

    def end(self) -> Iterator[bytes]:
        """Yield the events that end the message."""
        yield from self._begin({})
        yield from self._close()
        usage = _usage(self._usage) if self._usage else {"output_tokens": 0}
        delta = {"stop_reason": self._stop, "stop_sequence": None}
        yield named_event("message_delta", delta=delta, usage=usage)
        yield named_event("message_stop")

    def _call(self, call: JsonDict) -> Iterator[bytes]:
        """Yield the events of a part of a tool call."""
        function = call.get("function") or {}
        block: JsonDict = {
            "type": "tool_use",
            "id": call.get("id"),
            "name": function.get("name"),
            "input": {},
        }
        yield from self._open("tool_use", call.get("index", 0), block)
        arguments = function.get("arguments")
        if arguments:
            yield self._delta({"type": "input_json_delta", "partial_json": arguments})

    def _begin(self, chunk: JsonDict) -> Iterator[bytes]:
        if not self._begun:
            self._begun = True
            yield named_event("message_start", message=_message(chunk, [], None, usage=None))

    def _open(self, kind: str, number: int, block: JsonDict) -> Iterator[bytes]:
        """Begin a content block, unless it is the open one."""
        if self._block != (kind, number):
            yield from self._close()
            self._block = (kind, number)
            self._index += 1
            yield named_event("content_block_start", index=self._index, content_block=block)

    def _delta(self, delta: JsonDict) -> bytes:
        return named_event("content_block_delta", index=self._index, delta=delta)

    def _close(self) -> Iterator[bytes]:
        if self._block is not None:
            self._block = None
            yield named_event("content_block_stop", index=self._index)


def _to_chat(body: JsonDict) -> JsonDict:
    """A Messages request as a chat request."""
    chat: JsonDict = {key: body[key] for key in _SAME if key in body}
    messages: list[Message] = []
    system = body.get("system")
    if system:
        messages.append({"role": "system", "content": _system_text(system)})
    for message in body.get("messages") or ():
        messages.extend(_chat_messages(message))
    chat["messages"] = messages
    if body.get("stop_sequences"):
        chat["stop"] = body["stop_sequences"]
    if body.get("tools"):
        chat["tools"] = [_tool(tool) for tool in body["tools"]]
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        chat["tool_choice"] = _tool_choice(choice)
    return chat


def _system_text(system: Any) -> str:
    if isinstance(system, str):
        return system
    return "\n\n".join(str(part.get("text", "")) for part in system)


def _tool_choice(choice: JsonDict) -> Any:
    kind = choice.get("type")
    if kind == "tool":
        return {"type": "function", "function": {"name": choice.get("name")}}
    if kind == "any":
        return "required"
    return kind


def _from_chat(body: JsonDict) -> JsonDict:
    """A chat answer as a message."""
    choice, message = first_choice(body)
    content: list[JsonDict] = []
    thought = thought_of(message)
    if thought:
        content.append({"type": "thinking", "thinking": thought, "signature": ""})
    if message.get("content"):
        content.append({"type": "text", "text": message["content"]})
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        block = {
            "type": "tool_use",
            "id": call.get("id"),
            "name": function.get("name"),
            "input": parse_arguments(function.get("arguments")),
        }
        content.append(block)
    return _message(body, content, _stop(choice.get("finish_reason")), usage=body.get("usage"))


@dataclass(slots=True)
class _MessageParts:
    """What a message of the Messages API contains, in the form of chat."""

    tool_results: list[Message] = field(default_factory=list)
    content: list[JsonDict] = field(default_factory=list)
    tool_calls: list[JsonDict] = field(default_factory=list)

    def add(self, block: JsonDict) -> None:
        """Add a content block; blocks of other types are left out."""
        kind = block.get("type")
        if kind == "text":
            self.content.append({"type": "text", "text": block.get("text", "")})
        elif kind == "image":
            url = _image(block.get("source") or {})
            self.content.append({"type": "image_url", "image_url": {"url": url}})
        elif kind == "tool_use":
            arguments = orjson.dumps(block.get("input") or {}).decode()
            self.tool_calls.append(call_of(block.get("id"), block.get("name"), arguments))
        elif kind == "tool_result":
            result = {
                "role": "tool",
                "tool_call_id": block.get("tool_use_id"),
                "content": text_of(block.get("content")),
            }
            self.tool_results.append(result)


def _chat_messages(message: Message) -> Iterable[Message]:
    """One message of the Messages API as chat messages: tool results become messages of their own."""
    role = message.get("role")
    content = message.get("content")
    if not isinstance(content, list):
        yield {"role": role, "content": content}
        return
    parts = _MessageParts()
    for block in content:
        parts.add(block)
    yield from parts.tool_results
    if not parts.content and not parts.tool_calls:
        return
    chat_content: Any = parts.content
    if all(part["type"] == "text" for part in parts.content):
        chat_content = "\n".join(part["text"] for part in parts.content)
    chat_message: Message = {"role": role, "content": chat_content or None}
    if parts.tool_calls:
        chat_message["tool_calls"] = parts.tool_calls
    yield chat_message


def _image(source: JsonDict) -> str:
    if source.get("type") == "base64":
        return f"data:{source.get('media_type', 'image/png')};base64,{source.get('data', '')}"
    return str(source.get("url", ""))


def _tool(tool: JsonDict) -> JsonDict:
    function = {
        "name": tool.get("name"),
        "parameters": tool.get("input_schema") or {"type": "object"},
    }
    if tool.get("description"):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def _stop(reason: Any) -> str:
    return _STOPS.get(str(reason), "end_turn")


def _usage(usage: Any) -> JsonDict:
    counts = as_dict(usage)
    return {
        "input_tokens": counts.get("prompt_tokens") or 0,
        "output_tokens": counts.get("completion_tokens") or 0,
    }


def _message(head: JsonDict, content: list[JsonDict], stop: str | None, usage: Any) -> JsonDict:
    """Build a message from the head of a stream, its content and its usage."""
    return {
        "id": head.get("id", "msg"),
        "type": "message",
        "role": "assistant",
        "model": head.get("model", ""),
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": _usage(usage),
    }


MESSAGES: Final = Speech(to_chat=_to_chat, from_chat=_from_chat, translator=_MessagesTranslator)
