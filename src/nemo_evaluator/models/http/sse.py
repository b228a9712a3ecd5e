"""Server-sent events: bytes to JSON objects, and the events of a stream to the whole answer."""

from collections.abc import Iterable
from time import monotonic
from typing import Any, Final

import orjson

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict

DONE = b"[DONE]"
_BLANK: Final = (b"", b"\r")
# The largest number of choices or tool calls; nobody requests more.
_MOST: Final = 1024


class EventParser:
    """Parses a stream of bytes into the JSON objects of its events, wherever the bytes are split.

    Comments and other fields are dropped. An event that is not JSON raises TransportError.

    Attributes:
        done: The server has sent ``[DONE]``.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._event: bytes | bytearray = b""
        self.done = False

    def feed(self, data: bytes) -> list[JsonDict]:
        """Return the objects that ``data`` completes."""
        lines = data.split(b"\n")
        incomplete_line = lines.pop()
        if lines and self._rest:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
        if incomplete_line:
            self._rest.append(incomplete_line)
        objects: list[JsonDict] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._add(line)
            elif self._event and line in _BLANK:
                value = self._value()
                if value is not None:
                    objects.append(value)
        return objects

    def finish(self) -> list[JsonDict]:
        """Return the object of a last event that was not closed by a blank line."""
        return self.feed(b"\n\n")

    def _add(self, line: bytes) -> None:
        """Add a data line to the current event; nearly every event has only one."""
        data = line[5:].strip()
        if not self._event:
            self._event = data
            return
        if not isinstance(self._event, bytearray):
            self._event = bytearray(self._event)
        self._event += b"\n"
        self._event += data

    def _value(self) -> JsonDict | None:
        """Return the object of the complete event, if it contains one."""
        data = self._event
        self._event = b""
        if data == DONE:
            self.done = True
            return None
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise malformed(f"an event is not JSON: {error}") from error
        if isinstance(value, dict):
            return value
        return None


def malformed(detail: str) -> TransportError:
    """The error of a stream that does not follow its protocol."""
    return TransportError(f"the stream does not follow the protocol: {detail}")


def _objects(value: Any, name: str) -> Iterable[JsonDict]:
    """The objects of a list that may be missing; ``name`` is for the error."""
    if not value:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise malformed(f"{name} is not a list of objects")
    return value


def _index(item: JsonDict) -> int:
    """The index of a choice or tool call."""
    index = item.get("index") or 0
    if type(index) is not int or not 0 <= index < _MOST:
        raise malformed("an index is not a small number")
    return index


class Gatherer:
    """Combines the events of a stream into the whole answer; this base class does so for text completions.

    Attributes:
        complete: A finish reason has arrived.
    """

    def __init__(self) -> None:
        self.complete = False
        self._head: JsonDict = {}
        self._usage: JsonDict | None = None
        self._choices: dict[int, JsonDict] = {}

    def add(self, event: JsonDict) -> bool:
        """Add an event. Returns whether it contained output of the model."""
        if not self._head:
            self._head = {key: event[key] for key in ("id", "created", "model") if key in event}
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        has_output = False
        for choice in _objects(event.get("choices"), "choices"):
            gathered_choice = self._choices.setdefault(
                _index(choice), {"texts": [], "finish_reason": None}
            )
            if choice.get("finish_reason"):
                gathered_choice["finish_reason"] = choice["finish_reason"]
                self.complete = True
            has_output = self._take(choice, gathered_choice) or has_output
        return has_output

    def body(self) -> JsonDict:
        """Return the whole answer so far, as a body that was not streamed."""
        choices: list[dict[str, Any]] = []
        for index, gathered_choice in sorted(self._choices.items()):
            head = {"index": index, "finish_reason": gathered_choice["finish_reason"]}
            choices.append({**head, **self._content(gathered_choice)})
        usage = {"usage": self._usage} if self._usage is not None else {}
        return {**self._head, "object": self._kind, "choices": choices, **usage}

    _kind = "text_completion"

    def _take(self, choice: JsonDict, kept: JsonDict) -> bool:
        """Add the text of a choice. Returns whether there was any."""
        text = choice.get("text")
        if not text or not isinstance(text, str):
            return False
        kept["texts"].append(text)
        return True

    def _content(self, kept: JsonDict) -> JsonDict:
        """The whole content of a choice."""
        return {"text": "".join(kept["texts"])}


class ChatGatherer(Gatherer):
    """Combines chat-completion chunks into a chat completion."""

    _kind = "chat.completion"

    def _take(self, choice: JsonDict, kept: JsonDict) -> bool:
        """Add the log-probabilities, role, texts and tool calls of a chunk. Returns whether it had output."""
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and logprobs.get("content"):
            kept.setdefault("logprobs", []).extend(_objects(logprobs["content"], "logprobs"))
        delta = as_dict(choice.get("delta"))
        if delta.get("role"):
            kept["role"] = delta["role"]
        has_output = False
        for name in ("content", "reasoning_content", "reasoning"):
            text = delta.get(name)
            if text and isinstance(text, str):
                kept.setdefault(name, []).append(text)
                has_output = True
        for call in _objects(delta.get("tool_calls"), "tool_calls"):
            self._take_call(call, kept.setdefault("calls", {}))
            has_output = True
        return has_output

    def _take_call(self, call: JsonDict, calls: dict[int, JsonDict]) -> None:
        """Add a part of a tool call; arguments arrive in pieces."""
        gathered_call = calls.setdefault(_index(call), {"id": "", "name": "", "arguments": []})
        function = as_dict(call.get("function"))
        gathered_call["id"] = call.get("id") or gathered_call["id"]
        gathered_call["name"] = function.get("name") or gathered_call["name"]
        arguments = function.get("arguments")
        if not arguments:
            return
        if not isinstance(arguments, str):
            arguments = dumps(arguments).decode()
        gathered_call["arguments"].append(arguments)

    def _content(self, kept: JsonDict) -> JsonDict:
        """Return the whole message of a choice, and its log-probabilities."""
        message: JsonDict = {
            "role": kept.get("role", "assistant"),
            "content": "".join(kept.get("content", ())),
        }
        for name in ("reasoning_content", "reasoning"):
            if name in kept:
                message[name] = "".join(kept[name])
        if "calls" in kept:
            calls: list[JsonDict] = []
            for _, call in sorted(kept["calls"].items()):
                function = {"name": call["name"], "arguments": "".join(call["arguments"])}
                calls.append({"id": call["id"], "type": "function", "function": function})
            message["tool_calls"] = calls
        logprobs = {"content": kept["logprobs"]} if "logprobs" in kept else None
        return {"message": message, "logprobs": logprobs}


class ResponsesGatherer(Gatherer):
    """Combines events of the Responses API; the last one contains the whole answer."""

    def add(self, event: JsonDict) -> bool:
        """Add an event. Returns whether it contained output of the model."""
        kind = event.get("type")
        if not isinstance(kind, str):
            return False
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._head = as_dict(event.get("response"))
            self.complete = True
        return kind.endswith(".delta")

    def body(self) -> JsonDict:
        """Return the whole response."""
        return self._head


class StreamReader:
    """Parses a stream while it passes, and gathers the whole answer.

    Attributes:
        gathered: The answer so far.
        error: The error that the stream contained instead of an answer.
        first_token_at: When the first output of the model arrived.
    """

    def __init__(self, path: str) -> None:
        """Read the answer to a request for ``path``."""
        self._parser = EventParser()
        if path.endswith("/chat/completions"):
            self.gathered: Gatherer = ChatGatherer()
        elif path.endswith("/responses"):
            self.gathered = ResponsesGatherer()
        else:
            self.gathered = Gatherer()
        self.error: Any = None
        self.first_token_at: float | None = None

    @property
    def done(self) -> bool:
        """Whether the server has sent the end of the stream."""
        return self._parser.done

    def feed(self, data: bytes) -> list[JsonDict]:
        """Return the events that ``data`` completes."""
        return self._take(self._parser.feed(data))

    def finish(self) -> list[JsonDict]:
        """Return the last event, if no blank line followed it."""
        return self._take(self._parser.finish())

    def _take(self, events: list[JsonDict]) -> list[JsonDict]:
        for event in events:
            # In the Responses API an error is an event of its own, with its fields next to the type.
            if event.get("error") or event.get("type") == "error":
                self.error = event.get("error") or event
            elif self.gathered.add(event) and self.first_token_at is None:
                self.first_token_at = monotonic()
        return events
