"""Comparing calls with the accepted ones: names, required and unknown arguments, types and values.

The accepted calls give, for each argument, the list of values that count; an empty string in it means that the
argument may be left out.
"""

from __future__ import annotations

import re
from typing import Any, Final

from nemo_evaluator.benchmarks.bfcl.calls import Call
from nemo_evaluator.core.types import JsonDict

_IGNORED: Final = re.compile(r"[ \t\n,./\-_*^'\"\\]")
_INTEGERS: Final = frozenset(("integer", "int", "long", "short", "byte", "bigint"))


def mismatch(calls: list[Call], accepted: list[JsonDict], functions: list[JsonDict]) -> str | None:
    """What is wrong with the calls; None when they are the accepted ones, in any order."""
    if len(calls) != len(accepted):
        return f"{len(calls)} calls instead of {len(accepted)}"
    schemas = {function["name"]: function["parameters"] for function in functions}
    problems = [[_call_mismatch(call, wanted, schemas) for wanted in accepted] for call in calls]
    if _assignable(problems):
        return None
    told = [problem for row in problems for problem in row if problem is not None]
    return next((problem for problem in told if " is called, not " not in problem), told[0])


def _assignable(problems: list[list[str | None]]) -> bool:
    """Can every call be given an accepted one of its own? (Kuhn's matching.)"""
    owner: dict[int, int] = {}

    def place(call: int, seen: set[int]) -> bool:
        for wanted, problem in enumerate(problems[call]):
            if problem is None and wanted not in seen:
                seen.add(wanted)
                if wanted not in owner or place(owner[wanted], seen):
                    owner[wanted] = call
                    return True
        return False

    return all(place(call, set()) for call in range(len(problems)))


def _call_mismatch(call: Call, accepted: JsonDict, schemas: dict[str, JsonDict]) -> str | None:
    name, arguments = next(iter(accepted.items()))
    if call.name != name:
        return f"{call.name} is called, not {name}"
    schema = schemas[name]
    for required in schema.get("required", []):
        if required not in call.arguments and arguments.get(required, [""]):
            return f"{name}: {required} is missing"
    for key, value in call.arguments.items():
        if key not in arguments:
            return f"{name}: {key} is not asked for"
        # A few accepted calls have arguments that the published schema lacks.
        if not _is_accepted(value, arguments[key], schema["properties"].get(key) or {}):
            return f"{name}: {key} is {value!r}"
    for key, values in arguments.items():
        if key not in call.arguments and values and "" not in values:
            return f"{name}: {key} is missing"
    return None


def _is_accepted(value: Any, accepted: list[Any], schema: JsonDict) -> bool:
    """An empty list of accepted values stands for an argument that is left out, or given as nothing."""
    return any(_equal(value, wanted, schema) for wanted in accepted) if accepted else value in ([], "", None)


def _equal(value: Any, wanted: Any, schema: JsonDict) -> bool:
    if isinstance(value, str) and isinstance(wanted, str):
        return _IGNORED.sub("", value).casefold() == _IGNORED.sub("", wanted).casefold()
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    if isinstance(wanted, (int, float)) and isinstance(value, (int, float)):
        return value == wanted and _number_fits(value, str(schema.get("type", "any")).lower())
    if isinstance(wanted, list):
        return _equal_lists(value, wanted, schema)
    if isinstance(wanted, dict):
        return _equal_dicts(value, wanted, schema)
    return value is None and wanted is None


def _number_fits(value: float, kind: str) -> bool:
    """A whole number may stand for a float; a float does not stand for a whole number."""
    return isinstance(value, int) if kind in _INTEGERS else True


def _equal_lists(value: Any, wanted: list[Any], schema: JsonDict) -> bool:
    if not isinstance(value, list) or len(value) != len(wanted):
        return False
    items = schema.get("items") or {}
    return all(_equal(mine, theirs, items) for mine, theirs in zip(value, wanted, strict=True))


def _equal_dicts(value: Any, wanted: JsonDict, schema: JsonDict) -> bool:
    """Every key's accepted values are listed, as for arguments; inside lists and where no list stands, the value is."""
    if not isinstance(value, dict):
        return False
    properties = schema.get("properties") or {}
    for key, values in wanted.items():
        options = values if isinstance(values, list) else [values]
        if key not in value:
            if "" not in options:
                return False
        elif not any(_equal(value[key], option, properties.get(key) or {}) for option in options):
            return False
    return set(value) <= set(wanted)
