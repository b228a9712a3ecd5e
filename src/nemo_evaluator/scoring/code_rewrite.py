"""Rewrites a test file so that its assertions and handlers report to the judge.

Each ``assert`` reports whether it holds and whether the program was called meanwhile. Each handler reports which
exception it received. ``judging/counting.py`` has the functions that receive the reports.
"""

from __future__ import annotations

import ast
from typing import Any, Final, TypeVar

from nemo_evaluator.scoring.code_flow import APART, CERTAIN, Flow
from nemo_evaluator.scoring.code_scopes import FUNCTIONS, FileScopes, NameScope, own_nodes
from nemo_evaluator.scoring.code_truth import Truth

_ORDERING: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_DISPLAYS: Final = (ast.Tuple, ast.List, ast.Set, ast.Dict)
_ALL_EXCEPTIONS: Final = ("Exception", "BaseException")
_FAILING_CALLS: Final = ("fail", "exit")
_SKIPPING_CALLS: Final = ("skip", "skipTest", "SkipTest", "exit", "quit", "_exit")
_EXPECTING_CALLS: Final = ("raises", "assertRaises", "assertRaisesRegex", "suppress", "warns")
# Kinds of assertions; see judging/counting.py.
_KIND_APART: Final = 0
_KIND_INVOLVED: Final = 1
_KIND_CONSTANT: Final = 2

_Node = TypeVar("_Node", bound=ast.AST)


