"""Tests that no judge outside of the program's process can run: they look at its output, or compare its objects."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from nemo_evaluator.scoring.code_scopes import FileScopes, NameScope

_STREAMS: Final = ("stdout", "stderr", "stdin")
_CAPTURED: Final = frozenset(
    {"capsys", "capfd", "caplog", "recwarn", "readouterr", "assertLogs", "assertWarns"}
)
_EQUALITY: Final = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_ASSERTED: Final = (
    "assertEqual",
    "assertNotEqual",
    "assertIn",
    "assertNotIn",
    "assertListEqual",
    "assertCountEqual",
)


def find_process_use(module: ast.Module) -> str | None:
    """Find a way to capture output or to replace input, which would have to happen in the program's process.

    Returns:
        Its name; None when the tests use none.
    """
    redirects = False
    reads = False
    for node in ast.walk(module):
        if isinstance(node, ast.arg) and node.arg in _CAPTURED:
            return node.arg
        if isinstance(node, ast.Attribute):
            if node.attr in _CAPTURED:
                return node.attr
            is_stream = (
                node.attr in _STREAMS
                and isinstance(node.value, ast.Name)
                and node.value.id == "sys"
            )
            if is_stream and node.attr == "stdin" and isinstance(node.ctx, ast.Store):
                return "sys.stdin"
            redirects = redirects or (is_stream and isinstance(node.ctx, ast.Store))
            reads = reads or node.attr == "getvalue"
        if isinstance(node, ast.Name) and node.id.startswith("redirect_std"):
            redirects = True
        if isinstance(node, ast.Attribute) and node.attr.startswith("redirect_std"):
            redirects = True
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.startswith("builtins.")
        ):
            return node.value
    return "captured output" if redirects and reads else None


def find_own_equality(scopes: FileScopes, is_program: Callable[[str], bool]) -> str | None:
    """Find a class of the program of which two objects are compared.

    Args:
        scopes: The scopes of the test file.
        is_program: Whether a name that the file does not bind comes from the program.

    Returns:
        The name of the class; None when there is none.
    """
    for scope in scopes:
        for node in scope.nodes:
            sides: list[ast.expr] = []
            if isinstance(node, ast.Compare) and any(
                isinstance(operator, _EQUALITY) for operator in node.ops
            ):
                sides = [node.left, *node.comparators]
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in _ASSERTED
            ):
                sides = node.args[:2]
            built = [_built_class(side, scope, scopes, is_program=is_program) for side in sides]
            if len(built) > 1 and all(built):
                return built[0]
    return None


def _built_class(
    node: ast.expr, scope: NameScope, scopes: FileScopes, is_program: Callable[[str], bool]
) -> str | None:
    """Return the class of the program of which an expression makes an object; None for other expressions."""
    if isinstance(node, ast.BinOp):
        left_class = _built_class(node.left, scope, scopes, is_program=is_program)
        return left_class or _built_class(node.right, scope, scopes, is_program=is_program)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        class_names: list[str | None] = []
        for element in node.elts:
            class_names.append(_built_class(element, scope, scopes, is_program=is_program))
        return next((name for name in class_names if name), None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        name = node.func.id
        is_class = name[:1].isupper() and scopes.find(name, scope) is None and is_program(name)
        return name if is_class else None
    if not isinstance(node, ast.Name):
        return None
    for assignment in scope.nodes:
        if not isinstance(assignment, ast.Assign) or not isinstance(assignment.value, ast.Call):
            continue
        if any(
            isinstance(target, ast.Name) and target.id == node.id for target in assignment.targets
        ):
            return _built_class(assignment.value, scope, scopes, is_program=is_program)
    return None
