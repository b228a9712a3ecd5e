"""Finds the assertions of a test file and numbers them, so that the judge can note which of them were reached."""

from __future__ import annotations

import ast

from nemo_evaluator.scoring.code_idioms import (
    always_fails,
    blocks_of,
    demands_exception,
    leaves_block,
    nodes_of,
)
from nemo_evaluator.scoring.code_scopes import FUNCTIONS, FileScopes


class Assertions:
    """The assertions of one file: ``assert`` statements, and calls such as ``self.assertEqual(f(3), 9)``."""

    def __init__(self, scopes: FileScopes) -> None:
        """Find the assertions that a call of each function may reach.

        Args:
            scopes: The scopes of the file.
        """
        self._scopes = scopes
        self._numbers: dict[ast.AST, int] = {}
        # The numbers of the assertions that a call of each function may reach, by its name.
        self._asserted_by: dict[str, list[int]] = {}
        for scope in scopes:
            if isinstance(scope.node, FUNCTIONS):
                numbers = self._asserted_by.setdefault(scope.node.name, [])
                numbers += self._below(scope.node)
        self._blocks: list[list[ast.stmt]] = []
        for scope in scopes:
            self._blocks += blocks_of(scope.node)
            for node in scope.nodes:
                self._blocks += blocks_of(node)

    def number(self, node: ast.AST) -> int:
        """Return the number of an assertion; a new one gets the next number."""
        return self._numbers.setdefault(node, len(self._numbers))

    def asserts(self, node: ast.Call) -> bool:
        """Return whether a call is of a method or an imported function whose name begins with ``assert``."""
        if isinstance(node.func, ast.Attribute):
            return node.func.attr.startswith("assert")
        if not isinstance(node.func, ast.Name) or not node.func.id.startswith("assert"):
            return False
        return not any(
            isinstance(scope.node, FUNCTIONS) and scope.node.name == node.func.id
            for scope in self._scopes
        )

    def asserting_call(self, node: ast.Expr | ast.withitem) -> ast.Call | None:
        """Return the call that asserts: a statement, or a context such as ``self.assertRaises``; None for others."""
        if isinstance(node, ast.Expr):
            value = node.value
            if isinstance(value, ast.Call) and self.asserts(value):
                return value
            return None
        context = node.context_expr
        if isinstance(context, ast.Call) and demands_exception(context):
            return context
        return None

    def reached_in(self, block: list[ast.stmt]) -> list[int]:
        """Return the numbers of the assertions that a right program can reach, also in functions that are called."""
        numbers: list[int] = []
        for statement in block:
            numbers += self._below(statement)
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    numbers += self._asserted_by.get(node.id, [])
        return numbers

    def after(self, node: ast.If) -> list[ast.stmt]:
        """Return the statements after an ``if`` that may leave its block; empty when it cannot leave."""
        leaves = any(leaves_block(part) for part in nodes_of([*node.body, *node.orelse]))
        if not leaves:
            return []
        for block in self._blocks:
            if node in block:
                return block[block.index(node) + 1 :]
        return []

    def _below(self, statement: ast.stmt) -> list[int]:
        numbers: list[int] = []
        for node in ast.walk(statement):
            if isinstance(node, ast.Assert) and not always_fails(node):
                numbers.append(self.number(node))
            elif isinstance(node, (ast.Expr, ast.withitem)):
                # Elsewhere, as in a lambda, an assertion does not report.
                call = self.asserting_call(node)
                if call is not None:
                    numbers.append(self.number(call))
        return numbers
