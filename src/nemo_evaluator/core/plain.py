"""Any Python value as plain JSON data, for what orjson refuses: the slow way, and the one that always ends well.
Surrogates become U+FFFD, whole numbers beyond 64 bits their digits as text, objects their ``str``, circles and what is
nested deeper than 200 levels a note. NaN and infinities are null, as orjson has them."""

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
    """A value that orjson can write; ``unknown`` stands for objects that JSON does not know."""
    return _plain(value, unknown, ())


def _plain(value: Any, unknown: Callable[[Any], Any], inside: tuple[int, ...]) -> Any:
    if isinstance(value, str):
        return valid_text(str(value))
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return _whole(int(value))
    if len(inside) > DEEPEST:
        return None
    if isinstance(value, dict | list | tuple) or (
        is_dataclass(value) and not isinstance(value, type)
    ):
        if len(inside) >= DEEPEST or id(value) in inside:
            if len(inside) >= DEEPEST:
                return f"[nested deeper than {DEEPEST} levels]"
            return "[circular]"
        inside = (*inside, id(value))
        if isinstance(value, dict):
            return {_key(key): _plain(item, unknown, inside) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [_plain(item, unknown, inside) for item in value]
        mapping: dict[Any, Any] = {}
        for field in fields(value):
            mapping[field.name] = _plain(getattr(value, field.name, None), unknown, inside)
        return mapping
    try:
        # Dates, UUIDs, enums, arrays: what orjson knows besides.
        return orjson.loads(orjson.dumps(value, option=_AS_TEXT))
    except TypeError:
        given = unknown(value)
    if isinstance(given, str):
        return given
    return _plain(given, unknown, (*inside, id(value)))


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
