"""Rewrites a test file so that its assertions and handlers report to the judge.

Each ``assert`` reports whether it holds and whether the program was called meanwhile. Each handler reports which
exception it received. ``judging/counting.py`` has the functions that receive the reports.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from nemo_evaluator.scoring.code_assertions import Assertions
from nemo_evaluator.scoring.code_decisive import is_decisive
from nemo_evaluator.scoring.code_flow import APART, CERTAIN, Flow
from nemo_evaluator.scoring.code_idioms import (
    always_fails,
    asks_for_nothing,
    called_name,
    catches_all,
    demands_exception,
    has_value_as_message,
    is_choice,
    is_self,
    may_swallow,
    names_stored,
    nodes_of,
    shortest_display,
)
from nemo_evaluator.scoring.code_marks import conditions_of, report_conditions
from nemo_evaluator.scoring.code_nodes import calling, placed, reporting_failure
from nemo_evaluator.scoring.code_scopes import FUNCTIONS, FileScopes, NameScope, own_nodes
from nemo_evaluator.scoring.code_truth import Truth

_ORDERING: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_DISPLAYS: Final = (ast.Tuple, ast.List, ast.Set, ast.Dict)
# Kinds of assertions; see judging/counting.py.
_KIND_APART: Final = 0
_KIND_INVOLVED: Final = 1
_KIND_CONSTANT: Final = 2
_KIND_DECISIVE: Final = 3


class Rewriter(ast.NodeTransformer):
    """Rewrites one file.

    Attributes:
        asserts: Whether any assertion of the file may depend on the program; set by the rewriting.
        may_count: Whether the judge may count any assertion or expected exception; set by the rewriting.
        branches: For each place where an answer decides which statements run, the numbers of the assertions there. The
            tests have to reach one of them.
    """

    def __init__(self, scopes: FileScopes, flow: Flow, truth: Truth, entry: str) -> None:
        self.asserts = False
        self.may_count = False
        self._entry = entry
        self.branches: dict[int, list[int]] = {}
        self._truth = truth
        self._is_asserting = False
        self._scopes = scopes
        self._flow = flow
        self._scope: NameScope = scopes.module
        self._loaded: set[str] = set()
        self._assertions = Assertions(scopes)
        for scope in scopes:
            for node in scope.nodes:
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    self._loaded.add(node.id)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Rewrite a function."""
        return self._definition(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        """Rewrite a coroutine function."""
        return self._definition(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """Rewrite a class."""
        return self._definition(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """Turn ``assert X`` into ``assert __nel_holds__(__nel_asks__(), X, kind, number)``."""
        kind = self._kind_of(node.test)
        number = self._assertions.number(node)
        self._is_asserting = True
        self.generic_visit(node)
        self._is_asserting = False
        arguments = [calling("__nel_asks__"), node.test, ast.Constant(kind), ast.Constant(number)]
        node.test = placed(calling("__nel_holds__", *arguments), node.test)
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        """Make a call that asserts, such as ``self.assertEqual(f(3), 9)``, count when it returns."""
        call = node.value
        if isinstance(call, ast.Call) and self._assertions.asserts(call):
            return self._assertingcalling(node, call)
        numbers: list[int] = []
        if self._chooses(call):
            numbers = self._assertions.reached_in([node])
        self.generic_visit(node)
        return self._entering(node, numbers)

    def _assertingcalling(self, node: ast.Expr, call: ast.Call) -> ast.stmt:
        """``X`` becomes ``__nel_called__(__nel_asks__(), X, kind, number)``, in a ``try`` that reports a failure."""
        kind = self._kind_ofcalling(call)
        number = self._assertions.number(call)
        self._is_asserting = True
        self.generic_visit(node)
        self._is_asserting = False
        arguments = [calling("__nel_asks__"), node.value, ast.Constant(kind), ast.Constant(number)]
        node.value = placed(calling("__nel_called__", *arguments), node.value)
        return placed(reporting_failure(node), node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Make ``raise AssertionError(...)`` report a failed assertion, even when it is caught."""
        self.generic_visit(node)
        if isinstance(node.exc, ast.Call):
            kind: ast.expr | None = node.exc.func
        else:
            kind = node.exc
        if node.exc is not None and isinstance(kind, ast.Name) and kind.id == "AssertionError":
            node.exc = placed(calling("__nel_raising__", node.exc), node.exc)
        return node

    def visit_If(self, node: ast.If) -> Any:
        """Note that an answer may decide which assertions are reached."""
        return self._branch(
            node, [node.test], [*node.body, *node.orelse, *self._assertions.after(node)]
        )

    def visit_For(self, node: ast.For) -> Any:
        """Note that an answer may decide how often the assertions of a loop are reached."""
        return self._branch(node, [] if asks_for_nothing(node.iter) else [node.iter], node.body)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> Any:
        """Note that an answer may decide how often the assertions of a loop are reached."""
        return self._branch(node, [node.iter], node.body)

    def visit_While(self, node: ast.While) -> Any:
        """Note that an answer may decide how often the assertions of a loop are reached."""
        return self._branch(node, [node.test], node.body)

    def visit_With(self, node: ast.With) -> Any:
        """Note that a context may swallow the exception that keeps its assertions from being reached."""
        return self._branch(node, node.body if may_swallow(node) else [], node.body)

    def visit_withitem(self, node: ast.withitem) -> ast.AST:
        """Make a context that demands an exception report that it was reached."""
        call = self._assertions.asserting_call(node)
        self.generic_visit(node)
        if call is not None:
            number = ast.Constant(self._assertions.number(call))
            node.context_expr = placed(calling("__nel_reached__", number, call), call)
        return node

    def visit_AsyncWith(self, node: ast.AsyncWith) -> Any:
        """Note that a context may swallow the exception that keeps its assertions from being reached."""
        return self._branch(node, node.body if may_swallow(node) else [], node.body)

    def visit_Match(self, node: ast.Match) -> Any:
        """Note that an answer may decide which assertions are reached."""
        block: list[ast.stmt] = []
        for case in node.cases:
            block += case.body
        return self._branch(node, [node.subject], block)

    def _chooses(self, value: ast.expr) -> bool:
        """Return whether an answer decides what is called or how often, as in ``f(3) == 9 and check()``."""
        has_choice = any(is_choice(part) for part in (value, *own_nodes(value)))
        if not has_choice or asks_for_nothing(value):
            return False
        return self._is_answer(value)

    def _branch(
        self, node: ast.stmt, deciding: list[ast.expr] | list[ast.stmt], block: list[ast.stmt]
    ) -> Any:
        """Note when a statement begins in which an answer decides whether assertions are reached."""
        is_decided = any(self._flow.level(part, self._scope) == CERTAIN for part in deciding)
        numbers: list[int] = []
        if is_decided:
            numbers = self._assertions.reached_in(block)
        self.generic_visit(node)
        return self._entering(node, numbers)

    def _may_lack_items(self, node: ast.Call) -> bool:
        """Return whether ``all(x > 2 for x in f(3))`` or the like asserts nothing for an empty answer."""
        name = called_name(node)
        if (
            name not in ("all", "any")
            or len(node.args) != 1
            or self._scopes.find(name, self._scope) is not None
        ):
            return False
        values = node.args[0]
        if isinstance(values, _DISPLAYS) or asks_for_nothing(values):
            return False
        if isinstance(values, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
            parts: list[ast.expr] = []
            for generator in values.generators:
                parts += [generator.iter, *generator.ifs]
            return any(self._is_answer(part) for part in parts)
        return name == "all" and self._is_answer(values)

    def _is_answer(self, node: ast.expr) -> bool:
        return self._flow.level(node, self._scope) == CERTAIN

    def _expected_items(self, node: ast.Call) -> int:
        """Return how many items ``zip(f(3), [2, 4, 6])`` has to reach; 0 for other calls."""
        if called_name(node) != "zip" or not isinstance(node.func, ast.Name):
            return 0
        if self._scopes.find("zip", self._scope) is not None:
            return 0
        if not any(self._is_answer(argument) for argument in node.args):
            return 0
        return shortest_display(node.args)

    def _entering(self, node: ast.stmt, numbers: list[int]) -> Any:
        if not numbers:
            return node
        self.branches[len(self.branches)] = numbers
        report = ast.Expr(calling("__nel_entered__", ast.Constant(len(self.branches) - 1)))
        return [placed(report, node), node]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Check calls whose outcome an answer may decide: conditions, ``all(...)``, ``zip(...)`` and ``format``."""
        if demands_exception(node):
            self.may_count = True
        conditions = list(filter(self._is_answer, conditions_of(node)))
        if conditions:
            report_conditions(node, conditions)
            return self.generic_visit(node)
        if self._is_asserting and self._may_lack_items(node):
            return self._with_counted_items(node)
        expected_items = self._expected_items(node)
        if expected_items:
            return self._with_checked_zip(node, expected_items)
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in ("format", "format_map"):
            return self._with_safe_format(node, function)
        return self.generic_visit(node)

    def _with_counted_items(self, node: ast.Call) -> ast.Call:
        """Make ``all(...)`` report whether it had any items."""
        self.generic_visit(node)
        number = self._assertions.number(node)
        self.branches[len(self.branches)] = [number]
        branch = ast.Constant(len(self.branches) - 1)
        items = calling("__nel_items__", branch, ast.Constant(number), node.args[0])
        node.args = [placed(items, node.args[0])]
        return node

    def _with_checked_zip(self, node: ast.Call, expected_items: int) -> ast.Call:
        """Make ``zip(...)`` check that it reaches so many items."""
        self.generic_visit(node)
        node.func = placed(ast.Name("__nel_zip__", ast.Load()), node.func)
        node.args.insert(0, placed(ast.Constant(expected_items), node.func))
        return node

    def _with_safe_format(self, node: ast.Call, function: ast.Attribute) -> ast.AST:
        """Keep ``pattern.format(x)``, whose pattern may come from the program, from reading attributes of ``x``."""
        # ``str.format(pattern, x)`` is the same.
        is_str = isinstance(function.value, ast.Name) and function.value.id == "str"
        is_unbound = is_str and bool(node.args)
        pattern = node.args[0] if is_unbound else function.value
        may_come_from_program = bool(self._flow.level(pattern, self._scope))
        self.generic_visit(node)
        if not may_come_from_program:
            return node
        if is_unbound:
            pattern, *other_arguments = node.args
        else:
            pattern = function.value
            other_arguments = node.args
        node.args = [pattern, ast.Constant(function.attr), *other_arguments]
        node.func = placed(ast.Name("__nel_format__", ast.Load()), function)
        return placed(node, function)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Check that operands of ``<`` and ``>`` that may come from the program are numbers."""
        is_ordering = any(isinstance(operator, _ORDERING) for operator in node.ops)
        operands = [node.left, *node.comparators]
        if is_ordering and any(self._flow.level(operand, self._scope) for operand in operands):
            levels = [self._flow.level(operand, self._scope) for operand in operands]
            self.generic_visit(node)
            checked_operands = []
            for operand, level in zip([node.left, *node.comparators], levels, strict=True):
                checked_operands.append(
                    placed(calling("__nel_ordered__", operand), operand) if level else operand
                )
            node.left = checked_operands[0]
            node.comparators = checked_operands[1:]
            return node
        return self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> Any:
        """Make each handler report which exception it received."""
        return self._try(node)

    def visit_TryStar(self, node: ast.TryStar) -> Any:
        """Make each handler report which exception it received."""
        return self._try(node)

    def _try(self, node: ast.Try | ast.TryStar) -> Any:
        """Make each handler report which exception it received, and whether it hides an assertion."""
        demanded = any(always_fails(part) for part in nodes_of([*node.body, *node.orelse]))
        self.may_count = self.may_count or demanded
        skips_assertion = any(self._is_assertion(part) for part in nodes_of(node.body))
        is_decided = any(self._flow.level(part, self._scope) == CERTAIN for part in node.body)
        numbers: list[int] = []
        if is_decided and _takes_back(node):
            numbers = self._assertions.reached_in(node.body)
        self.generic_visit(node)
        for handler in node.handlers:
            notes = bool(names_stored(handler.body) - names_stored(node.body))
            flags = [catches_all(handler), skips_assertion, demanded, notes]
            report = calling("__nel_caught__", *(ast.Constant(flag) for flag in flags))
            handler.body.insert(0, placed(ast.Expr(report), handler.body[0]))
        statements = self._entering(node, numbers)
        if not is_decided or not node.handlers:
            return statements
        begin = placed(ast.Expr(calling("__nel_tries__")), node)
        end = placed(ast.Expr(calling("__nel_tried__")), node)
        if numbers:
            return [*statements[:-1], begin, node, end]
        return [begin, node, end]

    def _is_assertion(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Assert):
            return not always_fails(node) and self._kind_of(node.test) != _KIND_CONSTANT
        return isinstance(node, ast.Call) and self._assertions.asserts(node)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Any:
        """Rewrite the body of a definition in its own scope, and its decorators in the scope around it."""
        # A decorator may leave the tests out when an answer says so.
        is_decided = any(self._is_answer(decorator) for decorator in node.decorator_list)
        numbers: list[int] = []
        if is_decided:
            numbers = self._assertions.reached_in(node.body)
        outer_scope = self._scope
        self._scope = self._scopes.of(node)
        body: list[ast.stmt] = []
        for statement in node.body:
            visited = self.visit(statement)
            if isinstance(visited, list):
                body += visited
            else:
                body += [visited]
        node.body = body
        self._scope = outer_scope
        # Decorators, defaults and bases are evaluated where the definition stands.
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        return self._entering(node, numbers)

    def _kind_ofcalling(self, node: ast.Call) -> int:
        """Return whether a call that asserts is constant, apart from the program, or involves it."""
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute) and not is_self(node.func.value):
            # ``mock.assert_called_with(3)``: it is the object that knows.
            arguments.append(node.func.value)
        if not arguments or self._truth.of_assertion(node, self._scope) is True:
            return _KIND_CONSTANT
        if has_value_as_message(node):
            return _KIND_CONSTANT
        if all(self._flow.is_closed(argument, self._scope) for argument in arguments):
            return _KIND_CONSTANT
        levels = [self._flow.level(argument, self._scope) for argument in arguments]
        return self._note(_KIND_APART if max(levels) == APART else _KIND_INVOLVED)

    def _kind_of(self, node: ast.expr) -> int:
        """Return whether an asserted expression is constant, apart from the program, or involves it."""
        if is_decisive(node, self._scope, self._scopes, entry=self._entry):
            self._note(_KIND_INVOLVED)
            return _KIND_DECISIVE
        is_apart = self._flow.level(node, self._scope) == APART
        if self._truth.of(node, self._scope) is True or (
            is_apart and self._flow.is_closed(node, self._scope)
        ):
            return _KIND_CONSTANT
        return self._note(_KIND_APART if is_apart else _KIND_INVOLVED)

    def _note(self, kind: int) -> int:
        self.may_count = True
        if kind == _KIND_INVOLVED and self._is_used():
            self.asserts = True
        return kind

    def _is_used(self) -> bool:
        """Return whether the code around an assertion can run.

        A function can run if it is a test, a method or decorated, or if its name occurs in the file.
        """
        scope: NameScope | None = self._scope
        while scope is not None and scope.parent is not None:
            function = scope.node
            if isinstance(function, FUNCTIONS) and not scope.parent.is_class:
                is_named = function.name.startswith("test") or function.name in self._loaded
                if not is_named:
                    return bool(function.decorator_list)
            scope = scope.parent
        return True


def _takes_back(node: ast.Try | ast.TryStar) -> bool:
    """Whether the ``finally`` of a statement leaves it (``finally: return``), which drops whatever was raised."""
    leaving = (ast.Return, ast.Break, ast.Continue)
    return any(isinstance(part, leaving) for part in nodes_of(node.finalbody))
