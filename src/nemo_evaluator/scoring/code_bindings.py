"""How statements and calls of a test file bind names.

``code_flow`` asks these functions which names a statement assigns and which argument reaches which parameter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from nemo_evaluator.scoring.code_scopes import FUNCTIONS, FileScopes, NameScope, own_nodes

# A name, together with the scope that binds it.
BoundName: TypeAlias = tuple[NameScope, str]
DEFINITIONS: Final = (*FUNCTIONS, ast.ClassDef)


def imported_name(alias: ast.alias) -> str:
    """Return the name that an import binds: ``a`` for ``import a.b``, ``c`` for ``import a.b as c``."""
    return (alias.asname or alias.name).partition(".")[0]


def with_own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes below it, without the bodies of the functions and classes inside."""
    yield node
    yield from own_nodes(node)


def names_in(node: ast.AST) -> Iterator[ast.Name]:
    """Yield all names in an expression, without those in the bodies of functions and classes inside."""
    for part in with_own_nodes(node):
        if isinstance(part, ast.Name):
            yield part


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """Return the positional arguments of a call, then those passed by keyword."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def bound_arguments(call: ast.Call, function: NameScope) -> Iterator[tuple[str, ast.expr]]:
    """Match the arguments of a call to the parameters of a function.

    Args:
        call: The call.
        function: The scope of the called function.

    Yields:
        The name of a parameter, and an expression that its value may come from. ``*values`` may reach every
        parameter from its position on, ``**options`` every parameter.
    """
    assert isinstance(function.node, FUNCTIONS)
    parameters = function.node.args
    names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
    for position, argument in enumerate(call.args):
        if isinstance(argument, ast.Starred):
            for name in names[position:]:
                yield name, argument.value
            break
        if position < len(names):
            yield names[position], argument
        elif parameters.vararg is not None:
            yield parameters.vararg.arg, argument
    for keyword in call.keywords:
        if keyword.arg is None:
            for name in names:
                yield name, keyword.value
        elif keyword.arg in function.parameters:
            yield keyword.arg, keyword.value


def bindings_of(name: str, scopes: FileScopes) -> list[ast.expr | None]:
    """Return all values that a name is assigned anywhere in the file.

    Args:
        name: The name.
        scopes: The scopes of the file.

    Returns:
        The value of each plain assignment; None for any other binding, such as a loop or a definition.
    """
    values: list[ast.expr | None] = []
    for scope in scopes:
        assignments = 0
        for node in scope.nodes:
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    values.append(node.value)
                    assignments += 1
        other_bindings = times_bound(name, scope) - assignments
        if other_bindings or (name in scope.names and not assignments):
            values.append(None)
    return values


def times_bound(name: str, scope: NameScope) -> int:
    """Return how often a scope defines, assigns or deletes a name."""
    bindings = 0
    for node in scope.nodes:
        if isinstance(node, DEFINITIONS):
            bindings += node.name == name
        elif isinstance(node, ast.Name):
            bindings += node.id == name and not isinstance(node.ctx, ast.Load)
    return bindings


def names_in_targets(targets: Iterable[ast.AST], scope: NameScope) -> set[BoundName]:
    """Return the names in the targets of an assignment, also those of which only a part is assigned."""
    bound: set[BoundName] = set()
    for target in targets:
        for name in names_in(target):
            bound.add((scope, name.id))
    return bound


def names_bound_by(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds or deletes, without those in its blocks."""
    if isinstance(statement, DEFINITIONS):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {imported_name(alias) for alias in statement.names}
    bound: set[str] = set()
    for expression in expressions_of(statement):
        for name in names_in(expression):
            if not isinstance(name.ctx, ast.Load):
                bound.add(name.id)
    return bound


def expressions_of(statement: ast.stmt) -> list[ast.AST]:
    """Return the expressions that a statement evaluates itself, without those of its blocks."""
    expressions: list[ast.AST] = []
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            expressions.append(child)
        elif isinstance(child, ast.withitem):
            expressions.append(child.context_expr)
    return expressions


def is_constant(node: ast.AST) -> bool:
    """Return whether an expression is a literal that cannot be changed, such as ``-1`` or ``(2, "a")``."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.UnaryOp):
        return is_constant(node.operand)
    if isinstance(node, ast.BinOp):
        return is_constant(node.left) and is_constant(node.right)
    return isinstance(node, ast.Tuple) and all(is_constant(element) for element in node.elts)


def chosen_element(node: ast.AST) -> ast.expr | None:
    """Return the element that ``(f(3), 4)[1]`` takes from a literal tuple or list; None for anything else."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, (ast.Tuple, ast.List)):
        return None
    if not isinstance(node.slice, ast.Constant) or not isinstance(node.slice.value, int):
        return None
    elements = node.value.elts
    position = node.slice.value
    has_unknown_length = any(isinstance(element, ast.Starred) for element in elements)
    if has_unknown_length or position >= len(elements):
        return None
    return elements[position]
