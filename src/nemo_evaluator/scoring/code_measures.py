"""Which names of a test file measure the answers: they decide what is right, so the program must not define them.

A program may define what the tests are about: its entry point, and functions and classes that are used with it. It
may not define what compares an answer with an expected value (``approx(f(3), 9)``), what an answer is compared with
(``f(3) == expected``), what expects an exception, or what decorates a test.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Callable
from typing import Final

from nemo_evaluator.scoring.code_bindings import arguments_of, with_own_nodes
from nemo_evaluator.scoring.code_flow import APART, CERTAIN, Flow
from nemo_evaluator.scoring.code_origins import Origins
from nemo_evaluator.scoring.code_scopes import FUNCTIONS, FileScopes, NameScope
from nemo_evaluator.scoring.code_values import find_value_use

# Names that tests take from a library, whatever the program calls its own.
_LIBRARY_NAMES: Final = (
    "AsyncMock MagicMock Mock TestCase allclose approx array_equal given hypothesis mock mocker np npt numpy patch "
    "pd raises scipy sp st sympy tf torch"
)
_WELL_KNOWN: Final = frozenset(_LIBRARY_NAMES.split())
_ORDERING: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot)
_ABOUT_CLASSES: Final = ("isinstance", "issubclass", "callable", "hasattr", "type")
# Methods of unittest whose first argument decides.
_ABOUT_FIRST_ARGUMENT: Final = ("assertTrue", "assertFalse", "assertIs", "assertIsNot")
# Values that only say yes or no.
_TRIVIAL: Final = (True, False, None, 0, 1, -1, "", "True", "False", "None")
# Expressions that may contain two values to compare.
_COMPOSITE: Final = (
    ast.Tuple,
    ast.List,
    ast.Set,
    ast.Dict,
    ast.Starred,
    ast.Lambda,
    ast.JoinedStr,
    ast.BinOp,
    ast.Compare,
    ast.BoolOp,
    ast.ListComp,
    ast.GeneratorExp,
    ast.IfExp,
)


def find_measure(
    module: ast.Module, scopes: FileScopes, entry: str, is_program: Callable[[str], bool]
) -> str | None:
    """Find a name that measures an answer and that only the program could define.

    Args:
        module: The test file.
        scopes: Its scopes.
        entry: The name of the function under test.
        is_program: Whether a name that the file does not bind comes from the program.

    Returns:
        The name; None when there is no such name.
    """
    uses = _count_names(scopes, is_program)
    if entry not in uses and uses:
        # The tests do not use the entry point by its name: they are about the name that they use most.
        entry = uses.most_common(1)[0][0]
    foreign = set(uses) - {entry}
    for name in sorted(foreign):
        if name in _WELL_KNOWN or name.startswith("assert"):
            return name
    if not foreign:
        return None
    return _Search(module, scopes, entry, foreign=foreign).find()


def program_names(scopes: FileScopes, is_program: Callable[[str], bool]) -> set[str]:
    """Return the names that the tests use and do not define.

    Args:
        scopes: The scopes of the test file.
        is_program: Whether a name that the file does not bind comes from the program.
    """
    return set(_count_names(scopes, is_program))


def _count_names(scopes: FileScopes, is_program: Callable[[str], bool]) -> Counter[str]:
    names: Counter[str] = Counter()
    for scope in scopes:
        for node in scope.nodes:
            if not isinstance(node, ast.Name):
                continue
            if scopes.find(node.id, scope) is None and is_program(node.id):
                names[node.id] += 1
    return names


class _Search:
    """Inspects every use of a foreign name: one that only the program defines, except its entry point."""

    def __init__(
        self, module: ast.Module, scopes: FileScopes, entry: str, foreign: set[str]
    ) -> None:
        self._scopes = scopes
        self._entry = entry
        self._from_entry = Flow(module, scopes, lambda name: name == entry)
        self._from_program = Flow(module, scopes, lambda name: name == entry or name in foreign)
        self._from_foreign = Flow(module, scopes, lambda name: name in foreign)
        self._origins = Origins(scopes, foreign, self._from_program, self._from_entry)
        # Expressions that were already inspected: names may refer to each other.
        self._inspected: set[int] = set()

    def find(self) -> str | None:
        """Return the first measure; None when there is none."""
        for scope in self._scopes:
            name = find_value_use(scope, self._origins.is_foreign, self._is_from_program)
            if name is None:
                name = self._measure_in(scope)
            if name is not None:
                return name
        return None

    def _measure_in(self, scope: NameScope) -> str | None:
        name = self._origins.first_foreign_name(_evaluated_at_definition(scope), scope)
        if name is not None:
            return name
        for node in scope.nodes:
            name = self._measure_at(node, scope)
            if name is not None:
                return name
        return None

    def _measure_at(self, node: ast.AST, scope: NameScope) -> str | None:
        """Return the measure at one node of the file, by the kind of the node."""
        if isinstance(node, ast.ClassDef):
            return self._origins.first_foreign_name(node.decorator_list, scope)
        if isinstance(node, ast.Lambda):
            return self._origins.first_foreign_name(node.args.defaults, scope)
        if isinstance(node, ast.Assert):
            return self._measure_in_truth(node.test, scope)
        if isinstance(node, ast.BinOp):
            return self._measure_among_operands([node.left, node.right], scope)
        if isinstance(node, ast.Set):
            return self._measure_among_operands(node.elts, scope)
        if isinstance(node, ast.Call):
            return self._measure_of_call(node, scope)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return self._measure_of_statement(node.value, scope)
        return self._measure_in_control_flow(node, scope)

    def _measure_in_control_flow(self, node: ast.AST, scope: NameScope) -> str | None:
        """Return the measure in a condition, a loop or a context, which decides which assertions are reached."""
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            return self._measure_in_conditions([node.test], scope)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            return self._foreign_value(node.iter, scope)
        if isinstance(node, ast.comprehension):
            name = self._foreign_value(node.iter, scope)
            return name or self._measure_in_conditions(node.ifs, scope)
        if isinstance(node, ast.match_case) and node.guard is not None:
            return self._measure_in_conditions([node.guard], scope)
        if isinstance(node, ast.withitem):
            # A foreign context could swallow the exception of an assertion.
            return min(self._origins.roots(node.context_expr, scope), default=None)
        return None

    def _measure_in_conditions(self, conditions: list[ast.expr], scope: NameScope) -> str | None:
        """Return the measure in conditions that decide which assertions are reached."""
        for condition in conditions:
            name = self._foreign_value(condition, scope)
            if name is None:
                name = self._measure_in_truth(condition, scope)
            if name is not None:
                return name
        return None

    def _foreign_value(self, node: ast.expr, scope: NameScope) -> str | None:
        """Return a name behind a foreign value that is independent of the entry point.

        Such values are cases, flags and expected values.
        """
        is_foreign = self._from_foreign.level(node, scope) == CERTAIN
        if not is_foreign or self._from_entry.level(node, scope) == CERTAIN:
            return None
        return min(self._origins.all_origins(node, scope), default=None)

    def _measure_among_operands(self, operands: list[ast.expr], scope: NameScope) -> str | None:
        """Return the measure in ``f(3) - expected()`` or ``len({f(3), expected()})``, which compare too."""
        for number, operand in enumerate(operands):
            others = operands[:number] + operands[number + 1 :]
            roots = self._origins.roots(operand, scope)
            if not roots or self._from_entry.level(operand, scope) != APART:
                continue
            if any(
                self._from_entry.level(other_operand, scope) == CERTAIN for other_operand in others
            ):
                return min(roots)
        return None

    def _measure_of_call(self, call: ast.Call, scope: NameScope) -> str | None:
        """Return the measure in ``raises(ValueError)``, or in ``self.assertEqual(f(3), approx(9))``."""
        roots = self._origins.roots(call.func, scope)
        if roots and any(_is_exception(argument) for argument in call.args):
            return min(roots)
        method = _last_name(call.func)
        if roots or not method.startswith("assert"):
            return None
        arguments = arguments_of(call)
        if arguments and (method in _ABOUT_FIRST_ARGUMENT or len(arguments) == 1):
            return self._measure_in_truth(arguments[0], scope)
        return self._measure_in_comparison(arguments[:2], scope, is_ordering=False)

    def _measure_of_statement(self, call: ast.Call, scope: NameScope) -> str | None:
        """Return the measure in ``same(f(3), 9)``, which as a statement can only be an assertion."""
        roots = self._origins.roots(call.func, scope)
        arguments = _arguments_in_chain(call)
        if not roots or not _may_compare(arguments):
            return None
        for argument in arguments:
            for part in with_own_nodes(argument):
                if isinstance(part, ast.Call) and self._from_entry.level(part.func, scope):
                    return min(roots)
        return None

    def _measure_in_truth(
        self, node: ast.AST, scope: NameScope, *, is_size: bool = False
    ) -> str | None:
        """Return the measure in an expression whose truth decides the verdict.

        Args:
            node: The expression.
            scope: Its scope.
            is_size: The expression is only compared with something empty.
        """
        if id(node) in self._inspected:
            return None
        self._inspected.add(id(node))
        if isinstance(node, ast.Compare):
            is_ordering = any(isinstance(operator, _ORDERING) for operator in node.ops)
            operands = [node.left, *node.comparators]
            return self._measure_in_comparison(operands, scope, is_ordering=is_ordering)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == self._entry:
                # The arguments of the entry point measure nothing.
                return None
            name = self._measure_in_predicate(node, scope, is_size=is_size)
            if name is not None:
                return name
        for part, part_scope in self._origins.parts(node, scope):
            name = self._measure_in_truth(part, part_scope, is_size=is_size)
            if name is not None:
                return name
        return None

    def _measure_in_comparison(
        self, operands: list[ast.expr], scope: NameScope, *, is_ordering: bool
    ) -> str | None:
        """Return the measure among values that are compared with each other."""
        for number, operand in enumerate(operands):
            others = operands[:number] + operands[number + 1 :]
            name = self._measure_in_operand(operand, others, scope, is_ordering=is_ordering)
            if name is not None:
                return name
        return None

    def _measure_in_operand(
        self, operand: ast.expr, others: list[ast.expr], scope: NameScope, *, is_ordering: bool
    ) -> str | None:
        """Return the measure in one side of a comparison; ``others`` are on its other side."""
        meets_answer = any(self._from_entry.level(other_operand, scope) for other_operand in others)
        if meets_answer and not self._from_entry.level(operand, scope):
            # An answer of the entry point is compared with what the program calls right.
            name = self._origins.first_foreign_name([operand], scope)
            if name is not None:
                return name
        if meets_answer:
            name = self._foreign_value(operand, scope)
            if name is not None:
                return name
        if isinstance(operand, ast.Call) and _repeats_argument(operand, others):
            roots = self._origins.roots(operand.func, scope)
            if roots and self._any_from_program(_arguments_in_chain(operand), scope):
                return min(roots)
        if is_ordering or all(_is_trivial(other_operand) for other_operand in others):
            # ``to_list(f([])) == []`` may be about the program, ``is_right(f(3)) == True`` is not.
            is_size = any(_is_empty(other_operand) for other_operand in others)
            return self._measure_in_truth(operand, scope, is_size=is_size)
        return None

    def _measure_in_predicate(
        self, call: ast.Call, scope: NameScope, *, is_size: bool
    ) -> str | None:
        """Return a foreign function that decides whether an answer is right."""
        arguments = _arguments_in_chain(call)
        roots = self._origins.roots(call.func, scope)
        is_about_entry = self._from_entry.level(call.func, scope) != APART
        if _last_name(call.func) not in _ABOUT_CLASSES and not is_about_entry:
            # ``all(map(same, answers, expected))``: the foreign function is an argument.
            for argument in arguments:
                if isinstance(argument, ast.Name):
                    roots = roots | self._origins.roots(argument, scope)
        if not roots:
            return None
        has_answer = any(
            self._from_entry.level(argument, scope) == CERTAIN for argument in arguments
        )
        if has_answer and not is_size:
            return min(roots)
        if self._any_from_program(arguments, scope) and _may_compare(arguments):
            return min(roots)
        return None

    def _is_from_program(self, node: ast.AST, scope: NameScope) -> bool:
        return self._from_program.level(node, scope) != APART

    def _any_from_program(self, nodes: list[ast.expr], scope: NameScope) -> bool:
        return any(self._is_from_program(node, scope) for node in nodes)


def _evaluated_at_definition(scope: NameScope) -> list[ast.expr]:
    """Return the decorators and defaults of a function.

    No assertion would show what a foreign name decides in them.
    """
    if not isinstance(scope.node, FUNCTIONS) or scope.parent is None:
        return []
    keyword_defaults = [default for default in scope.node.args.kw_defaults if default is not None]
    return [*scope.node.decorator_list, *scope.node.args.defaults, *keyword_defaults]


def _arguments_in_chain(call: ast.Call) -> list[ast.expr]:
    """Return the arguments of a call and of the calls before it in a chain.

    They are 3 and 9 in ``expect(3).equals(9)``.
    """
    function = call.func
    while isinstance(function, (ast.Attribute, ast.Subscript)):
        function = function.value
    if isinstance(function, ast.Call):
        return [*_arguments_in_chain(function), *arguments_of(call)]
    return arguments_of(call)


def _may_compare(arguments: list[ast.expr]) -> bool:
    """Return whether a function that gets these arguments may have two values to compare."""
    return len(arguments) > 1 or any(isinstance(argument, _COMPOSITE) for argument in arguments)


def _repeats_argument(call: ast.Call, others: list[ast.expr]) -> bool:
    """Return whether a call gets a value that it is compared with, as in ``pick(f(3), 9) == 9``."""
    arguments = _arguments_in_chain(call)
    if len(arguments) < 2:
        return False
    dumps = {ast.dump(argument) for argument in arguments}
    return any(ast.dump(other_operand) in dumps for other_operand in others)


def _is_empty(node: ast.expr) -> bool:
    """Return whether an expression may be something empty; a list that has elements counts too."""
    if isinstance(node, ast.Constant):
        return node.value == ""
    return isinstance(node, (ast.Dict, ast.List, ast.Tuple))


def _is_trivial(node: ast.expr) -> bool:
    """Return whether an expression is a literal that only means yes or no."""
    if isinstance(node, ast.Constant):
        return any(node.value is value or node.value == value for value in _TRIVIAL)
    if isinstance(node, ast.Dict):
        return not node.keys
    return isinstance(node, (ast.List, ast.Tuple)) and not node.elts


def _is_exception(node: ast.expr) -> bool:
    """Return whether an expression is a builtin class of exceptions, or a tuple with one."""
    if isinstance(node, ast.Tuple):
        return any(_is_exception(element) for element in node.elts)
    if not isinstance(node, ast.Name):
        return False
    kind = getattr(builtins, node.id, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _last_name(node: ast.expr) -> str:
    """Return the name of a function or method; "" for any other expression."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return ""
