"""Names of the program that tests use as values: as expected values, flags, bounds of loops, base classes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from nemo_evaluator.scoring.code_scopes import NameScope

# Functions whose arguments may be a class of the program.
_TAKING_CLASSES: Final = (
    "isinstance issubclass callable hasattr raises assertRaises assertRaisesRegex assertIsInstance "
    "assertNotIsInstance suppress"
)
_ABOUT_CLASSES: Final = frozenset(_TAKING_CLASSES.split())

Test = Callable[[ast.Name, NameScope], bool]
Involved = Callable[[ast.AST, NameScope], bool]


def find_value_use(scope: NameScope, is_foreign: Test, is_of_program: Involved) -> str | None:
    """Find a foreign name that is used as a value, which the tests should define themselves.

    A name of the program may be called, may be passed to the program, and may be the class in a question about classes
    or in an ``except``. Nowhere else.

    Args:
        scope: The scope to search.
        is_foreign: Whether only the program defines a name.
        is_of_program: Whether an expression depends on the program.

    Returns:
        The name; None when there is no such name.
    """
    parents: dict[int, ast.AST] = {}
    for node in [scope.node, *scope.nodes]:
        for child in ast.iter_child_nodes(node):
            parents[id(child)] = node
    for node in scope.nodes:
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        if not is_foreign(node, scope):
            continue
        if not _is_allowed(node, parents, scope, is_of_program=is_of_program):
            return node.id
    return None


def _is_allowed(
    name: ast.Name, parents: dict[int, ast.AST], scope: NameScope, is_of_program: Involved
) -> bool:
    """Return whether a foreign name is called, passed to the program, or used as a class or an annotation."""
    node: ast.AST = name
    parent = parents.get(id(node))
    while parent is not None:
        if isinstance(parent, ast.Call):
            if parent.func is node:
                # The name is called; other checks inspect the result.
                return True
            if _takes_program_names(parent, scope, is_of_program):
                return True
        if _is_declaration(parent, node):
            return True
        if isinstance(parent, ast.stmt):
            return False
        node = parent
        parent = parents.get(id(node))
    return False


def _takes_program_names(call: ast.Call, scope: NameScope, is_of_program: Involved) -> bool:
    """Return whether a name of the program may be an argument of a call."""
    name = ""
    if isinstance(call.func, ast.Attribute):
        name = call.func.attr
    elif isinstance(call.func, ast.Name):
        name = call.func.id
    return name in _ABOUT_CLASSES or is_of_program(call.func, scope)


def _is_declaration(parent: ast.AST, node: ast.AST) -> bool:
    """Return whether a node is the class of an ``except``, or an annotation."""
    if isinstance(parent, ast.ExceptHandler):
        return parent.type is node
    if isinstance(parent, (ast.AnnAssign, ast.arg)):
        return parent.annotation is node
    return isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and parent.returns is node
