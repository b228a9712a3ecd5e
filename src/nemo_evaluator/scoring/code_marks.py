"""Conditions of marks such as ``pytest.mark.skipif(f(0), reason="...")``: an answer among them may skip a test."""

from __future__ import annotations

import ast
from typing import Final

from nemo_evaluator.scoring.code_idioms import called_name

_CONDITIONAL: Final = ("skipif", "xfail")


def conditions_of(call: ast.Call) -> list[ast.expr]:
    """Return the conditions of a mark; none for other calls."""
    if called_name(call) not in _CONDITIONAL:
        return []
    conditions = list(call.args)
    for keyword in call.keywords:
        if keyword.arg == "condition":
            conditions.append(keyword.value)
    return conditions


def report_conditions(call: ast.Call, conditions: list[ast.expr]) -> None:
    """Turn some conditions ``X`` of a mark into ``__nel_skips__(X)``, which reports a test that is skipped."""
    call.args = [_reported(argument, conditions) for argument in call.args]
    for keyword in call.keywords:
        keyword.value = _reported(keyword.value, conditions)


def _reported(value: ast.expr, conditions: list[ast.expr]) -> ast.expr:
    if value not in conditions:
        return value
    report = ast.Call(ast.Name("__nel_skips__", ast.Load()), [value], [])
    return ast.fix_missing_locations(ast.copy_location(report, value))
