"""Values of JSON files that others may have written: what has not the shape it should have counts as not there."""

from typing import Any, Final

from nemo_evaluator.core.types import JsonDict

# Nothing that is counted or measured here is larger; what claims to be is an accident.
_MOST: Final = 1e15


def as_dict(value: Any) -> JsonDict:
    """A JSON object, or an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """A JSON array, or an empty one."""
    return value if isinstance(value, list) else []


def as_number(value: Any) -> float | None:
    """A finite number, or None; true and false are no numbers."""
    # A number that is none (NaN) is in no range either.
    fits = isinstance(value, int | float) and not isinstance(value, bool) and -_MOST <= value <= _MOST
    return value if fits else None


def as_count(value: Any) -> int | None:
    """A whole number from 0 on, or None."""
    number = as_number(value)
    return None if number is None or number < 0 else int(number)


def as_word(value: Any, longest: int = 200) -> str:
    """A short text, or an empty one."""
    return value[:longest] if isinstance(value, str) else ""


def as_whole(value: Any) -> int | None:
    """A number without its fraction, or None."""
    number = as_number(value)
    return None if number is None else int(number)
