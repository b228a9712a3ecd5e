"""The name of the benchmark in a Python file, read without running the file."""

import ast

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import find_file

_DECORATORS = ("benchmark", "register")


def declared_name(file: str) -> str | None:
    """The name that ``@benchmark(name=...)`` or ``@register(...)`` of the file gives; None when it is not one word.

    Of several, the one called like the file counts, as it does when the benchmark is opened.
    """
    try:
        path = find_file(file)
        tree = ast.parse(path.read_bytes())
    except (UsageError, OSError, SyntaxError, ValueError, RecursionError):
        # Said with its reason when the benchmark is opened.
        return None
    names = [name for node in ast.walk(tree) for name in _names(node)]
    if len(names) == 1:
        return names[0]
    stem = path.stem.lower().replace("-", "_")
    return next((name for name in names if name.lower() == stem), None)


def _names(node: ast.AST) -> list[str]:
    calls = [one for one in getattr(node, "decorator_list", ()) if isinstance(one, ast.Call)]
    found = []
    for call in calls:
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = [word.value for word in call.keywords if word.arg == "name"] or call.args[:1]
        if called in _DECORATORS and given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, str):
            found.append(given[0].value)
    return found