class Rewriter(ast.NodeTransformer):
    """Rewrites one file.

    Attributes:
        asserts: Whether any assertion of the file may depend on the program; set by the rewriting.
        branches: For each place where an answer decides which statements run, the numbers of the assertions there. The
            tests have to reach one of them.
    """

    def __init__(self, scopes: FileScopes, flow: Flow, truth: Truth) -> None:
        self.asserts = False
        self.branches: dict[int, list[int]] = {}
        self._numbers: dict[ast.AST, int] = {}
        self._truth = truth
        self._is_asserting = False
        self._scopes = scopes
        self._flow = flow
        self._scope: NameScope = scopes.module
        self._loaded: set[str] = set()
        # The assertions that a call of each function may reach, by its name.
        self._asserted_by: dict[str, list[int]] = {}
        for scope in scopes:
            if isinstance(scope.node, FUNCTIONS):
                self._asserted_by.setdefault(scope.node.name, []).extend(
                    self._assertions_below(scope.node)
                )
        self._blocks: list[list[ast.stmt]] = []
        for scope in scopes:
            self._blocks += _blocks_of(scope.node)
            for node in scope.nodes:
                self._blocks += _blocks_of(node)
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
        number = self._number(node)
        self._is_asserting = True
        self.generic_visit(node)
        self._is_asserting = False
        arguments = [_call("__nel_asks__"), node.test, ast.Constant(kind), ast.Constant(number)]
        node.test = _at(_call("__nel_holds__", *arguments), node.test)
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        """Make a call that asserts, such as ``self.assertEqual(f(3), 9)``, count when it returns."""
        call = node.value
        if isinstance(call, ast.Call) and self._asserts(call):
            return self._asserting_call(node, call)
        numbers: list[int] = []
        if self._chooses(call):
            numbers = self._assertions_in([node])
        self.generic_visit(node)
        return self._entering(node, numbers)

    def _asserting_call(self, node: ast.Expr, call: ast.Call) -> ast.stmt:
        """``X`` becomes ``__nel_called__(__nel_asks__(), X, kind, number)``, in a ``try`` that reports a failure."""
        kind = self._kind_of_call(call)
        number = self._number(call)
        self._is_asserting = True
        self.generic_visit(node)
        self._is_asserting = False
        arguments = [_call("__nel_asks__"), node.value, ast.Constant(kind), ast.Constant(number)]
        node.value = _at(_call("__nel_called__", *arguments), node.value)
        return _at(_reporting_failure(node), node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Make ``raise AssertionError(...)`` report a failed assertion, even when it is caught."""
        self.generic_visit(node)
        if isinstance(node.exc, ast.Call):
            kind: ast.expr | None = node.exc.func
        else:
            kind = node.exc
        if node.exc is not None and isinstance(kind, ast.Name) and kind.id == "AssertionError":
            node.exc = _at(_call("__nel_raising__", node.exc), node.exc)
        return node

    def visit_If(self, node: ast.If) -> Any:
        """Note that an answer may decide which assertions are reached."""
        return self._branch(node, [node.test], [*node.body, *node.orelse, *self._rest_of(node)])

    def visit_For(self, node: ast.For) -> Any:
        """Note that an answer may decide how often the assertions of a loop are reached."""
        return self._branch(node, [] if _asks_for_nothing(node.iter) else [node.iter], node.body)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> Any:
        """Note that an answer may decide how often the assertions of a loop are reached."""
        return self._branch(node, [node.iter], node.body)

    def visit_While(self, node: ast.While) -> Any:
        """Note that an answer may decide how often the assertions of a loop are reached."""
        return self._branch(node, [node.test], node.body)

    def visit_With(self, node: ast.With) -> Any:
        """Note that a context may swallow the exception that keeps its assertions from being reached."""
        return self._branch(node, node.body if _may_swallow(node) else [], node.body)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> Any:
        """Note that a context may swallow the exception that keeps its assertions from being reached."""
        return self._branch(node, node.body if _may_swallow(node) else [], node.body)

    def visit_Match(self, node: ast.Match) -> Any:
        """Note that an answer may decide which assertions are reached."""
        block: list[ast.stmt] = []
        for case in node.cases:
            block += case.body
        return self._branch(node, [node.subject], block)

    def _chooses(self, value: ast.expr) -> bool:
        """Return whether an answer decides what is called or how often, as in ``f(3) == 9 and check()``."""
        is_choice = any(_is_choice(part) for part in (value, *own_nodes(value)))
        if not is_choice or _asks_for_nothing(value):
            return False
        return self._flow.level(value, self._scope) == CERTAIN

    def _branch(
        self, node: ast.stmt, deciding: list[ast.expr] | list[ast.stmt], block: list[ast.stmt]
    ) -> Any:
        """Note when a statement begins in which an answer decides whether assertions are reached."""
        is_decided = any(self._flow.level(part, self._scope) == CERTAIN for part in deciding)
        if is_decided:
            numbers = self._assertions_in(block)
        else:
            numbers = []
        self.generic_visit(node)
        return self._entering(node, numbers)

    def _may_lack_items(self, node: ast.Call) -> bool:
        """Return whether ``all(x > 2 for x in f(3))`` or the like asserts nothing for an empty answer."""
        name = _name_of(node)
        if (
            name not in ("all", "any")
            or len(node.args) != 1
            or self._scopes.find(name, self._scope) is not None
        ):
            return False
        values = node.args[0]
        if isinstance(values, _DISPLAYS) or _asks_for_nothing(values):
            return False
        if isinstance(values, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
            parts: list[ast.expr] = []
            for generator in values.generators:
                parts += [generator.iter, *generator.ifs]
            return any(self._flow.level(part, self._scope) == CERTAIN for part in parts)
        return name == "all" and self._flow.level(values, self._scope) == CERTAIN

    def _entering(self, node: ast.stmt, numbers: list[int]) -> Any:
        if not numbers:
            return node
        self.branches[len(self.branches)] = numbers
        report = ast.Expr(_call("__nel_entered__", ast.Constant(len(self.branches) - 1)))
        return [_at(report, node), node]

    def _assertions_in(self, block: list[ast.stmt]) -> list[int]:
        """The numbers of the assertions that a right program can reach, also those of functions that are called."""
        numbers = []
        for statement in block:
            numbers += self._assertions_below(statement)
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    numbers += self._asserted_by.get(node.id, [])
        return numbers

    def _assertions_below(self, statement: ast.stmt) -> list[int]:
        numbers = []
        for node in ast.walk(statement):
            is_assertion = isinstance(node, ast.Assert) and not _always_fails(node)
            if is_assertion or (isinstance(node, ast.Call) and self._asserts(node)):
                numbers.append(self._number(node))
        return numbers

    def _number(self, node: ast.AST) -> int:
        return self._numbers.setdefault(node, len(self._numbers))

    def _rest_of(self, node: ast.If) -> list[ast.stmt]:
        """The statements after an ``if`` that may leave its block; empty when it cannot leave."""
        leaves = any(_leaves(part) for part in _nodes([*node.body, *node.orelse]))
        if not leaves:
            return []
        for block in self._blocks:
            if node in block:
                return block[block.index(node) + 1 :]
        return []

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Keep ``pattern.format(x)``, whose pattern may come from the program, from reading attributes of ``x``."""
        if self._is_asserting and self._may_lack_items(node):
            self.generic_visit(node)
            number = self._number(node)
            self.branches[len(self.branches)] = [number]
            branch = ast.Constant(len(self.branches) - 1)
            items = _call("__nel_items__", branch, ast.Constant(number), node.args[0])
            node.args = [_at(items, node.args[0])]
            return node
        function = node.func
        is_format = isinstance(function, ast.Attribute) and function.attr in (
            "format",
            "format_map",
        )
        if not is_format or not isinstance(function, ast.Attribute):
            return self.generic_visit(node)
        # ``str.format(pattern, x)`` is the same.
        is_unbound = (
            isinstance(function.value, ast.Name) and function.value.id == "str" and bool(node.args)
        )
        pattern = node.args[0] if is_unbound else function.value
        if self._flow.level(pattern, self._scope):
            self.generic_visit(node)
            pattern = node.args[0] if is_unbound else function.value
            other_arguments = node.args[1:] if is_unbound else node.args
            node.args = [pattern, ast.Constant(function.attr), *other_arguments]
            node.func = _at(ast.Name("__nel_format__", ast.Load()), function)
            return _at(node, function)
        return self.generic_visit(node)

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
                    _at(_call("__nel_ordered__", operand), operand) if level else operand
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
        skips_assertion = any(self._is_assertion(part) for part in _nodes(node.body))
        demanded = any(_always_fails(part) for part in _nodes([*node.body, *node.orelse]))
        # ``finally: return`` takes back whatever was raised.
        takes_back = any(
            isinstance(part, (ast.Return, ast.Break, ast.Continue))
            for part in _nodes(node.finalbody)
        )
        is_decided = any(self._flow.level(part, self._scope) == CERTAIN for part in node.body)
        if takes_back and is_decided:
            numbers = self._assertions_in(node.body)
        else:
            numbers = []
        self.generic_visit(node)
        for handler in node.handlers:
            flags = [_catches_all(handler), skips_assertion, demanded]
            report = _call("__nel_caught__", *(ast.Constant(flag) for flag in flags))
            handler.body.insert(0, _at(ast.Expr(report), handler.body[0]))
        return self._entering(node, numbers)

    def _is_assertion(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Assert):
            return not _always_fails(node) and self._kind_of(node.test) != _KIND_CONSTANT
        return isinstance(node, ast.Call) and self._asserts(node)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Any:
        """Rewrite the body of a definition in its own scope, and its decorators in the scope around it."""
        # A decorator may leave the tests out when an answer says so.
        is_decided = any(
            self._flow.level(decorator, self._scope) == CERTAIN for decorator in node.decorator_list
        )
        if is_decided:
            numbers = self._assertions_in(node.body)
        else:
            numbers = []
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

    def _asserts(self, node: ast.Call) -> bool:
        """Return whether a call is of a method or an imported function whose name begins with ``assert``."""
        if isinstance(node.func, ast.Attribute):
            return node.func.attr.startswith("assert")
        if not isinstance(node.func, ast.Name) or not node.func.id.startswith("assert"):
            return False
        return not any(
            isinstance(scope.node, FUNCTIONS) and scope.node.name == node.func.id
            for scope in self._scopes
        )

    def _kind_of_call(self, node: ast.Call) -> int:
        """Return whether a call that asserts is constant, apart from the program, or involves it."""
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute) and not _is_self(node.func.value):
            # ``mock.assert_called_with(3)``: it is the object that knows.
            arguments.append(node.func.value)
        if not arguments or self._truth.of_assertion(node, self._scope) is True:
            return _KIND_CONSTANT
        if all(self._flow.is_closed(argument, self._scope) for argument in arguments):
            return _KIND_CONSTANT
        levels = [self._flow.level(argument, self._scope) for argument in arguments]
        return self._note(_KIND_APART if max(levels) == APART else _KIND_INVOLVED)

    def _kind_of(self, node: ast.expr) -> int:
        """Return whether an asserted expression is constant, apart from the program, or involves it."""
        is_apart = self._flow.level(node, self._scope) == APART
        if self._truth.of(node, self._scope) is True or (
            is_apart and self._flow.is_closed(node, self._scope)
        ):
            return _KIND_CONSTANT
        return self._note(_KIND_APART if is_apart else _KIND_INVOLVED)

    def _note(self, kind: int) -> int:
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


