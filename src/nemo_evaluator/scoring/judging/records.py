"""Named tuples on the other side of the pipe: tuples with the same names for their items."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from typing import Any, Final

    _Items = tuple[Any, ...]
else:
    _Items = tuple

_MAX_FIELDS: Final = 255


class Record(_Items):
    """A tuple whose items have names; equal to any tuple with the same items."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[self._fields.index(name)]
        except ValueError:
            raise AttributeError(name) from None

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self))  # noqa: B905 - images may have an old Python

    def _replace(self, **changes: Any) -> Record:
        items = {**self._asdict(), **changes}
        return type(self)(items[name] for name in self._fields)

    def __repr__(self) -> str:
        items = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
        return f"{type(self).__name__}({items})"


def fields_of(value: Any) -> tuple[str, ...]:
    """The names of a named tuple's items; empty for other tuples, and for names that cannot be sent."""
    fields = getattr(type(value), "_fields", ())
    if type(fields) is not tuple or len(fields) != tuple.__len__(value):
        return ()
    if _are_names(fields):
        return fields
    return ()


def record_type(name: str, fields: tuple[str, ...]) -> type[Record]:
    """A class of records.

    Raises:
        ValueError: A field is not a valid name, or there are too many.
    """
    if not _are_names(fields):
        raise ValueError("a named tuple with items of no known names")
    return type(
        name if name.isidentifier() else "Record", (Record,), {"_fields": fields, "__slots__": ()}
    )


def _are_names(fields: tuple[Any, ...]) -> bool:
    if len(fields) > _MAX_FIELDS:
        return False
    for field in fields:
        if type(field) is not str or not field.isidentifier() or field.startswith("_"):
            return False
    return len(set(fields)) == len(fields)
