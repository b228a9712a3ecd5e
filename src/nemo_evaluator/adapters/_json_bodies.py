"""Bodies of requests as JSON: how many values are in them, and how deep, is known before they are parsed.

A text of nested lists takes fifty times its size once it is parsed, and while it is parsed nobody else is served.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Final

import orjson

from nemo_evaluator.core.types import JsonDict

#: Values in one body, and levels of nesting.
MOST_VALUES: Final = 400_000
MOST_LEVELS: Final = 200
#: What a value takes in memory, about.
VALUE_SIZE: Final = 240
# Smaller bodies are parsed at once; a thread would take longer.
_LARGE: Final = 2**19
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS: Final = bytes([code for code in range(256) if code not in _STEPS])
# Few enough in any order.
_HARMLESS: Final = 1000
# One large body is parsed at a time: each takes the interpreter from everybody else.
_one_at_a_time: Final = ThreadPoolExecutor(1, thread_name_prefix="nel-json")


# How long nothing large is parsed after a large body, in times that the body took.
_REST: Final = 4.0
_LONGEST_REST: Final = 3.0


class TooManyValuesError(ValueError):
    """A body has more values or levels than are taken."""


async def parsed(raw: bytes) -> tuple[JsonDict | None, int]:
    """The object that a body holds (None when it holds anything else), and how many values it has at most. Raises
    TooManyValuesError."""
    if len(raw) < _LARGE:
        return _parse(raw)
    return await asyncio.get_running_loop().run_in_executor(_one_at_a_time, _turns.parse, raw)


class _Turns:
    """Parses large bodies, and rests after each: while a text of 60 MB is parsed, nobody else has the interpreter for a
    tenth of a second or more, thread or not. Whoever sends one after the other still takes only a share of it."""

    def __init__(self) -> None:
        self._rests_until = 0.0

    def parse(self, raw: bytes) -> tuple[JsonDict | None, int]:
        """See ``_parse``; in the one thread that parses large bodies."""
        time.sleep(max(0.0, self._rests_until - time.monotonic()))
        began = time.thread_time()
        try:
            return _parse(raw)
        finally:
            rest = _REST * (time.thread_time() - began)
            self._rests_until = time.monotonic() + min(rest, _LONGEST_REST)


def count_values(raw: bytes) -> int:
    """How many values a body has at most. Raises TooManyValuesError for more than are taken, or too many levels."""
    if _separators(raw) <= _HARMLESS and raw.count(b"[") + raw.count(b"{") <= MOST_LEVELS:
        return 0
    structure = _structure(raw)
    values = _separators(structure)
    if values > MOST_VALUES:
        raise TooManyValuesError(f"the body holds more than {MOST_VALUES:,} values")
    brackets = structure.translate(None, _NOT_BRACKETS)
    if len(brackets) > MOST_LEVELS:
        levels = max(accumulate(map(_STEPS.__getitem__, brackets)))
        if levels > MOST_LEVELS:
            raise TooManyValuesError(f"the body is nested in more than {MOST_LEVELS} levels")
    return values


def _parse(raw: bytes) -> tuple[JsonDict | None, int]:
    values = count_values(raw)
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None, 0
    return (body if isinstance(body, dict) else None), values


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _structure(raw: bytes) -> bytes:
    """A body without its strings."""
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    if raw.count(b'"') > 4 * MOST_VALUES:
        raise TooManyValuesError(f"the body holds more than {2 * MOST_VALUES:,} strings")
    return b"".join(raw.split(b'"')[::2])


_turns: Final = _Turns()
