"""Comparing calls with the accepted ones: names, required and unknown arguments, types and values. The accepted calls
give, for each argument, the list of values that count; an empty string in it means that the argument may be left
out."""

import re
from typing import Any, Final

from nemo_evaluator.benchmarks.bfcl.calls import Call
from nemo_evaluator.benchmarks.bfcl.literals import convert
from nemo_evaluator.core.types import JsonDict

_IGNORED: Final = re.compile(r"[ ,./\-_*^]")
_LARGE: Final = 1e300
_SHOWN: Final = 300
# A type that is not here is any: then the accepted values decide.
_TYPES: Final = {
    "string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict,
    "byte": int, "short": int, "long": int, "Bigint": int, "double": float, "Boolean": bool, "char": str,
    "String": str, "Array": list, "ArrayList": list, "HashMap": dict,
}  # fmt: skip


def mismatch(
    calls: list[Call],
    accepted: list[JsonDict],
    functions: list[JsonDict],
    language: str | None = None,
) -> str | None:
    """What is wrong with the calls; None when they are the accepted ones, in any order. With a ``language``, java or
    javascript, texts may be literals of it."""
    if len(calls) != len(accepted):
        return f"{len(calls)} calls instead of {len(accepted)}"
    schemas = {function["name"]: function["parameters"] for function in functions}
    problems: list[list[str | None]] = []
    for call in calls:
        problems.append(
            [_call_mismatch(call, wanted, schemas, language=language) for wanted in accepted]
        )
    if _assignable(problems):
        return None
    told: list[str] = []
    for row in problems:
        for problem in row:
            if problem is not None:
                told.append(problem)
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


def _call_mismatch(
    call: Call, accepted: JsonDict, schemas: dict[str, JsonDict], language: str | None
) -> str | None:
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
        about = schema["properties"].get(key) or {}
        if language:
            read = convert(value, about, language)
        else:
            read = value
        if (
            language
            and not isinstance(read, str)
            and all(isinstance(wanted, str) for wanted in arguments[key])
        ):
            read = str(read)  # the source of the other language is wanted as text
        if not _is_accepted(read, arguments[key], about):
            return f"{name}: {key} is {value!r}"[:_SHOWN]
    for key, values in arguments.items():
        if key not in call.arguments and values and "" not in values:
            return f"{name}: {key} is missing"
    return None


def _is_accepted(value: Any, accepted: list[Any], schema: JsonDict) -> bool:
    """An empty list of accepted values stands for an argument that is left out, or given as nothing."""
    if not accepted:
        return value in ([], "", None)
    kind = str(schema.get("type", "any"))
    if kind == "tuple" and isinstance(value, tuple):
        value = list(value)
    if kind == "float" and type(value) is int:
        if abs(value) < _LARGE:
            value = float(value)
        else:
            value = value
    if value == [] and _TYPES.get(kind) is list and "" in accepted:
        return True
    given = next((type(wanted) for wanted in accepted if wanted != ""), None)
    expected = _TYPES.get(kind)
    if expected is not None and type(value) is not expected:
        # The name of a variable may stand for anything, letter for letter.
        return type(value) is given and (
            value in accepted if given is str else any(_equal(value, w) for w in accepted)
        )
    if expected is list:
        inner = _TYPES.get(str((schema.get("items") or {}).get("type")))
    else:
        inner = None
    return _items_fit(value, accepted, inner) and any(_equal(value, wanted) for wanted in accepted)


def _items_fit(value: Any, accepted: list[Any], inner: type | None) -> bool:
    """Inside a list whole numbers do not stand for floats, in the official checker too."""
    if inner is None:
        return True
    lists: list[list[Any]] = [wanted for wanted in accepted if isinstance(wanted, list)]
    return len(lists) < len(accepted) or any(
        all(type(item) in (inner, type(wanted[0]) if wanted else None) for item in value)
        for wanted in lists
    )


def _equal(value: Any, wanted: Any) -> bool:
    if isinstance(value, str) and isinstance(wanted, str):
        return _standard(value) == _standard(wanted)
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    if isinstance(wanted, (int, float)) and isinstance(value, (int, float)):
        return value == wanted
    if isinstance(wanted, list):
        same_length = isinstance(value, (list, tuple)) and len(value) == len(wanted)
        return same_length and all(
            _equal(mine, theirs) for mine, theirs in zip(value, wanted, strict=True)
        )
    if isinstance(wanted, dict):
        return _equal_dicts(value, wanted)
    return value is None and wanted is None


def _standard(text: str) -> str:
    """Spaces, case and ``,./-_*^`` do not count."""
    return _IGNORED.sub("", text).lower().replace("'", '"')


def _equal_dicts(value: Any, wanted: JsonDict) -> bool:
    """Every key's accepted values are listed, as for arguments; inside lists and where no list stands, the value is."""
    if not isinstance(value, dict) or not value.keys() <= wanted.keys():
        return False
    for key, values in wanted.items():
        if isinstance(values, list):
            options = values
        else:
            options = [values]
        if key not in value:
            if "" not in options:
                return False
        elif not any(_equal(value[key], option) for option in options):
            return False
    return True
