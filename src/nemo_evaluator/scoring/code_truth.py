"""Which assertions of a test file hold, whatever the program answers, as far as their text decides it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

from nemo_evaluator.scoring.code_bindings import bindings_of, is_constant
from nemo_evaluator.scoring.code_scopes import FileScopes, NameScope

_OPERATORS: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_HOLDS_WITH_ITSELF: Final = (ast.Eq, ast.Is, ast.LtE, ast.GtE)
# Functions of Python that never return None, and those whose result is never empty.
_NEVER_NONE: Final = frozenset(
    {
        "bool",
        "dict",
        "enumerate",
        "filter",
        "float",
        "hash",
        "id",
        "int",
        "isinstance",
        "iter",
        "len",
        "list",
        "map",
    }
    | {"range", "repr", "reversed", "set", "sorted", "str", "tuple", "type", "zip"}
)
_NEVER_EMPTY: Final = frozenset(
    {"ascii", "enumerate", "filter", "iter", "map", "repr", "reversed", "type", "zip"}
)
_COMPARING_METHODS: Final[dict[str, type[ast.cmpop]]] = {
    "assertEqual": ast.Eq,
    "assertIs": ast.Is,
    "assertIn": ast.In,
    "assertGreater": ast.Gt,
    "assertGreaterEqual": ast.GtE,
    "assertLess": ast.Lt,
    "assertLessEqual": ast.LtE,
    "assertIsNot": ast.IsNot,
    "assertNotEqual": ast.NotEq,
}
_UNKNOWN: Final = object()
_MAX_DEPTH: Final = 20


class Truth:
    """Decides whether an expression is always true or always false.

    Args:
        scopes: The scopes of the test file.
        entry: The name of the function under test, which always exists.
    """

    def __init__(self, scopes: FileScopes, entry: str) -> None:
        self._scopes = scopes
        self._entry = entry

    def of(self, node: ast.expr, scope: NameScope) -> bool | None:
        """Return True or False where an expression is always so; None where it depends on something."""
        value = self._constant(node, scope)
        if value is not _UNKNOWN:
            return bool(value)
        if isinstance(node, ast.Name):
            if self._is_entry(node, scope):
                return True
            return None
        if isinstance(node, (ast.Lambda, ast.GeneratorExp)):
            return True
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            if any(not isinstance(element, ast.Starred) for element in node.elts):
                return True
            return None
        if isinstance(node, ast.Dict):
            if any(key is not None for key in node.keys):
                return True
            return None
        if isinstance(node, ast.JoinedStr):
            if any(isinstance(part, ast.Constant) and part.value for part in node.values):
                return True
            return None
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value, scope)
        return self._of_operation(node, scope)

    def of_assertion(self, node: ast.Call, scope: NameScope) -> bool | None:
        """Do the same for a method that asserts, such as ``assertEqual``; True when it never raises."""
        if not isinstance(node.func, ast.Attribute):
            return None
        name = node.func.attr
        arguments = node.args
        if name in ("assertTrue", "assert_") and arguments:
            return self.of(arguments[0], scope)
        if name == "assertFalse" and arguments:
            return _negated(self.of(arguments[0], scope))
        if name == "assertIsNotNone" and arguments:
            return self.of(ast.Compare(arguments[0], [ast.IsNot()], [ast.Constant(None)]), scope)
        if name == "assertIsInstance" and len(arguments) > 1:
            return self.of(ast.Call(ast.Name("isinstance", ast.Load()), arguments[:2], []), scope)
        if name in _COMPARING_METHODS and len(arguments) > 1:
            comparison = _COMPARING_METHODS[name]()
            return self.of(ast.Compare(arguments[0], [comparison], [arguments[1]]), scope)
        return None

    def _of_operation(self, node: ast.expr, scope: NameScope) -> bool | None:
        """Decide boolean operators, conditional expressions, comparisons and calls."""
        if isinstance(node, ast.BoolOp):
            parts = [self.of(part, scope) for part in node.values]
            decisive = isinstance(node.op, ast.Or)
            if decisive in parts:
                return decisive
            return None if None in parts else not decisive
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return _negated(self.of(node.operand, scope))
        if isinstance(node, ast.IfExp):
            condition = self.of(node.test, scope)
            if condition is not None:
                return self.of(node.body if condition else node.orelse, scope)
            results = {self.of(node.body, scope), self.of(node.orelse, scope)}
            if len(results) == 1:
                return results.pop()
            return None
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._of_comparison(node.left, node.ops[0], node.comparators[0], scope=scope)
        if isinstance(node, ast.Call):
            return self._of_call(node, scope)
        return None

    def _of_comparison(
        self, left: ast.expr, comparison: ast.cmpop, right: ast.expr, scope: NameScope
    ) -> bool | None:
        """Decide a comparison of a name with itself, with None, with a length, or with both truth values."""
        if isinstance(left, ast.Name) and isinstance(right, ast.Name) and left.id == right.id:
            return isinstance(comparison, _HOLDS_WITH_ITSELF)
        right_value = self._constant(right, scope)
        compares_none = right_value is None and isinstance(
            comparison, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)
        )
        if compares_none and self._is_never_none(left, scope):
            return isinstance(comparison, (ast.IsNot, ast.NotEq))
        if self._builtin(left, scope) == "len":
            if isinstance(comparison, ast.GtE) and right_value == 0:
                return True
            if isinstance(comparison, (ast.Gt, ast.NotEq)) and right_value == -1:
                return True
        is_choice = (
            isinstance(comparison, ast.In)
            and _is_truth_value(left)
            and isinstance(right_value, tuple)
        )
        if is_choice and True in right_value and False in right_value:
            return True
        return None

    def _of_call(self, node: ast.Call, scope: NameScope) -> bool | None:
        """Decide calls of functions of Python whose result is always true."""
        name = self._builtin(node, scope)
        arguments = node.args
        if name in _NEVER_EMPTY:
            return True
        if name == "bool" and len(arguments) == 1:
            return self.of(arguments[0], scope)
        if name == "callable" and len(arguments) == 1:
            is_entry = isinstance(arguments[0], ast.Name) and self._is_entry(arguments[0], scope)
            return True if is_entry else None
        if name == "isinstance" and len(arguments) == 2 and isinstance(arguments[1], ast.Name):
            is_all = arguments[1].id == "object" or (
                arguments[1].id == "bool" and _is_truth_value(arguments[0])
            )
            return True if is_all else None
        if name == "hasattr" and len(arguments) == 2:
            attribute = self._constant(arguments[1], scope)
            if isinstance(attribute, str) and hasattr(object, attribute):
                return True
            return None
        if name in ("any", "all") and len(arguments) == 1:
            return self._of_elements(name, arguments[0], scope)
        return None

    def _of_elements(self, name: str, node: ast.expr, scope: NameScope) -> bool | None:
        if not isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return None
        parts = [self.of(element, scope) for element in node.elts]
        decisive = name == "any"
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive

    def _constant(self, node: ast.expr, scope: NameScope, depth: int = 0) -> Any:
        """Return the value of an expression that consists of constants only, else _UNKNOWN."""
        if depth > _MAX_DEPTH:
            return _UNKNOWN
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            value = self._assigned_once(node.id, scope)
            if value is None:
                return _UNKNOWN
            return self._constant(value, self._scopes.module, depth + 1)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return self._constant_elements(node.elts, scope, depth)
        if isinstance(node, ast.Dict) and not node.keys:
            return ()
        if isinstance(node, ast.UnaryOp):
            return self._negative(node, scope, depth)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._constant_comparison(node, scope, depth)
        if (
            isinstance(node, ast.Call)
            and self._builtin(node, scope) == "len"
            and len(node.args) == 1
        ):
            return _length(node.args[0])
        return _UNKNOWN

    def _constant_elements(self, elements: list[ast.expr], scope: NameScope, depth: int) -> Any:
        """Return the values of all elements; _UNKNOWN if one of them is."""
        values = [self._constant(element, scope, depth + 1) for element in elements]
        if any(value is _UNKNOWN for value in values):
            return _UNKNOWN
        return tuple(values)

    def _constant_comparison(self, node: ast.Compare, scope: NameScope, depth: int) -> Any:
        """Return the result of a comparison of two operands; _UNKNOWN if one of them is."""
        left_value = self._constant(node.left, scope, depth + 1)
        right_value = self._constant(node.comparators[0], scope, depth + 1)
        if left_value is _UNKNOWN or right_value is _UNKNOWN:
            return _UNKNOWN
        return _compared(node.ops[0], left_value, right_value)

    def _negative(self, node: ast.UnaryOp, scope: NameScope, depth: int) -> Any:
        value = self._constant(node.operand, scope, depth + 1)
        if value is _UNKNOWN:
            return _UNKNOWN
        if isinstance(node.op, ast.Not):
            return not value
        if isinstance(node.op, ast.USub) and isinstance(value, (int, float)):
            return -value
        return _UNKNOWN

    def _assigned_once(self, name: str, scope: NameScope) -> ast.expr | None:
        """Return the constant value of a name that is bound once and is not a parameter."""
        owner = self._scopes.find(name, scope)
        if owner is None or name in owner.parameters:
            return None
        values = bindings_of(name, self._scopes)
        if len(values) != 1:
            return None
        value = values[0]
        # Not a list, for example: the program may change it.
        if value is not None and is_constant(value):
            return value
        return None

    def _is_entry(self, node: ast.Name, scope: NameScope) -> bool:
        return node.id == self._entry and self._scopes.find(node.id, scope) is None

    def _is_never_none(self, node: ast.expr, scope: NameScope) -> bool:
        if isinstance(node, ast.Name):
            return self._is_entry(node, scope)
        if self._builtin(node, scope) in _NEVER_NONE:
            return True
        return _is_truth_value(node) or isinstance(
            node, (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set)
        )

    def _builtin(self, node: ast.expr, scope: NameScope) -> str:
        """Return the name of the builtin function that a call calls; "" for other expressions."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return ""
        if self._scopes.find(node.func.id, scope) is None:
            return node.func.id
        return ""


def _negated(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _is_truth_value(node: ast.expr) -> bool:
    """Whether an expression is a comparison or a ``not``, whose value is a bool."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    return isinstance(node, ast.Compare)


def _length(node: ast.expr) -> Any:
    """The length of a literal list or tuple."""
    if not isinstance(node, (ast.Tuple, ast.List)):
        return _UNKNOWN
    if any(isinstance(part, ast.Starred) for part in node.elts):
        return _UNKNOWN
    return len(node.elts)


def _compared(comparison: ast.cmpop, left: Any, right: Any) -> Any:
    try:
        return _OPERATORS[type(comparison)](left, right)
    except TypeError:
        return _UNKNOWN
