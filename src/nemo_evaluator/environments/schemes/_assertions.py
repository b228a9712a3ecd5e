"""Recognize the assertions of a test, and what they expect."""

from __future__ import annotations

import ast
from typing import Final

from nemo_evaluator.environments.schemes._wrong_values import constants_in

_EQUALITIES: Final = frozenset({
    "assertEqual", "assertEquals", "assertAlmostEqual", "assertListEqual", "assertDictEqual", "assertSetEqual",
    "assertTupleEqual", "assertSequenceEqual", "assertMultiLineEqual", "assertCountEqual", "assertIs",
})  # fmt: skip
_TRUTHS: Final = frozenset({"assertTrue", "assertFalse", "assert_"})


def has_tolerance(statement: ast.stmt) -> bool:
    """Return whether an assertion might accept a value that differs a little."""
    call = assert_method(statement)
    if call is None or not isinstance(call.func, ast.Attribute):
        return False
    return call.func.attr == "assertAlmostEqual"


def is_assertion(statement: ast.stmt) -> bool:
    """Return whether a statement is an ``assert``, or a call of a unittest assertion."""
    return isinstance(statement, ast.Assert) or assert_method(statement) is not None


def assert_method(statement: ast.stmt) -> ast.Call | None:
    """Return the call of a unittest assertion such as ``self.assertEqual(a, b)``; None for other statements."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    function = statement.value.func
    if not isinstance(function, ast.Attribute) or not function.attr.startswith("assert"):
        return None
    return statement.value


def expected_value(statement: ast.stmt) -> ast.expr | None:
    """Return the value that an equality expects: the operand that is a literal, else the right one."""
    operands: list[ast.expr] = []
    if isinstance(statement, ast.Assert):
        test = statement.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            operands = [test.comparators[0], test.left]
    call = assert_method(statement)
    if call is not None and isinstance(call.func, ast.Attribute) and call.func.attr in _EQUALITIES:
        if len(call.args) >= 2:
            operands = call.args[1::-1]
        else:
            operands = []
    if not operands or any(
        isinstance(operand, ast.Starred | ast.GeneratorExp) for operand in operands
    ):
        return None
    literals = [operand for operand in operands if constants_in(operand)]
    return literals[0] if literals else operands[0]


def tested_value(statement: ast.stmt) -> ast.expr | None:
    """Return the condition of an assertion that can be negated; None for other statements."""
    if isinstance(statement, ast.Assert):
        return statement.test
    call = assert_method(statement)
    if (
        call is not None
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in _TRUTHS
        and call.args
    ):
        return call.args[0]
    return None
