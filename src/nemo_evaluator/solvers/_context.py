"""Fitting a conversation into a model's context without leaving a tool result behind its call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import Message

CHARS_PER_TOKEN: Final = 4
_SHORT: Final = 200


def size_of(messages: Sequence[Message]) -> int:
    """The length of a conversation, in tokens by rule of thumb."""
    return sum(len(dumps(message)) for message in messages) // CHARS_PER_TOKEN


def fit(messages: list[Message], budget: int) -> list[Message]:
    """The conversation within ``budget`` tokens: first old tool output goes, then whole old turns.

    A turn is an assistant message with the results of its calls; it stays or goes as one. What stands before the first
    turn (system prompt, question) and the last turn always stay. The messages given are not changed.
    """
    if size_of(messages) <= budget:
        return messages
    lead, turns = split(messages)
    for at in range(len(turns) - 1):
        turns[at] = [_emptied(message) for message in turns[at]]
        if size_of([*lead, *_flat(turns)]) <= budget:
            return [*lead, *_flat(turns)]
    gone = 0
    while len(turns) > 1 and size_of([*lead, *_flat(turns)]) > budget:
        turns.pop(0)
        gone += 1
    return [*_noted(lead, gone), *_flat(turns)]


def split(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """What stands before the first assistant message, and the turns after it."""
    lead: list[Message] = []
    turns: list[list[Message]] = []
    for message in messages:
        if message.get("role") == "assistant":
            turns.append([message])
        elif turns:
            turns[-1].append(message)
        else:
            lead.append(message)
    return lead, turns


def _flat(turns: Sequence[Sequence[Message]]) -> list[Message]:
    return [message for turn in turns for message in turn]


def _emptied(message: Message) -> Message:
    content = message.get("content")
    if message.get("role") != "tool" or not isinstance(content, str) or len(content) <= _SHORT:
        return message
    return {**message, "content": f"[{len(content)} characters of output left out to fit the context]"}


def _noted(lead: list[Message], gone: int) -> list[Message]:
    """The question with a note. A message of its own would break templates that want roles to alternate."""
    note = f"[{gone} earlier turns left out to fit the context]"
    at = next((at for at in reversed(range(len(lead))) if lead[at].get("role") == "user"), None)
    if at is None or gone == 0:
        return lead
    content: Any = lead[at].get("content")
    if isinstance(content, list):
        content = [*content, {"type": "text", "text": note}]
    else:
        content = f"{content}\n\n{note}"
    return [*lead[:at], {**lead[at], "content": content}, *lead[at + 1 :]]
