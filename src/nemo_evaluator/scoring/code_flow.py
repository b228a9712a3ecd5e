"""What in a test file can depend on the answers of the program: a small data flow, per function.

A name that was only assigned values that have nothing to do with the program is apart; a name that was assigned an
answer, or that was assigned where an answer decides what is done, is involved. So is an object that was passed to the
program, which may have changed it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Final

from nemo_evaluator.scoring.code_scopes import FUNCTIONS, Scope, Scopes, own_nodes, parameters_of

# How a value depends on the program: not at all, perhaps (it came in through a parameter), or certainly.
APART: Final = 0
PERHAPS: Final = 1
CERTAIN: Final = 2
_MAX_ROUNDS: Final = 10
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)


class Flow:
    """Says of an expression how it depends on the program."""

    def __init__(self, module: ast.Module, scopes: Scopes, is_program: Callable[[str], bool]) -> None:
        self._scopes = scopes
        self._is_program = is_program
        self._levels: dict[tuple[Scope, str], int] = {}
        self._changed = True
        self._constant = self._constant_names()
        for scope in scopes:
            for name in scope.parameters:
                self._levels[scope, name] = PERHAPS
        for _ in range(_MAX_ROUNDS):
            if not self._changed:
                break
            self._changed = False
            for scope in scopes:
                self._visit_block(scope.node.body, scope, APART)

    def level(self, node: ast.AST | None, scope: Scope) -> int:
        """How the value of an expression, or what a statement does, depends on the program."""
        if node is None:
            return APART
        highest = self._own_level(node, scope)
        for inner in own_nodes(node):
            if highest == CERTAIN:
                break
            highest = max(highest, self._own_level(inner, scope))
        return highest

    def _own_level(self, node: ast.AST, scope: Scope) -> int:
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return APART
        owner = self._scopes.find(node.id, scope)
        if owner is None:
            return CERTAIN if self._is_program(node.id) else APART
        return self._levels.get((owner, node.id), APART)

    def _levels_of(self, nodes: Iterable[ast.AST], scope: Scope) -> int:
        return max((self.level(node, scope) for node in nodes), default=APART)

    def _raise(self, name: str, scope: Scope, level: int) -> None:
        owner = self._scopes.find(name, scope)
        if owner is not None and level > self._levels.get((owner, name), APART):
            self._levels[owner, name] = level
            self._changed = True

    def _raise_targets(self, node: ast.AST, scope: Scope, level: int) -> None:
        """Names that are assigned, and objects of which a part is assigned."""
        if level == APART:
            return
        for inner in (node, *own_nodes(node)):
            if isinstance(inner, ast.Name):
                self._raise(inner.id, scope, level)

    def _visit_block(self, statements: Iterable[ast.stmt], scope: Scope, control: int) -> None:
        for statement in statements:
            self._visit(statement, scope, control)

    def _visit(self, node: ast.stmt, scope: Scope, control: int) -> None:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            self._visit_definition(node, scope)
            return
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            level = max(self.level(node.value, scope), control)
            for target in targets:
                self._raise_targets(target, scope, level)
        for expression in _expressions_of(node):
            self._visit_expression(expression, scope, control)
        self._visit_compound(node, scope, control)

    def _visit_compound(self, node: ast.stmt, scope: Scope, control: int) -> None:
        if isinstance(node, _LOOPS):
            self._visit_loop(node, scope, control)
        elif isinstance(node, ast.If):
            inner = max(control, self.level(node.test, scope))
            self._visit_block([*node.body, *node.orelse], scope, inner)
        elif isinstance(node, (ast.Try, ast.TryStar)):
            inner = max(control, self._levels_of(node.body, scope))
            self._visit_block([*node.body, *node.orelse, *node.finalbody], scope, inner)
            for handler in node.handlers:
                if handler.name:
                    self._raise(handler.name, scope, inner)
                self._visit_block(handler.body, scope, inner)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            inside = max(self._levels_of(node.body, scope), control)
            for item in node.items:
                if item.optional_vars is not None:
                    level = max(inside, self.level(item.context_expr, scope))
                    self._raise_targets(item.optional_vars, scope, level)
            self._visit_block(node.body, scope, control)
        elif isinstance(node, ast.Match):
            inner = max(control, self.level(node.subject, scope))
            for case in node.cases:
                self._visit_block(case.body, scope, inner)

    def _visit_loop(self, node: ast.For | ast.AsyncFor | ast.While, scope: Scope, control: int) -> None:
        condition = node.test if isinstance(node, ast.While) else node.iter
        inner = max(control, self.level(condition, scope))
        if any(isinstance(part, ast.Break) for part in own_nodes(node)):
            # How often the loop runs may depend on an answer.
            inner = max(inner, self._levels_of(node.body, scope))
        if not isinstance(node, ast.While):
            self._raise_targets(node.target, scope, inner)
        self._visit_block([*node.body, *node.orelse], scope, inner)

    def _visit_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: Scope) -> None:
        """A function or class depends on the program when its body does, whatever it is called with."""
        level = self._levels_of(node.decorator_list, scope)
        inner = self._scopes.of(node)
        level = max(level, self._levels_of(node.body, inner))
        if level == CERTAIN:
            self._raise(node.name, scope, CERTAIN)

    def _visit_expression(self, node: ast.AST, scope: Scope, control: int) -> None:
        for inner in (node, *own_nodes(node)):
            if isinstance(inner, ast.NamedExpr):
                self._raise_targets(inner.target, scope, max(self.level(inner.value, scope), control))
            elif isinstance(inner, ast.comprehension):
                self._raise_targets(inner.target, scope, self.level(inner.iter, scope))
            elif isinstance(inner, ast.Call):
                self._visit_call(inner, scope)

    def _visit_call(self, node: ast.Call, scope: Scope) -> None:
        """What is passed to the program may be changed by it; a method may store an answer in its object."""
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        stored = self._levels_of(arguments, scope)
        if stored:
            target = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            self._raise_mutable(target, scope, stored)
        level = self.level(node.func, scope)
        if level:
            for argument in arguments:
                self._raise_mutable(argument, scope, level)

    def _raise_mutable(self, node: ast.AST, scope: Scope, level: int) -> None:
        for inner in (node, *own_nodes(node)):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                owner = self._scopes.find(inner.id, scope)
                if owner is not None and (owner, inner.id) not in self._constant:
                    self._raise(inner.id, scope, level)

    def _constant_names(self) -> set[tuple[Scope, str]]:
        """Names that only ever stand for constants, functions, classes or modules, which hold no answers."""
        constant: set[tuple[Scope, str]] = set()
        other: set[tuple[Scope, str]] = set()
        for scope in self._scopes:
            for node in scope.nodes:
                if isinstance(node, ast.Assign) and _is_constant(node.value):
                    constant |= {(scope, target.id) for target in node.targets if isinstance(target, ast.Name)}
                elif isinstance(node, ast.Assign):
                    other |= _assigned(node.targets, scope)
                elif isinstance(node, _LOOPS) and not isinstance(node, ast.While):
                    other |= _assigned([node.target], scope)
                elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                    constant.add((scope, node.name))
                elif isinstance(node, (ast.Import, ast.ImportFrom)):
                    constant |= {(scope, (alias.asname or alias.name).partition(".")[0]) for alias in node.names}
                elif isinstance(node, ast.Lambda):
                    other |= {(scope, name) for name in parameters_of(node.args)}
        return constant - other


def _assigned(targets: Iterable[ast.AST], scope: Scope) -> set[tuple[Scope, str]]:
    names: set[tuple[Scope, str]] = set()
    for target in targets:
        for node in (target, *own_nodes(target)):
            if isinstance(node, ast.Name):
                names.add((scope, node.id))
    return names


def _is_constant(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.UnaryOp):
        return _is_constant(node.operand)
    if isinstance(node, ast.BinOp):
        return _is_constant(node.left) and _is_constant(node.right)
    return isinstance(node, ast.Tuple) and all(_is_constant(element) for element in node.elts)


def _expressions_of(node: ast.stmt) -> list[ast.AST]:
    """The expressions that a statement evaluates itself, without those of its blocks."""
    expressions: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            expressions.append(child)
        elif isinstance(child, ast.withitem):
            expressions.append(child.context_expr)
    return expressions