def _is_choice(node: ast.AST) -> bool:
    """Whether an expression may decide which calls inside it happen, and how often."""
    if isinstance(node, ast.Call):
        return _name_of(node) == "map"
    return isinstance(node, (ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp))


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _reporting_failure(statement: ast.stmt) -> ast.stmt:
    """``try: ... except BaseException: __nel_failed__(); raise``."""
    report = ast.Expr(_call("__nel_failed__"))
    handler = ast.ExceptHandler(ast.Name("BaseException", ast.Load()), None, [report, ast.Raise()])
    return ast.Try([statement], [handler], [], [])


def _at(node: _Node, place: ast.AST) -> _Node:
    return ast.fix_missing_locations(ast.copy_location(node, place))


def _nodes(statements: list[ast.stmt]) -> list[ast.AST]:
    nodes: list[ast.AST] = []
    for statement in statements:
        nodes += [statement, *own_nodes(statement)]
    return nodes


def _always_fails(node: ast.AST) -> bool:
    """``assert False``, ``raise AssertionError``, ``self.fail()``, ``pytest.fail()``."""
    if isinstance(node, ast.Assert):
        return isinstance(node.test, ast.Constant) and not node.test.value
    if isinstance(node, ast.Raise):
        return node.exc is not None
    return isinstance(node, ast.Call) and _name_of(node) in _FAILING_CALLS


