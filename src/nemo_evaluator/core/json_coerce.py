"""Values of JSON files that others may have written: a value of the wrong shape counts as missing."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from nemo_evaluator.core.types import JsonDict

# Larger than any count or measurement in a run: such a number is corrupt.
_MOST: Final = 1e15
T = TypeVar("T")


def as_dict(value: Any) -> JsonDict:
    """Return a JSON object; an empty one for any other value."""
    if isinstance(value, dict):
        return value
    return {}


def as_list(value: Any) -> list[Any]:
    """Return a JSON array; an empty one for any other value."""
    if isinstance(value, list):
        return value
    return []


def as_number(value: Any) -> float | None:
    """Return a finite number; None for any other value, also for true and false."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # NaN fails the range check too.
    if -_MOST <= value <= _MOST:
        return value
    return None


def as_count(value: Any) -> int | None:
    """Return a number from 0 on without its fraction; None for any other value."""
    number = as_number(value)
    if number is None or number < 0:
        return None
    return int(number)


def as_word(value: Any, longest: int = 200) -> str:
    """Return the first characters of a text; an empty text for any other value."""
    if isinstance(value, str):
        return value[:longest]
    return ""


def as_whole(value: Any) -> int | None:
    """Return a number without its fraction; None for any other value."""
    number = as_number(value)
    if number is None:
        return None
    return int(number)


def as_total(value: Any) -> int:
    """Return a number without its fraction; 0 for any other value."""
    return as_whole(value) or 0


def as_text(value: Any) -> str:
    """Return a text, or another value converted to one; empty for null."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return str(value)


class Field(Generic[T]):
    """A field of a JSON object, as a property of the class that holds the object.

    ``model = Field("config.model", as_text, "...")`` reads ``model`` of the object in the attribute ``config``.
    """

    def __init__(self, place: str, read: Callable[[Any], T], doc: str) -> None:
        self._holder, self._name = place.split(".")
        self._read = read
        self.__doc__ = doc

    def __get__(self, instance: Any, owner: type) -> T:
        return self._read(getattr(instance, self._holder).get(self._name))
