"""Any Python value as plain JSON data, for values that orjson refuses: slower, and it never fails.

Surrogates become U+FFFD, integers beyond 64 bits become texts of their digits, and objects become their ``str``. A note
replaces circular references and values that are nested deeper than 200 levels. NaN and infinities become null, as in
orjson.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, Final

import orjson

from nemo_evaluator.core.text import text_of, valid_text

DEEPEST: Final = 200
_LONGEST_INT: Final = 4000
_AS_TEXT: Final = (
    orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
)


def plain(value: Any, unknown: Callable[[Any], Any] = text_of) -> Any:
    """Convert a value to one that orjson can write.

    Args:
        value: Any value.
        unknown: Converts objects that have no form in JSON.
    """
    return _plain(value, unknown, ())


def _plain(value: Any, unknown: Callable[[Any], Any], around: tuple[int, ...]) -> Any:
    """Convert a value inside others; ``around`` holds the ids of those."""
    if isinstance(value, str):
        return valid_text(str(value))
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return _whole(int(value))
    if len(around) > DEEPEST:
        return None
    is_record = is_dataclass(value) and not isinstance(value, type)
    if is_record or isinstance(value, dict | list | tuple):
        return _container(value, unknown, around)
    try:
        # Dates, UUIDs, enums, arrays: other types that orjson knows.
        return orjson.loads(orjson.dumps(value, option=_AS_TEXT))
    except TypeError:
        converted = unknown(value)
    if isinstance(converted, str):
        return converted
    return _plain(converted, unknown, (*around, id(value)))


def _container(value: Any, unknown: Callable[[Any], Any], around: tuple[int, ...]) -> Any:
    """Convert a mapping, a sequence or a dataclass."""
    if len(around) >= DEEPEST:
        return f"[nested deeper than {DEEPEST} levels]"
    if id(value) in around:
        return "[circular]"
    around = (*around, id(value))
    if isinstance(value, dict):
        return {_key(key): _plain(item, unknown, around) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, unknown, around) for item in value]
    members: dict[str, Any] = {}
    for field in fields(value):
        members[field.name] = _plain(getattr(value, field.name, None), unknown, around)
    return members


def _key(key: Any) -> str:
    if key is None or isinstance(key, bool):
        return orjson.dumps(key).decode()
    return text_of(key)


def _whole(value: int) -> int | str:
    if -(2**63) <= value < 2**64:
        return value
    bits = value.bit_length()
    if bits < 3 * _LONGEST_INT:
        return str(value)
    return f"[a whole number of {bits} bits]"
