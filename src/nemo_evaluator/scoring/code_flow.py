"""What in a test file can depend on the answers of the program: a small data flow, per function.

A name that was only assigned values that have nothing to do with the program is apart; a name that was assigned an
answer, or that was assigned where an answer decides what is done, is involved. So is an object that was passed to the
program, which may have changed it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from nemo_evaluator.scoring.code_scopes import (
    FUNCTIONS,
    FileScopes,
    NameScope,
    own_nodes,
    parameters_of,
)

# How a value depends on the program: not at all, perhaps (it came in through a parameter), or certainly.
APART: Final = 0
PERHAPS: Final = 1
CERTAIN: Final = 2
_MAX_ROUNDS: Final = 10
# Functions of Python whose result is not made from their arguments alone.
_LOOKING: Final = frozenset(
    {"eval", "exec", "globals", "locals", "vars", "dir", "open", "next", "__import__", "input"}
)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)


class Flow:
    """Says of an expression how it depends on the program."""

    def __init__(
        self, module: ast.Module, scopes: FileScopes, is_program: Callable[[str], bool]
    ) -> None:
        self._scopes = scopes
        self._is_program = is_program
        self._levels: dict[tuple[NameScope, str], int] = {}
        self._changed = True
        # Modules that are imported, and names that are bound, where an answer decides it.
        self.decided_imports: set[str] = set()
        self.decided_names: set[str] = set()
        self._constant = self._constant_names()
        # How what a function returns depends on the program, and the functions of which that is all there is to know.
        self._returned: dict[NameScope, int] = {}
        self._functions = self._plain_functions()
        self._fixtures = self._fixture_functions()
        for scope in scopes:
            for name in scope.parameters:
                self._levels[scope, name] = PERHAPS
        for _ in range(_MAX_ROUNDS):
            if not self._changed:
                break
            self._changed = False
            for scope in scopes:
                self._visit_block(scope.node.body, scope, APART)
            self._visit_parameters()

    def level(self, node: ast.AST | None, scope: NameScope) -> int:
        """How the value of an expression, or what a statement does, depends on the program."""
        if node is None:
            return APART
        if isinstance(node, ast.expr):
            nodes: Iterator[ast.AST] | tuple[ast.AST, ...] = self._value_nodes(node, scope)
        else:
            nodes = (node, *own_nodes(node))
        highest = APART
        for inner in nodes:
            if highest == CERTAIN:
                break
            highest = max(highest, self._own_level(inner, scope))
        return highest

    def is_closed(self, node: ast.expr, scope: NameScope) -> bool:
        """All names in the expression are of constants, of Python, or of functions that return no answer."""
        for part in self._value_nodes(node, scope):
            if isinstance(part, ast.Name):
                owner = self._scopes.find(part.id, scope)
                if owner is None and (part.id in _LOOKING or not self._scopes.is_builtin(part.id)):
                    return False
                if owner is not None and (owner, part.id) not in self._constant:
                    return False
                if owner is not None and (owner, part.id) in self._functions:
                    return False
            elif isinstance(part, (ast.Attribute, ast.Lambda)):
                return False
        return True

    def _value_nodes(self, node: ast.AST, scope: NameScope) -> Iterator[ast.AST]:
        """The nodes that an expression's value is made from, without what is asked and thrown away."""
        chosen = _chosen_element(node)
        if chosen is not None:
            yield from self._value_nodes(chosen, scope)
            return
        if isinstance(node, ast.Call) and self._returned_by(node, scope) == APART:
            return
        yield node
        for child in ast.iter_child_nodes(node):
            yield from self._value_nodes(child, scope)

    def _returned_by(self, node: ast.Call, scope: NameScope) -> int | None:
        """How what a function of the tests returns depends on the program; None when it is no such function."""
        function = self._function_of(node, scope)
        if function is None:
            return None
        return self._returned.get(function, APART)

    def given(self, node: ast.Call, scope: NameScope) -> Iterator[tuple[NameScope, str, ast.expr]]:
        """The parameters of a function of the tests, with what a call gives them."""
        function = self._function_of(node, scope)
        if function is not None:
            for name, argument in _bound_arguments(node, function):
                yield function, name, argument

    def fixtures_of(self, name: str) -> list[NameScope]:
        """The fixtures that a parameter of this name stands for."""
        return self._fixtures.get(name, [])

    def _function_of(self, node: ast.Call, scope: NameScope) -> NameScope | None:
        if not isinstance(node.func, ast.Name):
            return None
        owner = self._scopes.find(node.func.id, scope)
        if owner is None:
            return None
        return self._functions.get((owner, node.func.id))

    def _own_level(self, node: ast.AST, scope: NameScope) -> int:
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return APART
        owner = self._scopes.find(node.id, scope)
        if owner is None:
            if self._is_program(node.id):
                return CERTAIN
            return APART
        return self._levels.get((owner, node.id), APART)

    def _levels_of(self, nodes: Iterable[ast.AST], scope: NameScope) -> int:
        return max((self.level(node, scope) for node in nodes), default=APART)

    def _raise(self, name: str, scope: NameScope, level: int) -> None:
        owner = self._scopes.find(name, scope)
        if owner is not None and level > self._levels.get((owner, name), APART):
            self._levels[owner, name] = level
            self._changed = True

    def _raise_targets(self, node: ast.AST, scope: NameScope, level: int) -> None:
        """Names that are assigned, and objects of which a part is assigned."""
        if level == APART:
            return
        for inner in (node, *own_nodes(node)):
            if isinstance(inner, ast.Name):
                self._raise(inner.id, scope, level)

    def _visit_block(self, statements: Iterable[ast.stmt], scope: NameScope, control: int) -> None:
        for statement in statements:
            self._visit(statement, scope, control)

    def _visit(self, node: ast.stmt, scope: NameScope, control: int) -> None:
        if control:
            self.decided_names |= _bound_by(node)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            self._visit_definition(node, scope)
            # Whether there is such a name may depend on an answer.
            self._raise(node.name, scope, control)
            return
        if isinstance(node, ast.Return):
            self._raise_returned(scope, max(control, self.level(node.value, scope)))
        elif isinstance(node, ast.Raise):
            self._raise_returned(scope, control)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            # It may raise where an answer decides.
            self._raise_returned(scope, self._returned_by(node.value, scope) or APART)
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            if isinstance(node, ast.Assign):
                targets: list[ast.expr] | list[ast.Name | ast.Attribute | ast.Subscript] = (
                    node.targets
                )
            else:
                targets = [node.target]
            level = max(self.level(node.value, scope), control)
            for target in targets:
                self._raise_targets(target, scope, level)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                if isinstance(node, ast.ImportFrom):
                    module = node.module or ""
                else:
                    module = alias.name
                if control:
                    self.decided_imports.add(module.partition(".")[0])
                self._raise((alias.asname or alias.name).partition(".")[0], scope, control)
        for expression in _expressions_of(node):
            self._visit_expression(expression, scope, control)
        self._visit_compound(node, scope, control)

    def _visit_compound(self, node: ast.stmt, scope: NameScope, control: int) -> None:
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

    def _visit_loop(
        self, node: ast.For | ast.AsyncFor | ast.While, scope: NameScope, control: int
    ) -> None:
        if isinstance(node, ast.While):
            condition = node.test
        else:
            condition = node.iter
        inner = max(control, self.level(condition, scope))
        if any(isinstance(part, ast.Break) for part in own_nodes(node)):
            # How often the loop runs may depend on an answer.
            inner = max(inner, self._levels_of(node.body, scope))
        if not isinstance(node, ast.While):
            self._raise_targets(node.target, scope, inner)
            self.decided_names |= _bound_by(node) if inner else set()
        self._visit_block([*node.body, *node.orelse], scope, inner)

    def _visit_definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: NameScope
    ) -> None:
        """A function or class depends on the program when its body does, whatever it is called with."""
        level = self._levels_of(node.decorator_list, scope)
        inner = self._scopes.of(node)
        level = max(level, self._levels_of(node.body, inner))
        if level == CERTAIN:
            self._raise(node.name, scope, CERTAIN)

    def _visit_expression(self, node: ast.AST, scope: NameScope, control: int) -> None:
        for inner in (node, *own_nodes(node)):
            if isinstance(inner, ast.NamedExpr):
                self._raise_targets(
                    inner.target, scope, max(self.level(inner.value, scope), control)
                )
            elif isinstance(inner, ast.comprehension):
                self._raise_targets(inner.target, scope, self.level(inner.iter, scope))
            elif isinstance(inner, (ast.Yield, ast.YieldFrom)):
                self._raise_returned(scope, max(control, self.level(inner.value, scope)))
            elif isinstance(inner, ast.Call):
                self._visit_call(inner, scope)

    def _raise_returned(self, scope: NameScope, level: int) -> None:
        if level > self._returned.get(scope, APART):
            self._returned[scope] = level
            self._changed = True

    def _visit_parameters(self) -> None:
        """What fixtures return comes in through parameters, and what one method stores is there in the others."""
        for scope in self._scopes:
            if isinstance(scope.node, ast.ClassDef):
                self._visit_methods(scope)
            for name in scope.parameters if isinstance(scope.node, FUNCTIONS) else ():
                for fixture in self._fixtures.get(name, []):
                    self._raise(name, scope, self._returned.get(fixture, APART))

    def _visit_methods(self, scope: NameScope) -> None:
        methods: list[NameScope] = []
        for node in scope.node.body:
            if isinstance(node, FUNCTIONS) and node.args.args:
                methods.append(self._scopes.of(node))
        owners = [(method, _first_parameter(method)) for method in methods]
        highest = max((self._levels.get(owner, APART) for owner in owners), default=APART)
        for method, name in owners:
            self._raise(name, method, highest)

    def _visit_call(self, node: ast.Call, scope: NameScope) -> None:
        """What is passed to the program may be changed by it; a method may store an answer in its object."""
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        for function, name, argument in self.given(node, scope):
            self._raise(name, function, self.level(argument, scope))
        stored = self._levels_of(arguments, scope)
        if stored:
            if isinstance(node.func, ast.Attribute):
                target = node.func.value
            else:
                target = node.func
            self._raise_mutable(target, scope, stored)
        level = self.level(node.func, scope)
        if level:
            for argument in arguments:
                self._raise_mutable(argument, scope, level)

    def _raise_mutable(self, node: ast.AST, scope: NameScope, level: int) -> None:
        for inner in (node, *own_nodes(node)):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                owner = self._scopes.find(inner.id, scope)
                if owner is not None and (owner, inner.id) not in self._constant:
                    self._raise(inner.id, scope, level)

    def _plain_functions(self) -> dict[tuple[NameScope, str], NameScope]:
        """Functions without decorators whose names stand for nothing else."""
        mapping: dict[tuple[NameScope, str], NameScope] = {}
        for scope in self._scopes:
            if (
                scope.parent is not None
                and isinstance(scope.node, FUNCTIONS)
                and not scope.node.decorator_list
                and _times_bound(scope.node.name, scope.parent) == 1
            ):
                mapping[(scope.parent, scope.node.name)] = scope
        return mapping

    def _fixture_functions(self) -> dict[str, list[NameScope]]:
        fixtures: dict[str, list[NameScope]] = {}
        for scope in self._scopes:
            if not isinstance(scope.node, FUNCTIONS):
                continue
            if any("fixture" in ast.unparse(decorator) for decorator in scope.node.decorator_list):
                fixtures.setdefault(scope.node.name, []).append(scope)
        return fixtures

    def _constant_names(self) -> set[tuple[NameScope, str]]:
        """Names that only ever stand for constants, functions, classes or modules, which hold no answers."""
        constant: set[tuple[NameScope, str]] = set()
        other: set[tuple[NameScope, str]] = set()
        for scope in self._scopes:
            for node in scope.nodes:
                if isinstance(node, ast.Assign) and is_constant(node.value):
                    constant |= {
                        (scope, target.id)
                        for target in node.targets
                        if isinstance(target, ast.Name)
                    }
                elif isinstance(node, ast.Assign):
                    other |= _assigned(node.targets, scope)
                elif isinstance(node, _LOOPS) and not isinstance(node, ast.While):
                    other |= _assigned([node.target], scope)
                elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                    constant.add((scope, node.name))
                elif isinstance(node, (ast.Import, ast.ImportFrom)):
                    constant |= {
                        (scope, (alias.asname or alias.name).partition(".")[0])
                        for alias in node.names
                    }
                elif isinstance(node, ast.Lambda):
                    other |= {(scope, name) for name in parameters_of(node.args)}
        return constant - other


