"""Rewrites a test file so that its assertions and handlers report to the judge.

Each ``assert`` reports whether it holds and whether the program was asked meanwhile; each handler, which exception it
received. ``judging/counting.py`` holds the functions that are called.
"""

from __future__ import annotations

import ast
from typing import Final, TypeVar

from nemo_evaluator.scoring.code_flow import APART, Flow
from nemo_evaluator.scoring.code_scopes import FUNCTIONS, Scope, Scopes, own_nodes

_ORDERING: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_DISPLAYS: Final = (ast.Tuple, ast.List, ast.Set, ast.Dict)
_ALL_EXCEPTIONS: Final = ("Exception", "BaseException")
_FAILING_CALLS: Final = ("fail", "exit")
# Kinds of assertions; see judging/counting.py.
_KIND_APART: Final = 0
_KIND_INVOLVED: Final = 1
_KIND_CONSTANT: Final = 2

_Node = TypeVar("_Node", bound=ast.AST)


class Rewriter(ast.NodeTransformer):
    """Rewrites one file.

    ``asserts`` tells afterwards whether any assertion of the file may depend on the program.
    """

    def __init__(self, scopes: Scopes, flow: Flow) -> None:
        self.asserts = False
        self._scopes = scopes
        self._flow = flow
        self._scope: Scope = scopes.module
        self._loaded: set[str] = set()
        for scope in scopes:
            for node in scope.nodes:
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    self._loaded.add(node.id)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Rewrite a function."""
        return self._definition(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Rewrite a coroutine function."""
        return self._definition(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Rewrite a class."""
        return self._definition(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """``assert X`` becomes ``assert __nel_holds__(__nel_asks__(), X, kind)``."""
        kind = self._kind_of(node.test)
        self.generic_visit(node)
        arguments = [_call("__nel_asks__"), node.test, ast.Constant(kind)]
        node.test = _at(_call("__nel_holds__", *arguments), node.test)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """A call that asserts, such as ``self.assertEqual(f(3), 9)``, is counted when it returns."""
        call = node.value
        kind = self._kind_of_call(call) if isinstance(call, ast.Call) and self._asserts(call) else None
        self.generic_visit(node)
        if kind is not None:
            arguments = [_call("__nel_asks__"), node.value, ast.Constant(kind)]
            node.value = _at(_call("__nel_called__", *arguments), node.value)
            return _at(_reporting_failure(node), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """``pattern.format(x)`` with a pattern that may come from the program is kept from looking into ``x``."""
        function = node.func
        is_format = isinstance(function, ast.Attribute) and function.attr in ("format", "format_map")
        if not is_format or not isinstance(function, ast.Attribute):
            return self.generic_visit(node)
        # ``str.format(pattern, x)`` is the same.
        is_unbound = isinstance(function.value, ast.Name) and function.value.id == "str" and bool(node.args)
        pattern = node.args[0] if is_unbound else function.value
        if self._flow.level(pattern, self._scope):
            self.generic_visit(node)
            pattern = node.args[0] if is_unbound else function.value
            others = node.args[1:] if is_unbound else node.args
            node.args = [pattern, ast.Constant(function.attr), *others]
            node.func = _at(ast.Name("__nel_format__", ast.Load()), function)
            return _at(node, function)
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Operands of ``<`` and ``>`` that may come from the program are checked to be numbers."""
        is_ordering = any(isinstance(operator, _ORDERING) for operator in node.ops)
        operands = [node.left, *node.comparators]
        if is_ordering and any(self._flow.level(operand, self._scope) for operand in operands):
            levels = [self._flow.level(operand, self._scope) for operand in operands]
            self.generic_visit(node)
            checked = []
            for operand, level in zip([node.left, *node.comparators], levels, strict=True):
                checked.append(_at(_call("__nel_ordered__", operand), operand) if level else operand)
            node.left = checked[0]
            node.comparators = checked[1:]
            return node
        return self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> ast.AST:
        """Each handler reports what it received."""
        return self._try(node)

    def visit_TryStar(self, node: ast.TryStar) -> ast.AST:
        """Each handler reports what it received."""
        return self._try(node)

    def _try(self, node: ast.Try | ast.TryStar) -> ast.AST:
        skips_assertion = any(self._is_assertion(part) for part in _nodes(node.body))
        demanded = any(_always_fails(part) for part in _nodes([*node.body, *node.orelse]))
        self.generic_visit(node)
        for handler in node.handlers:
            flags = [_catches_all(handler), skips_assertion, demanded]
            report = _call("__nel_caught__", *(ast.Constant(flag) for flag in flags))
            handler.body.insert(0, _at(ast.Expr(report), handler.body[0]))
        return node

    def _is_assertion(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Assert):
            return not _always_fails(node) and self._kind_of(node.test) != _KIND_CONSTANT
        return isinstance(node, ast.Call) and self._asserts(node)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST:
        outer = self._scope
        self._scope = self._scopes.of(node)
        node.body = [self.visit(statement) for statement in node.body]
        self._scope = outer
        # Decorators, defaults and bases are evaluated where the definition stands.
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        return node

    def _asserts(self, node: ast.Call) -> bool:
        """A method, or an imported function, whose name says that it asserts something."""
        if isinstance(node.func, ast.Attribute):
            return node.func.attr.startswith("assert")
        if not isinstance(node.func, ast.Name) or not node.func.id.startswith("assert"):
            return False
        return not any(isinstance(scope.node, FUNCTIONS) and scope.node.name == node.func.id for scope in self._scopes)

    def _kind_of_call(self, node: ast.Call) -> int:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute) and not _is_self(node.func.value):
            # ``mock.assert_called_with(3)``: it is the object that knows.
            arguments.append(node.func.value)
        if not arguments or (_is_display(arguments[0]) and _name_of(node) in ("assertTrue", "assert_")):
            return _KIND_CONSTANT
        levels = [self._flow.level(argument, self._scope) for argument in arguments]
        return self._note(_KIND_APART if max(levels) == APART else _KIND_INVOLVED)

    def _kind_of(self, node: ast.expr) -> int:
        if _always_holds(node):
            return _KIND_CONSTANT
        is_apart = self._flow.level(node, self._scope) == APART
        return self._note(_KIND_APART if is_apart else _KIND_INVOLVED)

    def _note(self, kind: int) -> int:
        if kind == _KIND_INVOLVED and self._is_used():
            self.asserts = True
        return kind

    def _is_used(self) -> bool:
        """Nothing calls a function that is neither named anywhere nor a test nor a method."""
        scope: Scope | None = self._scope
        while scope is not None and scope.parent is not None:
            function = scope.node
            if isinstance(function, FUNCTIONS) and not scope.parent.is_class:
                is_named = function.name.startswith("test") or function.name in self._loaded
                if not is_named:
                    return bool(function.decorator_list)
            scope = scope.parent
        return True


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


def _is_display(node: ast.expr) -> bool:
    """``(f(3) == 9, "message")``: a list or tuple with something in it is always true."""
    if isinstance(node, ast.Dict):
        return bool(node.keys)
    return isinstance(node, (ast.Tuple, ast.List, ast.Set)) and bool(node.elts)


def _always_holds(node: ast.expr) -> bool:
    """The value of the expression is true whatever the program answers."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, (ast.Lambda, ast.GeneratorExp)):
        return True
    if isinstance(node, ast.BoolOp):
        parts = [_always_holds(value) for value in node.values]
        return any(parts) if isinstance(node.op, ast.Or) else all(parts)
    if isinstance(node, ast.NamedExpr):
        return _always_holds(node.value)
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(part, ast.Constant) and part.value for part in node.values)
    return _is_display(node)


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
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _catches_all(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in _ALL_EXCEPTIONS for kind in kinds)
