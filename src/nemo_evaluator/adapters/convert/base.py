"""The contract of a spoken protocol: its requests to chat, and chat answers and events back to it."""

from collections.abc import Sequence
from typing import Any, ClassVar

from nemo_evaluator.adapters._streams import DONE, encode_event
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict


class Translator:
    """Turns chat-completion chunks, one at a time, into the bytes of another protocol's stream; chat stays as it is."""

    def feed(self, chunk: JsonDict) -> bytes:
        """The bytes for one chunk."""
        return encode_event(chunk)

    def end(self) -> bytes:
        """The bytes that close the stream."""
        return DONE


class Speech:
    """A protocol that an asker speaks; chat itself stays as it is."""

    # Of a stream.
    translator: ClassVar[type[Translator]] = Translator

    def to_chat(self, body: JsonDict) -> JsonDict:
        """Its request as a chat request."""
        return body

    def from_chat(self, body: JsonDict) -> JsonDict:
        """A chat answer as its answer."""
        return body


def first_choice(body: JsonDict) -> tuple[JsonDict, JsonDict]:
    """The first choice of a chat answer or chunk, and its message or delta; empty where there is none."""
    choices: Sequence[JsonDict] = body.get("choices") or ()
    choice = choices[0] if choices else {}
    return choice, choice.get("message") or choice.get("delta") or {}


def thought_of(message: JsonDict) -> str:
    """The reasoning of a message or delta, under either of its names."""
    return message.get("reasoning_content") or message.get("reasoning") or ""


def error_in(chunk: JsonDict) -> JsonDict:
    """The error that a chunk carries."""
    return as_dict(chunk["error"]) or {"message": str(chunk["error"])}


def call_of(call_id: Any, name: Any, arguments: Any) -> JsonDict:
    """A tool call of a chat message."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