def _name_of(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    if isinstance(node.func, ast.Name):
        return node.func.id
    return ""


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _blocks_of(node: ast.AST) -> list[list[ast.stmt]]:
    blocks = []
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            blocks.append(list(block))
    return blocks


def _leaves(node: ast.AST) -> bool:
    """``return``, ``continue``, ``break``, and calls that skip."""
    if isinstance(node, (ast.Return, ast.Continue, ast.Break)):
        return True
    return isinstance(node, ast.Call) and _name_of(node) in _SKIPPING_CALLS


def _asks_for_nothing(node: ast.expr) -> bool:
    """Whether a call has an empty argument, so that an empty answer may be right: ``f([])``."""
    for part in (node, *own_nodes(node)):
        for argument in part.args if isinstance(part, ast.Call) else []:
            if isinstance(argument, (ast.List, ast.Tuple, ast.Set)) and not argument.elts:
                return True
            if isinstance(argument, ast.Dict) and not argument.keys:
                return True
            if isinstance(argument, ast.Constant) and not argument.value:
                return True
    return False


def _may_swallow(node: ast.With | ast.AsyncWith) -> bool:
    """Whether a context may swallow exceptions that it does not name."""
    return any(not _names_exceptions(item.context_expr) for item in node.items)


def _names_exceptions(context: ast.expr) -> bool:
    """Whether a context is a known one that swallows only the exceptions in its arguments."""
    if not isinstance(context, ast.Call) or _name_of(context) not in _EXPECTING_CALLS:
        return False
    is_broad = any(
        isinstance(argument, ast.Name) and argument.id in _ALL_EXCEPTIONS
        for argument in context.args
    )
    return _name_of(context) != "suppress" or not is_broad


def _catches_all(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    if isinstance(handler.type, ast.Tuple):
        kinds = handler.type.elts
    else:
        kinds = [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in _ALL_EXCEPTIONS for kind in kinds)
