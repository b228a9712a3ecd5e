"""Bodies of requests as JSON: their values and levels are counted before they are parsed.

A text of nested lists takes fifty times its size once it is parsed, and nothing else is served while it is parsed.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Final, NamedTuple

import orjson

from nemo_evaluator.core.types import JsonDict

#: The largest number of values in one body, and of levels of nesting.
MOST_VALUES: Final = 400_000
MOST_LEVELS: Final = 200
#: About how many bytes of memory a value takes.
VALUE_SIZE: Final = 240
# Smaller bodies are parsed immediately; a thread would take longer.
_LARGE: Final = 2**19
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS: Final = bytes([code for code in range(256) if code not in _STEPS])
# So few separators cannot make too many values, wherever they are.
_HARMLESS: Final = 1000
# One large body is parsed at a time: nothing else runs meanwhile.
_one_at_a_time: Final = ThreadPoolExecutor(1, thread_name_prefix="nel-json")
# The pause after a large body, as a multiple of the time it took to parse, and at most.
_REST: Final = 4.0
_LONGEST_REST: Final = 3.0


class TooManyValuesError(ValueError):
    """A body has too many values or levels."""


class ParsedBody(NamedTuple):
    """A parsed body.

    Attributes:
        body: The JSON object; None if the text holds anything else.
        values: An upper bound for the number of values in it.
    """

    body: JsonDict | None
    values: int


async def parsed(raw: bytes) -> ParsedBody:
    """Parse the body of a request.

    Raises:
        TooManyValuesError: The body has too many values or levels.
    """
    if len(raw) < _LARGE:
        return _parse(raw)
    return await asyncio.get_running_loop().run_in_executor(_one_at_a_time, _turns.parse, raw)


class _Turns:
    """Parses large bodies, and pauses after each.

    While 60 MB of JSON are parsed, nothing else runs for a tenth of a second or more, thread or not. With the pauses,
    a client that sends one after the other takes only a share of the time.
    """

    def __init__(self) -> None:
        self._rests_until = 0.0

    def parse(self, raw: bytes) -> ParsedBody:
        """Parse a body; called only in the thread for large bodies."""
        time.sleep(max(0.0, self._rests_until - time.monotonic()))
        began = time.thread_time()
        try:
            return _parse(raw)
        finally:
            pause = _REST * (time.thread_time() - began)
            self._rests_until = time.monotonic() + min(pause, _LONGEST_REST)


def count_values(raw: bytes) -> int:
    """An upper bound for the number of values in a body; 0 for a harmless one, which is not counted.

    Raises:
        TooManyValuesError: The body has too many values or levels.
    """
    opening_brackets = raw.count(b"[") + raw.count(b"{")
    if _separators(raw) <= _HARMLESS and opening_brackets <= MOST_LEVELS:
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


def _parse(raw: bytes) -> ParsedBody:
    values = count_values(raw)
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return ParsedBody(None, 0)
    if not isinstance(body, dict):
        return ParsedBody(None, values)
    return ParsedBody(body, values)


def _separators(text: bytes) -> int:
    """The number of commas and opening brackets: at least one precedes every value but the first."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _structure(raw: bytes) -> bytes:
    """A body without its strings."""
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    if raw.count(b'"') > 4 * MOST_VALUES:
        raise TooManyValuesError(f"the body holds more than {2 * MOST_VALUES:,} strings")
    return b"".join(raw.split(b'"')[::2])


_turns: Final = _Turns()
