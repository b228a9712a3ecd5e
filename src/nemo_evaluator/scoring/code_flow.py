"""Which expressions of a test file depend on the answers of the program: a small data flow analysis, per function.

A name is independent when only values that have nothing to do with the program are assigned to it. It depends on the
program when an answer is assigned to it, or when an answer decides whether the assignment runs. An object that was
passed to the program depends on it too, because the program may have changed it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from nemo_evaluator.scoring.code_bindings import (
    DEFINITIONS,
    BoundName,
    arguments_of,
    bound_arguments,
    chosen_element,
    expressions_of,
    imported_name,
    is_constant,
    names_bound_by,
    names_in,
    names_in_targets,
    times_bound,
    with_own_nodes,
)
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
# Builtin functions whose result depends on more than their arguments.
_LOOKING: Final = frozenset(
    {"eval", "exec", "globals", "locals", "vars", "dir", "open", "next", "__import__", "input"}
)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)


class Flow:
    """The result of the analysis of one file.

    Attributes:
        decided_imports: Top-level modules whose import an answer decides.
        decided_names: Names whose binding an answer decides.
    """

    def __init__(
        self, module: ast.Module, scopes: FileScopes, is_program: Callable[[str], bool]
    ) -> None:
        """Analyse a file.

        Args:
            module: The file.
            scopes: Its scopes.
            is_program: Whether a name that the file does not bind comes from the program.
        """
        self.decided_imports: set[str] = set()
        self.decided_names: set[str] = set()
        self._scopes = scopes
        self._is_program = is_program
        self._levels: dict[BoundName, int] = {}
        # How the result of each function depends on the program.
        self._returned: dict[NameScope, int] = {}
        self._constant = self._constant_names()
        self._functions = self._plain_functions()
        self._fixtures = self._fixture_functions()
        self._changed = True
        self._settle_levels()

    def level(self, node: ast.AST | None, scope: NameScope) -> int:
        """Return how the value of an expression, or the effect of a statement, depends on the program.

        Args:
            node: An expression or a statement; None has no value, so it is APART.
            scope: The scope that evaluates it.

        Returns:
            APART, PERHAPS or CERTAIN.
        """
        if node is None:
            return APART
        if isinstance(node, ast.expr):
            nodes = self._value_nodes(node, scope)
        else:
            nodes = with_own_nodes(node)
        highest = APART
        for part in nodes:
            if highest == CERTAIN:
                break
            highest = max(highest, self._own_level(part, scope))
        return highest

    def is_closed(self, node: ast.expr, scope: NameScope) -> bool:
        """Return whether an expression uses only constants, builtins and functions that return no answer."""
        for part in self._value_nodes(node, scope):
            if isinstance(part, (ast.Attribute, ast.Lambda)):
                return False
            if isinstance(part, ast.Name) and not self._is_closed_name(part.id, scope):
                return False
        return True

    def parameters_bound_by(
        self, call: ast.Call, scope: NameScope
    ) -> Iterator[tuple[NameScope, str, ast.expr]]:
        """Yield the parameters of a function of the tests, with the arguments that a call passes to them."""
        function = self._function_of(call, scope)
        if function is not None:
            for name, argument in bound_arguments(call, function):
                yield function, name, argument

    def fixtures_of(self, name: str) -> list[NameScope]:
        """Return the fixtures whose value a parameter of this name receives."""
        return self._fixtures.get(name, [])

    def _settle_levels(self) -> None:
        """Raise the levels of names until nothing changes any more."""
        for scope in self._scopes:
            for name in scope.parameters:
                self._levels[scope, name] = PERHAPS
        for _ in range(_MAX_ROUNDS):
            if not self._changed:
                break
            self._changed = False
            for scope in self._scopes:
                self._visit_block(scope.node.body, scope, APART)
            self._visit_parameters()

    # Questions about expressions.

    def _is_closed_name(self, name: str, scope: NameScope) -> bool:
        owner = self._scopes.find(name, scope)
        if owner is None:
            return self._scopes.is_builtin(name) and name not in _LOOKING
        bound = (owner, name)
        return bound in self._constant and bound not in self._functions

    def _value_nodes(self, node: ast.AST, scope: NameScope) -> Iterator[ast.AST]:
        """Yield the nodes that make up the value of an expression, without answers that are thrown away."""
        chosen = chosen_element(node)
        if chosen is not None:
            yield from self._value_nodes(chosen, scope)
            return
        if isinstance(node, ast.Call) and self._returned_by(node, scope) == APART:
            return
        yield node
        for child in ast.iter_child_nodes(node):
            yield from self._value_nodes(child, scope)

    def _returned_by(self, call: ast.Call, scope: NameScope) -> int | None:
        """Return how the result of a function of the tests depends on the program; None for other functions."""
        function = self._function_of(call, scope)
        if function is None:
            return None
        return self._returned.get(function, APART)

    def _function_of(self, call: ast.Call, scope: NameScope) -> NameScope | None:
        if not isinstance(call.func, ast.Name):
            return None
        owner = self._scopes.find(call.func.id, scope)
        if owner is None:
            return None
        return self._functions.get((owner, call.func.id))

    def _own_level(self, node: ast.AST, scope: NameScope) -> int:
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return APART
        owner = self._scopes.find(node.id, scope)
        if owner is not None:
            return self._levels.get((owner, node.id), APART)
        if self._is_program(node.id):
            return CERTAIN
        return APART

    def _highest_level(self, nodes: Iterable[ast.AST], scope: NameScope) -> int:
        return max((self.level(node, scope) for node in nodes), default=APART)

    # Raising the level of names.

    def _raise(self, name: str, scope: NameScope, level: int) -> None:
        owner = self._scopes.find(name, scope)
        if owner is not None and level > self._levels.get((owner, name), APART):
            self._levels[owner, name] = level
            self._changed = True

    def _raise_targets(self, target: ast.AST, scope: NameScope, level: int) -> None:
        """Raise names that are assigned, and objects of which a part is assigned."""
        if level == APART:
            return
        for name in names_in(target):
            self._raise(name.id, scope, level)

    def _raise_mutable(self, node: ast.AST, scope: NameScope, level: int) -> None:
        """Raise the names of objects in an expression that can change."""
        for name in names_in(node):
            if not isinstance(name.ctx, ast.Load):
                continue
            owner = self._scopes.find(name.id, scope)
            if owner is not None and (owner, name.id) not in self._constant:
                self._raise(name.id, scope, level)

    def _raise_returned(self, scope: NameScope, level: int) -> None:
        if level > self._returned.get(scope, APART):
            self._returned[scope] = level
            self._changed = True

    # Walking over statements. ``control`` is the level of the conditions under which a statement runs.

    def _visit_block(self, statements: Iterable[ast.stmt], scope: NameScope, control: int) -> None:
        for statement in statements:
            self._visit(statement, scope, control)

    def _visit(self, node: ast.stmt, scope: NameScope, control: int) -> None:
        """Raise the levels of the names that a statement binds, and of those that its blocks bind."""
        if control:
            self.decided_names |= names_bound_by(node)
        if isinstance(node, DEFINITIONS):
            self._visit_definition(node, scope)
            # An answer may decide whether the name exists at all.
            self._raise(node.name, scope, control)
            return
        self._visit_exit(node, scope, control)
        self._visit_binding(node, scope, control)
        for expression in expressions_of(node):
            self._visit_expression(expression, scope, control)
        self._visit_compound(node, scope, control)

    def _visit_exit(self, node: ast.stmt, scope: NameScope, control: int) -> None:
        """Note how a function may end: by ``return``, ``raise``, or a call of a function that raises."""
        if isinstance(node, ast.Return):
            value_level = self.level(node.value, scope)
            self._raise_returned(scope, max(control, value_level))
        elif isinstance(node, ast.Raise):
            self._raise_returned(scope, control)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called_level = self._returned_by(node.value, scope)
            self._raise_returned(scope, called_level or APART)

    def _visit_binding(self, node: ast.stmt, scope: NameScope, control: int) -> None:
        """Raise the names that assignments and imports bind."""
        if isinstance(node, ast.Assign):
            level = max(self.level(node.value, scope), control)
            for target in node.targets:
                self._raise_targets(target, scope, level)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            level = max(self.level(node.value, scope), control)
            self._raise_targets(node.target, scope, level)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                self._visit_import(alias.name, imported_name(alias), scope, control=control)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self._visit_import(node.module or "", imported_name(alias), scope, control=control)

    def _visit_import(self, module: str, name: str, scope: NameScope, control: int) -> None:
        if control:
            self.decided_imports.add(module.partition(".")[0])
        self._raise(name, scope, control)

    def _visit_compound(self, node: ast.stmt, scope: NameScope, control: int) -> None:
        """Visit the blocks of a statement under the conditions that decide whether they run."""
        if isinstance(node, _LOOPS):
            self._visit_loop(node, scope, control)
        elif isinstance(node, ast.If):
            inner_level = max(control, self.level(node.test, scope))
            self._visit_block([*node.body, *node.orelse], scope, inner_level)
        elif isinstance(node, (ast.Try, ast.TryStar)):
            self._visit_try(node, scope, control)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            self._visit_with(node, scope, control)
        elif isinstance(node, ast.Match):
            inner_level = max(control, self.level(node.subject, scope))
            for case in node.cases:
                self._visit_block(case.body, scope, inner_level)

    def _visit_try(self, node: ast.Try | ast.TryStar, scope: NameScope, control: int) -> None:
        inner_level = max(control, self._highest_level(node.body, scope))
        self._visit_block([*node.body, *node.orelse, *node.finalbody], scope, inner_level)
        for handler in node.handlers:
            if handler.name:
                self._raise(handler.name, scope, inner_level)
            self._visit_block(handler.body, scope, inner_level)

    def _visit_with(self, node: ast.With | ast.AsyncWith, scope: NameScope, control: int) -> None:
        body_level = max(self._highest_level(node.body, scope), control)
        for item in node.items:
            if item.optional_vars is not None:
                level = max(body_level, self.level(item.context_expr, scope))
                self._raise_targets(item.optional_vars, scope, level)
        self._visit_block(node.body, scope, control)

    def _visit_loop(
        self, node: ast.For | ast.AsyncFor | ast.While, scope: NameScope, control: int
    ) -> None:
        """Visit a loop: its condition or iterable, and a ``break``, decide how often its body runs."""
        if isinstance(node, ast.While):
            condition = node.test
        else:
            condition = node.iter
        inner_level = max(control, self.level(condition, scope))
        if any(isinstance(part, ast.Break) for part in own_nodes(node)):
            # An answer may decide how often the loop runs.
            inner_level = max(inner_level, self._highest_level(node.body, scope))
        if not isinstance(node, ast.While):
            self._raise_targets(node.target, scope, inner_level)
            if inner_level:
                self.decided_names |= names_bound_by(node)
        self._visit_block([*node.body, *node.orelse], scope, inner_level)

    def _visit_definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: NameScope
    ) -> None:
        """Raise the name of a function or class whose body depends on the program, whatever its arguments are."""
        decorator_level = self._highest_level(node.decorator_list, scope)
        body_level = self._highest_level(node.body, self._scopes.of(node))
        if CERTAIN in (decorator_level, body_level):
            self._raise(node.name, scope, CERTAIN)

    def _visit_expression(self, node: ast.AST, scope: NameScope, control: int) -> None:
        """Raise the names that an expression assigns, and those that its calls change."""
        for part in with_own_nodes(node):
            if isinstance(part, ast.NamedExpr):
                level = max(self.level(part.value, scope), control)
                self._raise_targets(part.target, scope, level)
            elif isinstance(part, ast.comprehension):
                self._raise_targets(part.target, scope, self.level(part.iter, scope))
            elif isinstance(part, (ast.Yield, ast.YieldFrom)):
                level = max(control, self.level(part.value, scope))
                self._raise_returned(scope, level)
            elif isinstance(part, ast.Call):
                self._visit_call(part, scope)

    def _visit_call(self, call: ast.Call, scope: NameScope) -> None:
        """Raise the arguments, which the program may change, and objects in which a method may store an answer."""
        for function, name, argument in self.parameters_bound_by(call, scope):
            self._raise(name, function, self.level(argument, scope))
        arguments = arguments_of(call)
        arguments_level = self._highest_level(arguments, scope)
        if arguments_level:
            if isinstance(call.func, ast.Attribute):
                receiver = call.func.value
            else:
                receiver = call.func
            self._raise_mutable(receiver, scope, arguments_level)
        function_level = self.level(call.func, scope)
        if function_level:
            for argument in arguments:
                self._raise_mutable(argument, scope, function_level)

    def _visit_parameters(self) -> None:
        """Pass the results of fixtures on to parameters, and the state of an object to all of its methods."""
        for scope in self._scopes:
            if isinstance(scope.node, ast.ClassDef):
                self._visit_methods(scope)
            elif isinstance(scope.node, FUNCTIONS):
                for name in scope.parameters:
                    for fixture in self.fixtures_of(name):
                        self._raise(name, scope, self._returned.get(fixture, APART))

    def _visit_methods(self, class_scope: NameScope) -> None:
        """Raise ``self`` in all methods of a class as far as in any of them, since they share its state."""
        own_parameters: list[BoundName] = []
        for node in class_scope.node.body:
            if isinstance(node, FUNCTIONS) and node.args.args:
                own_parameters.append((self._scopes.of(node), node.args.args[0].arg))
        highest = max((self._levels.get(bound, APART) for bound in own_parameters), default=APART)
        for method, name in own_parameters:
            self._raise(name, method, highest)

    # Facts that are collected once, before the walk.

    def _plain_functions(self) -> dict[BoundName, NameScope]:
        """Return the functions without decorators whose names are bound only once."""
        functions: dict[BoundName, NameScope] = {}
        for scope in self._scopes:
            if scope.parent is None or not isinstance(scope.node, FUNCTIONS):
                continue
            name = scope.node.name
            if not scope.node.decorator_list and times_bound(name, scope.parent) == 1:
                functions[scope.parent, name] = scope
        return functions

    def _fixture_functions(self) -> dict[str, list[NameScope]]:
        """Return the fixtures of the file by name."""
        fixtures: dict[str, list[NameScope]] = {}
        for scope in self._scopes:
            if not isinstance(scope.node, FUNCTIONS):
                continue
            if any("fixture" in ast.unparse(decorator) for decorator in scope.node.decorator_list):
                fixtures.setdefault(scope.node.name, []).append(scope)
        return fixtures

    def _constant_names(self) -> set[BoundName]:
        """Return the names of constants, functions, classes and modules, which contain no answers."""
        constant: set[BoundName] = set()
        variable: set[BoundName] = set()
        for scope in self._scopes:
            for node in scope.nodes:
                if isinstance(node, ast.Assign) and is_constant(node.value):
                    for target in node.targets:
                        if isinstance(target, ast.Name):
                            constant.add((scope, target.id))
                elif isinstance(node, ast.Assign):
                    variable |= names_in_targets(node.targets, scope)
                elif isinstance(node, (ast.For, ast.AsyncFor)):
                    variable |= names_in_targets([node.target], scope)
                elif isinstance(node, DEFINITIONS):
                    constant.add((scope, node.name))
                elif isinstance(node, (ast.Import, ast.ImportFrom)):
                    constant |= {(scope, imported_name(alias)) for alias in node.names}
                elif isinstance(node, ast.Lambda):
                    variable |= {(scope, name) for name in parameters_of(node.args)}
        return constant - variable
