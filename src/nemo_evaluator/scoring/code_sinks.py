"""Places in a test file where an answer of the program would be run as code inside the judge."""

from __future__ import annotations

import ast
from typing import Final

from nemo_evaluator.scoring.code_bindings import arguments_of
from nemo_evaluator.scoring.code_flow import Flow
from nemo_evaluator.scoring.code_scopes import FileScopes, NameScope

_FUNCTIONS: Final = frozenset({"eval", "exec", "compile", "__import__", "breakpoint"})
_TABLES: Final = frozenset({"__dict__", "__getattribute__"})
_EXECUTING_MODULES: Final = (
    "timeit cProfile profile doctest pdb bdb trace pickle marshal dill cloudpickle jsonpickle shelve yaml joblib "
    "importlib runpy subprocess pty code codeop ctypes multiprocessing"
)
# Modules whose functions may run an answer that is passed to them.
_MODULES: Final = frozenset(_EXECUTING_MODULES.split())
_CODE_BUILDERS: Final = frozenset({"FunctionType", "CodeType", "attrgetter", "methodcaller"})
_PROCESS_STARTERS: Final = frozenset(
    {"system", "popen", "spawnl", "spawnv", "execv", "execl", "execve", "posix_spawn"}
)
_METHODS: Final = _CODE_BUILDERS | _PROCESS_STARTERS


def find_sink(scopes: FileScopes, flow: Flow) -> str | None:
    """Find a function that would run an answer.

    Args:
        scopes: The scopes of the test file.
        flow: How its expressions depend on the program.

    Returns:
        The name of the function; None when there is no such function.
    """
    for scope in scopes:
        called = {id(node.func) for node in scope.nodes if isinstance(node, ast.Call)}
        for node in scope.nodes:
            if isinstance(node, ast.Name):
                name = _passed_function(node, scope, scopes, called=called)
            elif isinstance(node, ast.Attribute):
                name = _dangerous_attribute(node, scopes)
            elif isinstance(node, ast.ImportFrom):
                name = _dangerous_import(node)
            elif isinstance(node, ast.Call):
                name = _called_sink(node, scope, scopes, flow=flow)
            else:
                continue
            if name is not None:
                return name
    return None


def _passed_function(
    node: ast.Name, scope: NameScope, scopes: FileScopes, called: set[int]
) -> str | None:
    """Return the name of a function that is passed along and not called, as in ``map(eval, answers)``."""
    if node.id not in _FUNCTIONS or not isinstance(node.ctx, ast.Load):
        return None
    is_own = scopes.find(node.id, scope) is not None
    if is_own or id(node) in called:
        return None
    return node.id


def _dangerous_attribute(node: ast.Attribute, scopes: FileScopes) -> str | None:
    """Return the name in ``builtins.eval``, ``builtins.__dict__`` and ``string.Formatter``."""
    leads_to_function = node.attr in _FUNCTIONS or node.attr in _TABLES
    if leads_to_function and _is_builtins(node.value, scopes):
        return node.attr
    if node.attr == "Formatter":
        return node.attr
    return None


def _dangerous_import(node: ast.ImportFrom) -> str | None:
    """Return the name in ``from string import Formatter`` and ``from builtins import eval``."""
    if node.module == "string":
        dangerous = frozenset({"Formatter"})
    elif node.module == "builtins":
        dangerous = _FUNCTIONS
    else:
        return None
    for alias in node.names:
        if alias.name in dangerous:
            return alias.name
    return None


def _called_sink(node: ast.Call, scope: NameScope, scopes: FileScopes, flow: Flow) -> str | None:
    """Return the name of a function that runs one of its arguments, when an argument may be an answer."""
    if any(_is_builtins(argument, scopes) for argument in node.args):
        # ``vars(builtins)["eval"]``
        return "builtins"
    function = node.func
    if isinstance(function, ast.Name):
        name = function.id
        is_sink = name in _FUNCTIONS or scopes.imported.get(name) in _MODULES
    elif isinstance(function, ast.Attribute):
        name = function.attr
        is_sink = name in _METHODS or _is_executing_module(function.value, scopes)
    else:
        return None
    if is_sink and any(flow.level(argument, scope) for argument in arguments_of(node)):
        return name
    return None


def _is_executing_module(node: ast.expr, scopes: FileScopes) -> bool:
    if not isinstance(node, ast.Name):
        return False
    return node.id in _MODULES or scopes.imported.get(node.id) in _MODULES


def _is_builtins(node: ast.AST, scopes: FileScopes) -> bool:
    if not isinstance(node, ast.Name):
        return False
    return node.id == "__builtins__" or scopes.imported.get(node.id) == "builtins"
