"""Exceptions of the program, rebuilt in the judge."""

from __future__ import annotations

import builtins

from . import values
from .proxies import Remote

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from typing import Any


def exception_type(name: str, base: type[Exception], number: int) -> type[Exception]:
    """Make the class that represents a class of exceptions of the program.

    Args:
        name: Its name.
        base: Its nearest builtin class.
        number: The number of the program's class.

    Raises:
        Malformed: No class can be derived from the base.
    """

    def attribute(self: Any, name: str) -> Any:
        original = vars(self).get("_nel_original")
        if original is None or name.startswith("_"):
            raise AttributeError(name)
        return getattr(original, name)

    body = {"_nel_number": number, "__getattr__": attribute, "__module__": "__main__"}
    try:
        kind: type[Exception] = type(name if name.isidentifier() else "Error", (base,), body)
    except TypeError:
        raise values.Malformed("a class of exceptions of no known kind") from None
    return kind


def rebuilt(names: list[str], text: str, own: list[Any]) -> Exception:
    """The exception of the program.

    Args:
        names: Its builtin classes, nearest first.
        text: Its text.
        own: The program's own classes of it, nearest first, and the exception itself.
    """
    bases = tuple(kind for kind in own if isinstance(kind, type) and "_nel_number" in vars(kind))
    for kind in [*_combined(bases), *_builtin_kinds(names)]:
        try:
            error: Exception = kind(text)
        except TypeError:
            # UnicodeDecodeError and the like take more than a text.
            continue
        if bases and isinstance(own[-1], Remote):
            error.__dict__["_nel_original"] = own[-1]
        return error
    return Exception(text)


def _combined(bases: tuple[type, ...]) -> list[Any]:
    """A class that is each of these; where there is no such class, the first of them."""
    if len(bases) < 2:
        return list(bases)
    try:
        return [type(bases[0].__name__, bases, {"__module__": "__main__"}), bases[0]]
    except TypeError:
        return [bases[0]]


def _builtin_kinds(names: list[str]) -> list[type[Exception]]:
    known = [getattr(builtins, name) for name in names if name in values.BUILTIN_TYPES]
    return [kind for kind in known if issubclass(kind, Exception)]
