"""Bodies of requests as JSON: how many values are in them, and how deep, is known before they are parsed.

A text of nested lists takes fifty times its size once it is parsed, and while it is parsed nobody else is served.
"""

import asyncio
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


class TooManyValuesError(ValueError):
    """A body has more values or levels than are taken."""


async def parsed(raw: bytes) -> tuple[JsonDict | None, int]:
    """The object that a body holds (None when it holds anything else), and how many values it has at most. Raises
    TooManyValuesError."""
    if len(raw) < _LARGE:
        return _parse(raw)
    return await asyncio.get_running_loop().run_in_executor(_one_at_a_time, _parse, raw)


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
