"""Where the values of a test file come from: back through names, parameters, fixtures and functions of the tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, TypeAlias

from nemo_evaluator.scoring.code_bindings import BoundName, names_in
from nemo_evaluator.scoring.code_flow import CERTAIN, Flow
from nemo_evaluator.scoring.code_scopes import FUNCTIONS, FileScopes, NameScope

# An expression, with the scope that evaluates it.
Located: TypeAlias = tuple[ast.expr, NameScope]
_MAX_ASSIGNMENTS: Final = 5
_CHOICES_AND_CONTAINERS: Final = (
    ast.IfExp,
    ast.BoolOp,
    ast.Lambda,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.NamedExpr,
)


class Origins:
    """Traces values back to foreign names: those that only the program defines, except its entry point."""

    def __init__(
        self, scopes: FileScopes, foreign: set[str], from_program: Flow, from_entry: Flow
    ) -> None:
        self._scopes = scopes
        self._foreign = foreign
        self._from_program = from_program
        self._from_entry = from_entry
        self._assigned = self._assignments()

    def is_foreign(self, name: ast.Name, scope: NameScope) -> bool:
        """Return whether only the program defines a name, where it is used."""
        return name.id in self._foreign and self._scopes.find(name.id, scope) is None

    def foreign_names(self, node: ast.AST, scope: NameScope) -> Iterator[str]:
        """Yield the foreign names that an expression itself contains."""
        for name in names_in(node):
            if self.is_foreign(name, scope):
                yield name.id

    def first_foreign_name(self, nodes: list[ast.expr], scope: NameScope) -> str | None:
        """Return the first foreign name in some expressions; None when they contain none."""
        for node in nodes:
            for name in self.foreign_names(node, scope):
                return name
        return None

    def all_origins(self, node: ast.AST, scope: NameScope) -> set[str]:
        """Return the foreign names behind a value, also behind the names and functions of the tests in it."""
        return self._all_origins(node, scope, set())

    def roots(self, node: ast.AST, scope: NameScope) -> set[str]:
        """Return the foreign names that a function or an object comes from: ``check`` for ``check(f).equals``."""
        return self._roots(node, scope, 0)

    def parts(self, node: ast.AST, scope: NameScope) -> Iterator[tuple[ast.AST, NameScope]]:
        """Yield the expressions that make up a value; for a name, the values that it was assigned."""
        if isinstance(node, ast.Name):
            owner = self._scopes.find(node.id, scope)
            if owner is not None:
                yield from self._assigned.get((owner, node.id), [])
                yield from self._results_of(node.id, owner)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.comprehension):
                yield child.iter, scope
            elif isinstance(child, ast.keyword):
                yield child.value, scope
            elif isinstance(child, ast.expr):
                yield child, scope

    def _all_origins(self, node: ast.AST, scope: NameScope, visited: set[int]) -> set[str]:
        """Collect the foreign names behind a value; ``visited`` has the expressions that were already inspected."""
        if id(node) in visited:
            return set()
        visited.add(id(node))
        origins: set[str] = set()
        for name in names_in(node):
            if self.is_foreign(name, scope):
                origins.add(name.id)
            for value, value_scope in self.parts(name, scope):
                origins |= self._all_origins(value, value_scope, visited)
        return origins

    def _roots(self, node: ast.AST, scope: NameScope, depth: int) -> set[str]:
        """Collect the foreign names that a value comes from; ``depth`` counts the assignments so far."""
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Await)):
            if isinstance(node, ast.Call):
                node = node.func
            else:
                node = node.value
        if isinstance(node, ast.Name):
            return self._roots_of_name(node.id, scope, depth)
        if isinstance(node, _CHOICES_AND_CONTAINERS):
            return set(self.foreign_names(node, scope))
        return set()

    def _roots_of_name(self, name: str, scope: NameScope, depth: int) -> set[str]:
        """Return the foreign names that a name was assigned from, without answers of the entry point."""
        owner = self._scopes.find(name, scope)
        if owner is None:
            return {name} & self._foreign
        if depth >= _MAX_ASSIGNMENTS:
            return set()
        roots: set[str] = set()
        for value, value_scope in self._assigned.get((owner, name), []):
            if self._from_entry.level(value, value_scope) == CERTAIN:
                continue
            for part in names_in(value):
                roots |= self._roots(part, value_scope, depth + 1)
        return roots

    def _results_of(self, name: str, owner: NameScope) -> Iterator[Located]:
        """Yield the values that a function of the tests returns."""
        for scope in self._scopes:
            if scope.parent is not owner or not isinstance(scope.node, FUNCTIONS):
                continue
            if scope.node.name == name:
                for value in _returned_values(scope):
                    yield value, scope

    def _assignments(self) -> dict[BoundName, list[Located]]:
        """Return all values that each name is assigned or taken from, also through parameters and fixtures."""
        assigned: dict[BoundName, list[Located]] = {}
        for scope in self._scopes:
            for node in scope.nodes:
                for target, value in _bindings(node):
                    for name in names_in(target):
                        if not isinstance(name.ctx, ast.Load):
                            assigned.setdefault((scope, name.id), []).append((value, scope))
                if isinstance(node, ast.Call):
                    parameters = self._from_program.parameters_bound_by(node, scope)
                    for function, parameter, argument in parameters:
                        assigned.setdefault((function, parameter), []).append((argument, scope))
            for parameter in scope.parameters:
                for fixture in self._from_program.fixtures_of(parameter):
                    values = [(value, fixture) for value in _returned_values(fixture)]
                    assigned.setdefault((scope, parameter), []).extend(values)
        return assigned


def _returned_values(function: NameScope) -> list[ast.expr]:
    """Return the values that a function returns or yields."""
    values: list[ast.expr] = []
    for node in function.nodes:
        if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) and node.value is not None:
            values.append(node.value)
    return values


def _bindings(node: ast.AST) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield the targets that a node binds, each with the value that it gets or is taken from."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield target, node.value
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield node.target, node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr
