"""Values of JSON files that others may have written: what has not the shape it should have counts as not there."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from nemo_evaluator.core.types import JsonDict

# Nothing that is counted or measured here is larger; what claims to be is an accident.
_MOST: Final = 1e15
T = TypeVar("T")


def as_dict(value: Any) -> JsonDict:
    """A JSON object, or an empty one."""
    if isinstance(value, dict):
        return value
    return {}


def as_list(value: Any) -> list[Any]:
    """A JSON array, or an empty one."""
    if isinstance(value, list):
        return value
    return []


def as_number(value: Any) -> float | None:
    """A finite number, or None; true and false are no numbers."""
    # A number that is none (NaN) is in no range either.
    fits = (
        isinstance(value, int | float) and not isinstance(value, bool) and -_MOST <= value <= _MOST
    )
    return value if fits else None


def as_count(value: Any) -> int | None:
    """A whole number from 0 on, or None."""
    number = as_number(value)
    if number is None or number < 0:
        return None
    return int(number)


def as_word(value: Any, longest: int = 200) -> str:
    """A short text, or an empty one."""
    if isinstance(value, str):
        return value[:longest]
    return ""


def as_whole(value: Any) -> int | None:
    """A number without its fraction, or None."""
    number = as_number(value)
    if number is None:
        return None
    return int(number)


def as_total(value: Any) -> int:
    """A number without its fraction, or 0."""
    return as_whole(value) or 0


def as_text(value: Any) -> str:
    """A text, or what stands in its place as one; empty for nothing."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return str(value)


class Field(Generic[T]):
    """A field of a class that holds JSON, read when it is asked for: ``model = Field("config.model", as_text, "...")``
    reads ``model`` of what the attribute ``config`` holds."""

    def __init__(self, place: str, read: Callable[[Any], T], doc: str) -> None:
        self._holder, self._name = place.split(".")
        self._read = read
        self.__doc__ = doc

    def __get__(self, instance: Any, owner: type) -> T:
        return self._read(getattr(instance, self._holder).get(self._name))
