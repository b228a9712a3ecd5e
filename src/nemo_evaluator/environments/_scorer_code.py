"""What the code of a scorer uses: the settings that it reads by name, and the expected answer.

The functions that a scorer mentions count too: those of its folder with all that they mention, and any other function,
such as ``exact_match``, with the functions of its own file.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

_OURS: Final = "nemo_evaluator."
# This scorer raises an error if neither its settings nor the target have a schema, so it can do without a target.
_NEEDS_NO_TARGET: Final = "nemo_evaluator.scoring.json"


def reads_target(scorer: Callable[..., Any]) -> bool:
    """Return whether a scorer uses the expected answer, ``sample.target``."""
    for function in _used_functions(scorer):
        if function.__module__ == _NEEDS_NO_TARGET:
            continue
        code = function.__code__
        names = set(_names(code))
        if "target" in names:
            return True
        if "getattr" in names and "target" in _texts(code):
            return True
    return False


def reads_expected_answer(judge_function: Callable[..., Any]) -> bool:
    """Return whether a function of a judge uses the expected answer of the problem, ``seed.expected_answer``."""
    functions = _used_functions(judge_function)
    return any("expected_answer" in _names(function.__code__) for function in functions)


def settings_read(scorer: Callable[..., Any]) -> set[str]:
    """Return the names that a scorer may read from ``sample.config``: the texts of functions that mention it."""
    settings: set[str] = set()
    for function in _used_functions(scorer):
        code = function.__code__
        if "config" in {*_names(code), *code.co_varnames}:
            settings.update(_texts(code))
    return settings


def metadata_read(scorer: Callable[..., Any]) -> set[str]:
    """Return the names that a scorer's own code reads from ``sample.metadata`` without a default.

    These are ``sample.metadata["name"]`` and ``sample.metadata.get("name")``; functions of nel read optional names.
    """
    names: set[str] = set()
    for function in _used_functions(scorer):
        if not _is_ours(function):
            names.update(_metadata_names(function))
    return names


def _metadata_names(function: FunctionType) -> Iterator[str]:
    """Yield the names that the source of a function reads from an attribute ``metadata``."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        # The function has no source, or is a part of an expression.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            container, key = node.value, node.slice
        elif isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            if not isinstance(node.func, ast.Attribute) or node.func.attr != "get":
                continue
            container, key = node.func.value, node.args[0]
        else:
            continue
        is_metadata = isinstance(container, ast.Attribute) and container.attr == "metadata"
        if is_metadata and isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def _used_functions(scorer: Callable[..., Any]) -> list[FunctionType]:
    """Return the functions of a scorer, and those that they mention."""
    pending = list(_functions_in(scorer))
    own_folders = {Path(function.__code__.co_filename).parent for function in pending}
    is_ours = any(_is_ours(function) for function in pending)
    visited: list[FunctionType] = []
    while pending:
        function = pending.pop()
        if function in visited:
            continue
        visited.append(function)
        is_library = _is_ours(function) and not is_ours
        is_own = not is_library and _is_below(function, own_folders)
        for callee in _mentioned(function):
            is_same_file = callee.__code__.co_filename == function.__code__.co_filename
            if is_own or is_same_file:
                pending.append(callee)
    return visited


def _is_ours(function: FunctionType) -> bool:
    """Return whether a function belongs to nel."""
    return (function.__module__ or "").startswith(_OURS)


def _is_below(function: FunctionType, folders: set[Path]) -> bool:
    """Return whether a function's file is in or below the folders, but not an installed package."""
    file = Path(function.__code__.co_filename)
    return "site-packages" not in file.parts and not folders.isdisjoint(file.parents)


def _mentioned(function: FunctionType) -> Iterator[FunctionType]:
    """Yield the functions that a function's code names: globals, variables around it, and members of modules."""
    names = set(_names(function.__code__))
    values: list[Any] = []
    for name in names:
        if name in function.__globals__:
            values.append(function.__globals__[name])
        elif name in sys.modules:
            # An import inside the function.
            values.append(sys.modules[name])
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:
            # The variable has no value yet.
            continue
    for value in values:
        if isinstance(value, ModuleType):
            # Our own modules load their members on first use.
            is_lazy = f"{value.__name__}.".startswith(_OURS)
            for name in names:
                member = getattr(value, name, None) if is_lazy else vars(value).get(name)
                yield from _functions_in(member)
        else:
            yield from _functions_in(value)


def _functions_in(value: Any) -> Iterator[FunctionType]:
    """Yield the functions behind a value: a function, a class, an object with methods, or a collection of these."""
    if isinstance(value, partial):
        yield from _functions_in(value.func)
    elif isinstance(value, FunctionType):
        yield value
        original = inspect.unwrap(value)
        if original is not value:
            yield from _functions_in(original)
    elif inspect.ismethod(value):
        yield from _functions_in(value.__func__)
    elif isinstance(value, type):
        for member in vars(value).values():
            if isinstance(member, (staticmethod, classmethod)):
                member = member.__func__
            if isinstance(member, FunctionType):
                yield member
    elif isinstance(value, dict):
        yield from (item for item in value.values() if isinstance(item, FunctionType))
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from (item for item in value if isinstance(item, FunctionType))
    elif value is not None and not isinstance(value, ModuleType):
        yield from _functions_in(type(value))


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in code, including nested functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _texts(code: CodeType) -> Iterator[str]:
    """Yield the texts in code, including nested functions and tuples."""
    yield from _texts_in(code.co_consts)


def _texts_in(constants: tuple[Any, ...]) -> Iterator[str]:
    """Yield the texts among constants."""
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):
            yield from _texts_in(constant.co_consts)
        elif isinstance(constant, tuple):
            yield from _texts_in(constant)
