"""The contract of a spoken protocol: its requests to chat, and chat answers and events back to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nemo_evaluator.core.types import JsonDict


class Translator(Protocol):
    """Turns chat-completion chunks, one at a time, into the bytes of another protocol's stream."""

    def feed(self, chunk: JsonDict) -> bytes:
        """The bytes for one chunk."""
        ...

    def end(self) -> bytes:
        """The bytes that close the stream."""
        ...


class Speech(Protocol):
    """A protocol that an asker speaks."""

    def to_chat(self, body: JsonDict) -> JsonDict:
        """Its request as a chat request."""
        ...

    def from_chat(self, body: JsonDict) -> JsonDict:
        """A chat answer as its answer."""
        ...

    def translator(self, body: JsonDict) -> Translator:
        """A translator for the stream that answers the request ``body``."""
        ...


def first_choice(body: JsonDict) -> tuple[JsonDict, JsonDict]:
    """The first choice of a chat answer or chunk, and its message or delta; empty where there is none."""
    choices: Sequence[JsonDict] = body.get("choices") or ()
    choice = choices[0] if choices else {}
    return choice, choice.get("message") or choice.get("delta") or {}
