"""Secrets are a type: they print as ``***`` and leave only through ``reveal()``."""

from __future__ import annotations

from typing import Any, Final

MASK: Final = "***"


class Secret:
    """A value that must not reach a file, a log, a process list or an error message."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        _known.add(value)

    def reveal(self) -> str:
        """The value itself; call it only where it goes on the wire."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    def __str__(self) -> str:
        return MASK

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    def __reduce__(self) -> Any:
        raise TypeError("a Secret is not pickled")


_known: set[str] = set()
_SHORTEST: Final = 6


def scrub(text: str) -> str:
    """Replace every secret value this process has seen by ``***`` (values under six characters are left alone)."""
    for value in _known:
        if len(value) >= _SHORTEST and value in text:
            text = text.replace(value, MASK)
    return text
