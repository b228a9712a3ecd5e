"""What the marks of a pytest function say: which cases it has, and whether it is left out."""

from __future__ import annotations

from .counting import Unrunnable
from .pytest_standin import Mark, Param

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from typing import Any


def marks_of(target: Any) -> list[Mark]:
    """The marks of a function or class."""
    if hasattr(target, "__dict__"):
        marks = getattr(target, "pytestmark", None)
    else:
        marks = None
    if not isinstance(marks, list):
        marks = [marks]
    return [mark for mark in marks if isinstance(mark, Mark)]


def is_skipped(marks: list[Any], names: Any) -> bool:
    """Tests that are skipped or expected to fail measure nothing."""
    for mark in marks:
        if not isinstance(mark, Mark):
            continue
        if mark.name in ("skip", "xfail") and not _conditions(mark):
            return True
        if mark.name in ("skipif", "xfail"):
            for condition in _conditions(mark):
                if isinstance(condition, str):
                    # It would be run as code, and it may be an answer of the program.
                    raise Unrunnable("a condition of a mark is a text")
                if condition:
                    return True
    return False


def _conditions(mark: Mark) -> list[Any]:
    if mark.name == "skip":
        return []
    conditions = list(mark.args)
    if "condition" in mark.kwargs:
        conditions.append(mark.kwargs["condition"])
    return conditions


def cases_of(marks: list[Any]) -> list[tuple[dict[str, Any], list[Any]]]:
    """The arguments of each case, and its own marks: all combinations of all ``parametrize`` marks."""
    cases: list[tuple[dict[str, Any], list[Any]]] = [({}, [])]
    for mark in marks:
        if not isinstance(mark, Mark) or mark.name != "parametrize":
            continue
        more = []
        for arguments, own_marks in cases:
            for values, value_marks in _rows(mark):
                more.append(({**arguments, **values}, [*own_marks, *value_marks]))
        cases = more
    return cases


def _rows(mark: Mark) -> list[tuple[dict[str, Any], list[Any]]]:
    names = mark.args[0] if mark.args else mark.kwargs["argnames"]
    if len(mark.args) > 1:
        values = mark.args[1]
    else:
        values = mark.kwargs["argvalues"]
    if isinstance(names, str):
        fields: list[str | Any] = [name.strip() for name in names.split(",")]
    else:
        fields = list(names)
    rows = []
    for value in values:
        marks: list[Any] = []
        if len(fields) == 1:
            items: tuple[Any] | Any = (value,)
        else:
            items = value
        if isinstance(value, Param):
            items = value.values
            marks = value.marks
        rows.append((dict(zip(fields, items)), marks))  # noqa: B905 - images may have an old Python
    return rows
