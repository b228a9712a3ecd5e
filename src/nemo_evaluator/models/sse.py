"""Server-sent events: bytes to JSON objects, and the events of a stream to the whole answer they spell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import monotonic
from typing import Any, Protocol

import orjson

from nemo_evaluator.core.types import JsonDict

DONE = b"[DONE]"


class EventParser:
    """Cuts a stream of bytes into the JSON objects of its events, wherever the bytes are split."""

    def __init__(self) -> None:
        self._rest = b""
        self.done = False

    def feed(self, data: bytes) -> list[JsonDict]:
        """The objects that ``data`` completes."""
        buffer = self._rest + data if self._rest else data
        if b"\r" in buffer:
            buffer = buffer.replace(b"\r\n", b"\n")
        *events, self._rest = buffer.split(b"\n\n")
        found = []
        for event in events:
            value = self._value(event)
            if value is not None:
                found.append(value)
        return found

    def finish(self) -> list[JsonDict]:
        """The object of a last event that was not closed by a blank line."""
        rest, self._rest = self._rest.strip(), b""
        value = self._value(rest) if rest else None
        return [value] if value is not None else []

    def _value(self, event: bytes) -> JsonDict | None:
        lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
        if not lines:
            return None
        data = b"\n".join(lines)
        if data == DONE:
            self.done = True
            return None
        value = orjson.loads(data)
        return value if isinstance(value, dict) else None


class Gatherer(Protocol):
    """Puts the events of one protocol together."""

    complete: bool

    def add(self, event: JsonDict) -> bool:
        """Take an event; True when it carried something the model said."""
        ...

    def body(self) -> JsonDict:
        """The whole answer so far, as a body that did not stream."""
        ...


class ChatGatherer:
    """Chat-completion chunks to a chat completion."""

    def __init__(self) -> None:
        self.complete = False
        self._head: JsonDict = {}
        self._usage: JsonDict | None = None
        self._choices: dict[int, JsonDict] = {}
        self._calls: dict[tuple[int, int], JsonDict] = {}

    def add(self, event: JsonDict) -> bool:
        """Take a chunk."""
        if not self._head:
            self._head = {key: event[key] for key in ("id", "created", "model") if key in event}
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        spoke = False
        for choice in event.get("choices") or ():
            spoke = self._add_choice(choice) or spoke
        return spoke

    def _add_choice(self, choice: JsonDict) -> bool:
        index = choice.get("index", 0)
        kept = self._choices.setdefault(index, {"role": "assistant", "content": [], "finish": None, "logprobs": []})
        if choice.get("finish_reason"):
            kept["finish"] = choice["finish_reason"]
            self.complete = True
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and logprobs.get("content"):
            kept["logprobs"].extend(logprobs["content"])
        delta = choice.get("delta") or {}
        if delta.get("role"):
            kept["role"] = delta["role"]
        spoke = False
        for name in ("content", "reasoning_content", "reasoning"):
            text = delta.get(name)
            if text and isinstance(text, str):
                kept.setdefault(name, []).append(text)
                spoke = True
        for call in delta.get("tool_calls") or ():
            self._add_call(index, call)
            spoke = True
        return spoke

    def _add_call(self, choice: int, call: JsonDict) -> None:
        key = (choice, call.get("index", 0))
        kept = self._calls.setdefault(key, {"id": "", "name": "", "arguments": []})
        function = call.get("function") or {}
        kept["id"] = call.get("id") or kept["id"]
        kept["name"] = function.get("name") or kept["name"]
        if function.get("arguments"):
            kept["arguments"].append(function["arguments"])

    def body(self) -> JsonDict:
        """The chat completion."""
        choices = []
        for index, kept in sorted(self._choices.items()):
            message: JsonDict = {"role": kept["role"], "content": "".join(kept["content"])}
            for name in ("reasoning_content", "reasoning"):
                if name in kept:
                    message[name] = "".join(kept[name])
            calls = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["name"], "arguments": "".join(call["arguments"])},
                }
                for (choice, _), call in sorted(self._calls.items())
                if choice == index
            ]
            if calls:
                message["tool_calls"] = calls
            logprobs = {"content": kept["logprobs"]} if kept["logprobs"] else None
            choices.append({"index": index, "message": message, "finish_reason": kept["finish"], "logprobs": logprobs})
        body = {**self._head, "object": "chat.completion", "choices": choices}
        if self._usage is not None:
            body["usage"] = self._usage
        return body


class TextGatherer:
    """Text-completion chunks to a text completion."""

    def __init__(self) -> None:
        self.complete = False
        self._head: JsonDict = {}
        self._usage: JsonDict | None = None
        self._choices: dict[int, tuple[list[str], list[str | None]]] = {}

    def add(self, event: JsonDict) -> bool:
        """Take a chunk."""
        if not self._head:
            self._head = {key: event[key] for key in ("id", "created", "model") if key in event}
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        spoke = False
        for choice in event.get("choices") or ():
            texts, finish = self._choices.setdefault(choice.get("index", 0), ([], [None]))
            text = choice.get("text")
            if text and isinstance(text, str):
                texts.append(text)
                spoke = True
            if choice.get("finish_reason"):
                finish[0] = choice["finish_reason"]
                self.complete = True
        return spoke

    def body(self) -> JsonDict:
        """The text completion."""
        choices = [
            {"index": index, "text": "".join(texts), "finish_reason": finish[0]}
            for index, (texts, finish) in sorted(self._choices.items())
        ]
        body = {**self._head, "object": "text_completion", "choices": choices}
        if self._usage is not None:
            body["usage"] = self._usage
        return body


class ResponsesGatherer:
    """Events of the Responses API; the last one carries the whole answer."""

    def __init__(self) -> None:
        self.complete = False
        self._whole: JsonDict = {}

    def add(self, event: JsonDict) -> bool:
        """Take an event."""
        kind = str(event.get("type", ""))
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._whole = event.get("response") or {}
            self.complete = True
        return kind.endswith(".delta")

    def body(self) -> JsonDict:
        """The whole response."""
        return self._whole


def gatherer_of(path: str) -> Gatherer:
    """The gatherer for the protocol of a path."""
    if path.endswith("/chat/completions"):
        return ChatGatherer()
    return ResponsesGatherer() if path.endswith("/responses") else TextGatherer()


class Gathered:
    """A stream read to its end: the body, when the model first spoke, and the error the stream carried, if any."""

    __slots__ = ("body", "complete", "error", "first_token_at")

    def __init__(self) -> None:
        self.body: JsonDict = {}
        self.complete = False
        self.error: Any = None
        self.first_token_at: float | None = None


async def gather_stream(path: str, stream: AsyncIterator[bytes]) -> Gathered:
    """Read a stream to its end and put its events together."""
    parser, gatherer, result = EventParser(), gatherer_of(path), Gathered()

    def take(events: list[JsonDict]) -> None:
        for event in events:
            if event.get("error"):
                result.error = event["error"]
            elif gatherer.add(event) and result.first_token_at is None:
                result.first_token_at = monotonic()

    async for data in stream:
        take(parser.feed(data))
    take(parser.finish())
    result.body = gatherer.body()
    result.complete = gatherer.complete
    return result
