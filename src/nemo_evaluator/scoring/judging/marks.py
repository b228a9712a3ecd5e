"""Marks of pytest functions: they define cases, and skip functions."""

from __future__ import annotations

from .counting import Unrunnable
from .pytest_standin import Mark, Param

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from typing import Any


def marks_of(target: Any) -> list[Mark]:
    """The marks of a function or class."""
    marks = None
    if hasattr(target, "__dict__"):
        marks = getattr(target, "pytestmark", None)
    if not isinstance(marks, list):
        marks = [marks]
    return [mark for mark in marks if isinstance(mark, Mark)]


def is_skipped(marks: list[Any], names: Any) -> bool:
    """Whether marks skip a test, or expect it to fail: such a test measures nothing.

    Raises:
        Unrunnable: A condition is a text, which would have to be executed.
    """
    for mark in marks:
        if not isinstance(mark, Mark):
            continue
        if mark.name in ("skip", "xfail") and not _conditions(mark):
            return True
        if mark.name in ("skipif", "xfail"):
            for condition in _conditions(mark):
                if _truth_of(condition):
                    return True
    return False


def _truth_of(condition: Any) -> bool:
    if not isinstance(condition, str):
        return bool(condition)
    if condition in ("True", "False"):
        return condition == "True"
    # pytest executes it, and it may be an answer of the program.
    raise Unrunnable("a condition of a mark is a text")


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
        extended = []
        for arguments, own_marks in cases:
            for values, value_marks in _rows(mark):
                extended.append(({**arguments, **values}, [*own_marks, *value_marks]))
        cases = extended
    return cases


def names_of_cases(marks: list[Any]) -> list[Any]:
    """The names of the arguments that all ``parametrize`` marks provide."""
    names: list[Any] = []
    for mark in marks:
        if isinstance(mark, Mark) and mark.name == "parametrize":
            names += _argument_names(mark)
    return names


def _argument_names(mark: Mark) -> list[Any]:
    names = mark.args[0] if mark.args else mark.kwargs["argnames"]
    if isinstance(names, str):
        return [name.strip() for name in names.split(",")]
    return list(names)


def _rows(mark: Mark) -> list[tuple[dict[str, Any], list[Any]]]:
    """The arguments of each case of one ``parametrize``, and its marks."""
    rows = mark.args[1] if len(mark.args) > 1 else mark.kwargs["argvalues"]
    fields = _argument_names(mark)
    cases = []
    for row in rows:
        marks: list[Any] = []
        if type(row) is Param:
            values = row.values
            marks = row.marks
        elif len(fields) == 1:
            values = (row,)
        else:
            values = row
        arguments = dict(zip(fields, values))  # noqa: B905 - images may have an old Python
        cases.append((arguments, marks))
    return cases
