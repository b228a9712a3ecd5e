"""Server-sent events: bytes to JSON objects, and the events of a stream to the whole answer they spell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from time import monotonic
from typing import Any, Final, Protocol

import orjson

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.shapes import as_dict
from nemo_evaluator.core.types import JsonDict

DONE = b"[DONE]"
_BLANK: Final = (b"", b"\r")
# More alternatives or tool calls than anybody asks for.
_MOST: Final = 1024


class EventParser:
    """Cuts a stream of bytes into the JSON objects of its events, wherever the bytes are split.

    Comments and other fields are not kept. An event that is not JSON raises TransportError.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._event: bytes | bytearray = b""
        self.done = False

    def feed(self, data: bytes) -> list[JsonDict]:
        """The objects that ``data`` completes."""
        lines = data.split(b"\n")
        last = lines.pop()
        if lines and self._rest:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
        if last:
            self._rest.append(last)
        found = []
        for line in lines:
            if line.startswith(b"data:"):
                self._add(line)
            elif self._event and line in _BLANK and (value := self._value()) is not None:
                found.append(value)
        return found

    def finish(self) -> list[JsonDict]:
        """The object of a last event that was not closed by a blank line."""
        return self.feed(b"\n\n")

    def _add(self, line: bytes) -> None:
        data = line[5:].strip()
        if not self._event:
            self._event = data
            return
        if not isinstance(self._event, bytearray):
            self._event = bytearray(self._event)
        self._event += b"\n"
        self._event += data

    def _value(self) -> JsonDict | None:
        data, self._event = self._event, b""
        if data == DONE:
            self.done = True
            return None
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise malformed(f"an event is not JSON: {error}") from error
        return value if isinstance(value, dict) else None


def malformed(what: str) -> TransportError:
    """The error of a stream that does not follow its protocol."""
    return TransportError(f"the stream does not follow the protocol: {what}")


def _objects(value: Any, what: str) -> Iterable[JsonDict]:
    """The objects of a list that may be missing."""
    if not value:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise malformed(f"{what} is not a list of objects")
    return value


def _index(item: JsonDict) -> int:
    index = item.get("index") or 0
    if type(index) is not int or not 0 <= index < _MOST:
        raise malformed("an index is not a small number")
    return index


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
        for choice in _objects(event.get("choices"), "choices"):
            spoke = self._add_choice(choice) or spoke
        return spoke

    def _add_choice(self, choice: JsonDict) -> bool:
        index = _index(choice)
        kept = self._choices.setdefault(index, {"role": "assistant", "content": [], "finish": None, "logprobs": []})
        if choice.get("finish_reason"):
            kept["finish"] = choice["finish_reason"]
            self.complete = True
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and logprobs.get("content"):
            kept["logprobs"].extend(_objects(logprobs["content"], "logprobs"))
        delta = as_dict(choice.get("delta"))
        if delta.get("role"):
            kept["role"] = delta["role"]
        spoke = False
        for name in ("content", "reasoning_content", "reasoning"):
            text = delta.get(name)
            if text and isinstance(text, str):
                kept.setdefault(name, []).append(text)
                spoke = True
        for call in _objects(delta.get("tool_calls"), "tool_calls"):
            self._add_call(index, call)
            spoke = True
        return spoke

    def _add_call(self, choice: int, call: JsonDict) -> None:
        key = (choice, _index(call))
        kept = self._calls.setdefault(key, {"id": "", "name": "", "arguments": []})
        function = as_dict(call.get("function"))
        kept["id"] = call.get("id") or kept["id"]
        kept["name"] = function.get("name") or kept["name"]
        arguments = function.get("arguments")
        if arguments:
            kept["arguments"].append(arguments if isinstance(arguments, str) else dumps(arguments).decode())

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
        for choice in _objects(event.get("choices"), "choices"):
            texts, finish = self._choices.setdefault(_index(choice), ([], [None]))
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
        kind = event.get("type")
        if not isinstance(kind, str):
            return False
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._whole = as_dict(event.get("response"))
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
