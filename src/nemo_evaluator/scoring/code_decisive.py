"""Which assertions decide: they compare an answer, as it comes from the program, with a literal.

``assert f(3) == 9`` holds for no answer but 9. Tests with such an assertion fail every program that answers all
questions alike, so the judge does not run them against controls.
"""

from __future__ import annotations

import ast

from nemo_evaluator.scoring.code_scopes import FUNCTIONS, FileScopes, NameScope


def is_decisive(node: ast.expr, scope: NameScope, scopes: FileScopes, *, entry: str) -> bool:
    """Return whether an asserted expression is ``f(...) == LITERAL``, or the other way round.

    Args:
        node: The expression.
        scope: The scope in which it stands.
        scopes: All scopes of the tests.
        entry: The name of the function under test.
    """
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    if not isinstance(node.ops[0], ast.Eq):
        return False
    left = node.left
    right = node.comparators[0]
    if _is_question(left, scope, scopes, entry=entry):
        return _is_literal(right)
    return _is_question(right, scope, scopes, entry=entry) and _is_literal(left)


def _is_question(node: ast.expr, scope: NameScope, scopes: FileScopes, *, entry: str) -> bool:
    """Return whether an expression calls the program itself, not a function of the tests that calls it."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    name = node.func.id
    home = scopes.find(name, scope)
    if home is None:
        return name == entry
    return _is_parameter_of_check(name, home, scopes, entry=entry)


def _is_parameter_of_check(name: str, home: NameScope, scopes: FileScopes, *, entry: str) -> bool:
    """Return whether a name is the parameter of ``check(candidate)``, and every call passes the entry point to it."""
    function = home.node
    if not isinstance(function, FUNCTIONS) or home.parent is not scopes.module:
        return False
    parameters = [*function.args.posonlyargs, *function.args.args]
    if len(parameters) != 1 or parameters[0].arg != name or name in _names_bound_in(function):
        return False
    if function.decorator_list or scopes.find(entry, scopes.module) is not None:
        return False
    uses = 0
    entry_calls = 0
    for node in ast.walk(scopes.module.node):
        if isinstance(node, ast.Name) and node.id == function.name:
            uses += 1
        elif isinstance(node, ast.Call) and _is_call_with_entry(node, function.name, entry):
            entry_calls += 1
    return uses == entry_calls


def _is_call_with_entry(call: ast.Call, function: str, entry: str) -> bool:
    """Return whether a call is ``check(f)``, with nothing else."""
    if not isinstance(call.func, ast.Name) or call.func.id != function:
        return False
    if len(call.args) != 1 or call.keywords:
        return False
    argument = call.args[0]
    return isinstance(argument, ast.Name) and argument.id == entry


def _names_bound_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names that a function, or one inside it, rebinds; its own parameters are not among them."""
    names: set[str] = set()
    for statement in function.body:
        for node in ast.walk(statement):
            names |= _names_bound_by(node)
    return names


def _names_bound_by(node: ast.AST) -> set[str]:
    """Return the names that one node binds."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        return {node.id}
    if isinstance(node, ast.alias):
        return {(node.asname or node.name).partition(".")[0]}
    if isinstance(node, ast.arg):
        return {node.arg}
    if isinstance(node, ast.MatchMapping):
        return {node.rest or ""}
    if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return {node.name or ""}
    return set()


def _is_literal(node: ast.expr) -> bool:
    """Return whether an expression is a plain value other than None, which a program without an answer returns."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return value is not None
