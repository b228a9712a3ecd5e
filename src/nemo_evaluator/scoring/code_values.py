"""Names of the program that tests use as values: as expected values, flags, bounds of loops, base classes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from nemo_evaluator.scoring.code_scopes import NameScope

# Functions that may be given a class of the program.
_ABOUT_CLASSES: Final = frozenset(
    {
        "isinstance",
        "issubclass",
        "callable",
        "hasattr",
        "raises",
        "assertRaises",
        "assertRaisesRegex",
    }
    | {"assertIsInstance", "assertNotIsInstance", "suppress"}
)

Test = Callable[[ast.Name, NameScope], bool]
Involved = Callable[[ast.AST, NameScope], bool]


def find_value_use(scope: NameScope, is_foreign: Test, is_of_program: Involved) -> str | None:
    """A name that stands for a value where the tests, not the program, have to say what it is.

    A name of the program may be called, may be passed to what is the program's, and may be the class in a question
    about classes or in an ``except``. Nowhere else.
    """
    parents: dict[int, ast.AST] = {}
    for node in [scope.node, *scope.nodes]:
        for child in ast.iter_child_nodes(node):
            parents[id(child)] = node
    for node in scope.nodes:
        if (
            not isinstance(node, ast.Name)
            or not isinstance(node.ctx, ast.Load)
            or not is_foreign(node, scope)
        ):
            continue
        if not _is_allowed(node, parents, scope, is_of_program=is_of_program):
            return node.id
    return None


def _is_allowed(
    name: ast.Name, parents: dict[int, ast.AST], scope: NameScope, is_of_program: Involved
) -> bool:
    node: ast.AST = name
    parent = parents.get(id(node))
    while parent is not None:
        if isinstance(parent, ast.Call):
            if parent.func is node:
                # It is called: what it returns is another question.
                return True
            if _takes_it(parent, scope, is_of_program):
                return True
        if _is_declaration(parent, node):
            return True
        if isinstance(parent, ast.stmt):
            return False
        node = parent
        parent = parents.get(id(node))
    return False


def _takes_it(call: ast.Call, scope: NameScope, is_of_program: Involved) -> bool:
    if isinstance(call.func, ast.Attribute):
        name: str | Any = call.func.attr
    else:
        name = getattr(call.func, "id", "")
    return name in _ABOUT_CLASSES or is_of_program(call.func, scope)


def _is_declaration(parent: ast.AST, node: ast.AST) -> bool:
    """The class of an ``except``, or an annotation."""
    if isinstance(parent, ast.ExceptHandler):
        return parent.type is node
    if isinstance(parent, (ast.AnnAssign, ast.arg)):
        return parent.annotation is node
    return isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and parent.returns is node
