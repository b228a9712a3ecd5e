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
    # For each call its problem with each accepted call, None where they fit.
    problems: list[list[str | None]] = []
    for call in calls:
        problems_of_call: list[str | None] = []
        for accepted_call in accepted:
            problems_of_call.append(_call_mismatch(call, accepted_call, schemas, language=language))
        problems.append(problems_of_call)
    if _assignable(problems):
        return None
    return _most_telling(problems)


def _most_telling(problems: list[list[str | None]]) -> str | None:
    """The first problem with an argument, else the first one."""
    first: str | None = None
    for problems_of_call in problems:
        for problem in problems_of_call:
            if problem is not None and " is called, not " not in problem:
                return problem
            first = first or problem
    return first


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
        read = convert(value, about, language) if language else value
        if language and not isinstance(read, str) and _are_texts(arguments[key]):
            # The accepted value is source text of the other language.
            read = str(read)
        if not _is_accepted(read, arguments[key], about):
            return f"{name}: {key} is {value!r}"[:_SHOWN]
    for key, values in arguments.items():
        if key not in call.arguments and values and "" not in values:
            return f"{name}: {key} is missing"
    return None


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_accepted(value: Any, accepted: list[Any], schema: JsonDict) -> bool:
    """An empty list of accepted values stands for an argument that is left out, or given as nothing."""
    if not accepted:
        return value in ([], "", None)
    kind = str(schema.get("type", "any"))
    if kind == "tuple" and isinstance(value, tuple):
        value = list(value)
    if kind == "float" and type(value) is int and abs(value) < _LARGE:
        value = float(value)
    if value == [] and _TYPES.get(kind) is list and "" in accepted:
        return True
    accepted_type = next((type(wanted) for wanted in accepted if wanted != ""), None)
    expected = _TYPES.get(kind)
    if expected is not None and type(value) is not expected:
        if type(value) is not accepted_type:
            return False
        if accepted_type is str:
            # The name of a variable may take any argument's place; it counts letter for letter.
            return value in accepted
        return any(_equal(value, wanted) for wanted in accepted)
    item_type: type | None = None
    if expected is list:
        item_schema = schema.get("items") or {}
        item_type = _TYPES.get(str(item_schema.get("type")))
    if not _items_fit(value, accepted, item_type):
        return False
    return any(_equal(value, wanted) for wanted in accepted)


def _items_fit(value: Any, accepted: list[Any], inner: type | None) -> bool:
    """Inside a list a whole number does not count as a float, in the official checker too."""
    if inner is None:
        return True
    for wanted in accepted:
        if not isinstance(wanted, list):
            return True
        types = (inner, type(wanted[0]) if wanted else None)
        if all(type(item) in types for item in value):
            return True
    return False


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
    """Every key has a list of accepted values, as arguments have; inside lists and without a list the value itself."""
    if not isinstance(value, dict) or not value.keys() <= wanted.keys():
        return False
    for key, values in wanted.items():
        options = values if isinstance(values, list) else [values]
        if key not in value:
            if "" not in options:
                return False
        elif not any(_equal(value[key], option) for option in options):
            return False
    return True