def _bound_arguments(node: ast.Call, function: NameScope) -> Iterator[tuple[str, ast.expr]]:
    """The parameters of a function of the tests, with what a call gives them."""
    assert isinstance(function.node, FUNCTIONS)
    arguments = function.node.args
    names = [parameter.arg for parameter in (*arguments.posonlyargs, *arguments.args)]
    for place, argument in enumerate(node.args):
        if isinstance(argument, ast.Starred):
            for name in names[place:]:
                yield name, argument.value
            break
        if place < len(names):
            yield names[place], argument
        elif arguments.vararg is not None:
            yield arguments.vararg.arg, argument
    for keyword in node.keywords:
        if keyword.arg in function.parameters:
            yield keyword.arg or "", keyword.value
        elif keyword.arg is None:
            for name in names:
                yield name, keyword.value


def bindings_of(name: str, scopes: FileScopes) -> list[ast.expr | None]:
    """What a name is assigned anywhere in the file; None for a binding that is no plain assignment."""
    values: list[ast.expr | None] = []
    for scope in scopes:
        plain = 0
        for node in scope.nodes:
            if isinstance(node, ast.Assign):
                same: list[ast.Name] = []
                for target in node.targets:
                    if isinstance(target, ast.Name) and target.id == name:
                        same.append(target)
                values += [node.value for _ in same]
                plain += len(same)
        others = _times_bound(name, scope) - plain
        if others or (name in scope.names and not plain):
            values.append(None)
    return values


