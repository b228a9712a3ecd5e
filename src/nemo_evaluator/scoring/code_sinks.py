"""Places in a test file where an answer of the program would be run as code inside the judge."""

from __future__ import annotations

import ast
from typing import Final

from nemo_evaluator.scoring.code_flow import Flow
from nemo_evaluator.scoring.code_scopes import FileScopes, NameScope

_FUNCTIONS: Final = frozenset({"eval", "exec", "compile", "__import__", "breakpoint"})
_TABLES: Final = frozenset({"__dict__", "__getattribute__"})
# Modules of which any function that is called with an answer may run it.
_MODULES: Final = frozenset(
    {"timeit", "cProfile", "profile", "doctest", "pdb", "bdb", "trace"}
    | {
        "pickle",
        "marshal",
        "dill",
        "cloudpickle",
        "jsonpickle",
        "shelve",
        "yaml",
        "joblib",
        "importlib",
        "runpy",
    }
    | {"subprocess", "pty", "code", "codeop", "ctypes", "multiprocessing"}
)
_METHODS: Final = frozenset(
    {
        "FunctionType",
        "CodeType",
        "attrgetter",
        "methodcaller",
        "system",
        "popen",
        "spawnl",
        "spawnv",
        "execv",
        "execl",
        "execve",
        "posix_spawn",
    }
)


def find_sink(scopes: FileScopes, flow: Flow) -> str | None:
    """The name of a function that would run an answer, or None."""
    for scope in scopes:
        called = {id(node.func) for node in scope.nodes if isinstance(node, ast.Call)}
        for node in scope.nodes:
            name = _sink_at(node, scope, scopes, flow=flow, called=called)
            if name is not None:
                return name
    return None


def _is_builtins(node: ast.AST, scopes: FileScopes) -> bool:
    if not isinstance(node, ast.Name):
        return False
    return node.id == "__builtins__" or scopes.imported.get(node.id) == "builtins"


def _sink_at(
    node: ast.AST, scope: NameScope, scopes: FileScopes, flow: Flow, called: set[int]
) -> str | None:
    if isinstance(node, ast.Name) and node.id in _FUNCTIONS and isinstance(node.ctx, ast.Load):
        # Passed along, as in ``map(eval, answers)``.
        is_own = scopes.find(node.id, scope) is not None
        if is_own or id(node) in called:
            return None
        return node.id
    if (
        isinstance(node, ast.Attribute)
        and node.attr in (_FUNCTIONS | _TABLES)
        and _is_builtins(node.value, scopes)
    ):
        return node.attr
    if isinstance(node, ast.Attribute) and node.attr == "Formatter":
        return node.attr
    if isinstance(node, ast.ImportFrom) and node.module == "string":
        return next((alias.name for alias in node.names if alias.name == "Formatter"), None)
    if isinstance(node, ast.ImportFrom) and node.module == "builtins":
        return next((alias.name for alias in node.names if alias.name in _FUNCTIONS), None)
    if not isinstance(node, ast.Call):
        return None
    if any(_is_builtins(argument, scopes) for argument in node.args):
        # ``vars(builtins)["eval"]``
        return "builtins"
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    takes_answer = any(flow.level(argument, scope) for argument in arguments)
    if isinstance(node.func, ast.Name):
        is_sink = node.func.id in _FUNCTIONS or scopes.imported.get(node.func.id) in _MODULES
        return node.func.id if is_sink and takes_answer else None
    if not isinstance(node.func, ast.Attribute):
        return None
    base = node.func.value
    if isinstance(base, ast.Name):
        root = base.id
    else:
        root = ""
    is_sink = (
        root in _MODULES or node.func.attr in _METHODS or scopes.imported.get(root) in _MODULES
    )
    return node.func.attr if is_sink and takes_answer else None
