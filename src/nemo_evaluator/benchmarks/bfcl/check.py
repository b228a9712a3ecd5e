"""Compare calls with the accepted ones: names, required and unknown arguments, types and values.

For each argument, an accepted call has the list of accepted values; an empty string in it means that the argument may
be left out.
"""

import re
from typing import Any, Final

from nemo_evaluator.benchmarks.bfcl.calls import Call
from nemo_evaluator.benchmarks.bfcl.literals import convert
from nemo_evaluator.core.types import JsonDict

_IGNORED: Final = re.compile(r"[ ,./\-_*^]")
_LARGE: Final = 1e300
_SHOWN: Final = 300
# A type that is missing here is not checked: the accepted values decide.
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
    """Describe why the calls are not the accepted ones.

    Args:
        calls: The calls of the response, in any order.
        accepted: The accepted calls.
        functions: The schemas of the functions.
        language: ``java`` or ``javascript`` if texts may be literals of that language.

    Returns:
        The wrong number of calls, else the first problem with an argument, else the first problem; None if the calls
        match.
    """
    if len(calls) != len(accepted):
        return f"{len(calls)} calls instead of {len(accepted)}"
    schemas = {function["name"]: function["parameters"] for function in functions}
    # The problem of each call with each accepted call; None where they match.
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
    """Return the first problem with an argument, else the first problem."""
    first_problem: str | None = None
    for problems_of_call in problems:
        for problem in problems_of_call:
            if problem is not None and " is called, not " not in problem:
                return problem
            first_problem = first_problem or problem
    return first_problem


def _assignable(problems: list[list[str | None]]) -> bool:
    """Whether each call can be matched with an accepted call of its own (Kuhn's algorithm)."""
    call_by_accepted: dict[int, int] = {}

    def place(call: int, seen: set[int]) -> bool:
        """Give a call an accepted call of its own, moving earlier calls if needed."""
        for accepted_index, problem in enumerate(problems[call]):
            if problem is not None or accepted_index in seen:
                continue
            seen.add(accepted_index)
            is_free = accepted_index not in call_by_accepted
            if is_free or place(call_by_accepted[accepted_index], seen):
                call_by_accepted[accepted_index] = call
                return True
        return False

    return all(place(call, set()) for call in range(len(problems)))


def _call_mismatch(
    call: Call, accepted: JsonDict, schemas: dict[str, JsonDict], language: str | None
) -> str | None:
    """Describe the first difference between a call and an accepted call; None if they match."""
    name, accepted_arguments = next(iter(accepted.items()))
    if call.name != name:
        return f"{call.name} is called, not {name}"
    schema = schemas[name]
    for required in schema.get("required", []):
        if required not in call.arguments and accepted_arguments.get(required, [""]):
            return f"{name}: {required} is missing"
    for key, value in call.arguments.items():
        if key not in accepted_arguments:
            return f"{name}: {key} is not asked for"
        accepted_values = accepted_arguments[key]
        # A few accepted calls have arguments that the published schema lacks.
        argument_schema = schema["properties"].get(key) or {}
        converted = _converted(value, accepted_values, argument_schema, language=language)
        if not _is_accepted(converted, accepted_values, argument_schema):
            return f"{name}: {key} is {value!r}"[:_SHOWN]
    for key, accepted_values in accepted_arguments.items():
        if key not in call.arguments and accepted_values and "" not in accepted_values:
            return f"{name}: {key} is missing"
    return None


def _converted(value: Any, accepted: list[Any], schema: JsonDict, language: str | None) -> Any:
    """Convert a value that may be source text of another language to the type of its schema."""
    if language is None:
        return value
    converted = convert(value, schema, language)
    if _are_texts(accepted) and not isinstance(converted, str):
        # The accepted value is source text of the other language.
        return str(converted)
    return converted


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_accepted(value: Any, accepted: list[Any], schema: JsonDict) -> bool:
    """Whether a value equals an accepted value, and has the schema's type or that of the accepted values.

    If no values are listed, the argument must be empty: an empty list or text, or None.
    """
    if not accepted:
        return value in ([], "", None)
    type_name = str(schema.get("type", "any"))
    if type_name == "tuple" and isinstance(value, tuple):
        value = list(value)
    if type_name == "float" and type(value) is int and abs(value) < _LARGE:
        value = float(value)
    schema_type = _TYPES.get(type_name)
    if schema_type is not None and type(value) is not schema_type:
        return _is_accepted_despite_schema(value, accepted)
    if schema_type is list:
        if value == [] and "" in accepted:
            return True
        item_schema = schema.get("items") or {}
        if not _items_fit(value, accepted, _TYPES.get(str(item_schema.get("type")))):
            return False
    return _equals_any(value, accepted)


def _is_accepted_despite_schema(value: Any, accepted: list[Any]) -> bool:
    """Whether a value of another type than the schema's has the type of the accepted values and equals one."""
    accepted_type: type | None = None
    for accepted_value in accepted:
        if accepted_value != "":
            accepted_type = type(accepted_value)
            break
    if type(value) is not accepted_type:
        return False
    if accepted_type is str:
        # The name of a variable may take any argument's place; it counts letter for letter.
        return value in accepted
    return _equals_any(value, accepted)


def _equals_any(value: Any, accepted: list[Any]) -> bool:
    return any(_equal(value, accepted_value) for accepted_value in accepted)


def _items_fit(value: Any, accepted: list[Any], inner: type | None) -> bool:
    """Whether the items of a list have the schema's type or that of an accepted list's first item.

    An integer does not count as a float here, as in the official checker.
    """
    if inner is None:
        return True
    for accepted_list in accepted:
        if not isinstance(accepted_list, list):
            return True
        types: list[type] = [inner]
        if accepted_list:
            types.append(type(accepted_list[0]))
        if all(type(item) in types for item in value):
            return True
    return False


def _equal(value: Any, wanted: Any) -> bool:
    """Whether a value equals an accepted one; texts are normalised, numbers compared by value."""
    if isinstance(value, str) and isinstance(wanted, str):
        return _standard(value) == _standard(wanted)
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    if isinstance(wanted, (int, float)) and isinstance(value, (int, float)):
        return value == wanted
    if isinstance(wanted, list):
        return _equal_lists(value, wanted)
    if isinstance(wanted, dict):
        return _equal_dicts(value, wanted)
    return value is None and wanted is None


def _equal_lists(value: Any, wanted: list[Any]) -> bool:
    """Whether a list or tuple has as many items as an accepted one, and each equals its counterpart."""
    if not isinstance(value, (list, tuple)) or len(value) != len(wanted):
        return False
    return all(map(_equal, value, wanted))


def _standard(text: str) -> str:
    """Normalise a text for comparison: spaces, case and the signs ``,./-_*^`` do not count."""
    return _IGNORED.sub("", text).lower().replace("'", '"')


def _equal_dicts(value: Any, wanted: JsonDict) -> bool:
    """Whether a dictionary has only accepted keys and values.

    Each key has a list of accepted values, or a single one. A key may be absent if its list has an empty string.
    """
    if not isinstance(value, dict) or not value.keys() <= wanted.keys():
        return False
    for key, values in wanted.items():
        options = values if isinstance(values, list) else [values]
        if key not in value:
            if "" not in options:
                return False
        elif not _equals_any(value[key], options):
            return False
    return True