def _chosen_element(node: ast.AST) -> ast.expr | None:
    """What ``(f(3), 4)[1]`` takes from a tuple or list that is written out."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, (ast.Tuple, ast.List)):
        return None
    elements = node.value.elts
    if isinstance(node.slice, ast.Constant):
        place = node.slice.value
    else:
        place = None
    if not isinstance(place, int) or any(isinstance(element, ast.Starred) for element in elements):
        return None
    if place < len(elements):
        return elements[place]
    return None


def _first_parameter(method: NameScope) -> str:
    assert isinstance(method.node, FUNCTIONS)
    return method.node.args.args[0].arg


def _times_bound(name: str, scope: NameScope) -> int:
    bindings = 0
    for node in scope.nodes:
        is_definition = isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name == name
        is_assigned = (
            isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
        )
        bindings += is_definition or is_assigned
    return bindings


def _assigned(targets: Iterable[ast.AST], scope: NameScope) -> set[tuple[NameScope, str]]:
    names: set[tuple[NameScope, str]] = set()
    for target in targets:
        for node in (target, *own_nodes(target)):
            if isinstance(node, ast.Name):
                names.add((scope, node.id))
    return names


def _bound_by(node: ast.stmt) -> set[str]:
    """The names that a statement binds or deletes, without those inside of its blocks."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    nodes: list[ast.AST] = []
    for child in _expressions_of(node):
        for part in (child, *own_nodes(child)):
            nodes.append(part)
    unique: set[str] = set()
    for part in nodes:
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            unique.add(part.id)
    return unique


def is_constant(node: ast.AST) -> bool:
    """A value that is written out and cannot be changed."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.UnaryOp):
        return is_constant(node.operand)
    if isinstance(node, ast.BinOp):
        return is_constant(node.left) and is_constant(node.right)
    return isinstance(node, ast.Tuple) and all(is_constant(element) for element in node.elts)


def _expressions_of(node: ast.stmt) -> list[ast.AST]:
    """The expressions that a statement evaluates itself, without those of its blocks."""
    expressions: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            expressions.append(child)
        elif isinstance(child, ast.withitem):
            expressions.append(child.context_expr)
    return expressions
