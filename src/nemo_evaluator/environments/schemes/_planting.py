"""Plant failures in the source of one Python program."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import TypeAlias

from nemo_evaluator.environments.schemes._assertions import (
    assert_method,
    expected_value,
    has_tolerance,
    is_assertion,
    tested_value,
)
from nemo_evaluator.environments.schemes._source_edits import SourceEdits, parse
from nemo_evaluator.environments.schemes._wrong_values import (
    constants_in,
    opposite_method,
    opposite_operator,
    wrong_constant,
    wrong_constants,
)

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Form(Enum):
    """The kind of statements that hold a program's assertions, most reliable first."""

    TEST_FUNCTIONS = auto()
    MODULE = auto()
    OTHER_FUNCTIONS = auto()


def planted(source: bytes, form: Form, chance: random.Random, *, earned_all: bool) -> bytes | None:
    """Return a program with failing tests; None if it has none that nel can change."""
    tree = parse(source)
    if tree is None:
        return None
    edits = SourceEdits(source)
    planter = Planter(edits, chance, earned_all=earned_all)
    if form is Form.TEST_FUNCTIONS:
        for test in test_functions(tree):
            planter.plant_in_function(test)
    elif form is Form.MODULE:
        planter.plant_in(own_statements(tree.body))
    else:
        for node in ast.walk(tree):
            if isinstance(node, Function):
                planter.plant_in(own_statements(node.body))
    return edits.result()


def test_functions(tree: ast.Module) -> Iterator[Function]:
    """Yield the functions and methods that pytest or unittest run as tests."""
    for node in tree.body:
        if isinstance(node, Function) and node.name.startswith("test"):
            yield node
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, Function) and inner.name.startswith("test"):
                    yield inner


def own_statements(
    body: list[ast.stmt], skip: Callable[[ast.stmt], bool] = lambda _: False
) -> Iterator[ast.stmt]:
    """Yield all statements of a body in order, but not those in functions, in classes and in what ``skip`` selects."""
    for statement in body:
        yield statement
        if isinstance(statement, Function | ast.ClassDef) or skip(statement):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from own_statements(getattr(statement, name, None) or [], skip)
        for handler in getattr(statement, "handlers", ()):
            yield from own_statements(handler.body, skip)


class Planter:
    """Makes the assertions of one program fail.

    Args:
        edits: The changes of the program.
        chance: Chooses the wrong values.
        earned_all: Whether the work got the whole reward, so that every assertion is known to hold.
    """

    def __init__(self, edits: SourceEdits, chance: random.Random, *, earned_all: bool) -> None:
        self._edits = edits
        self._chance = chance
        self._earned_all = earned_all

    def plant_in_function(self, function: Function) -> None:
        """Make one test function fail."""
        if not self.plant_in(own_statements(function.body)):
            self.append_failure(function)

    def plant_in(self, statements: Iterator[ast.stmt]) -> bool:
        """Change all equalities among some statements; without any, negate the last assertion.

        Returns:
            Whether there was an assertion to change.
        """
        assertions = [statement for statement in statements if is_assertion(statement)]
        is_changed = False
        for statement in assertions:
            node = expected_value(statement)
            if node is not None:
                self._change_value(node, statement)
                is_changed = True
        if is_changed:
            return True
        return any(self._reverse(statement) for statement in reversed(assertions))

    def plant_assertion(self, statement: ast.stmt) -> bool:
        """Change the value that one assertion expects, or reverse its condition.

        Returns:
            Whether there was something to change.
        """
        node = expected_value(statement)
        if node is None:
            return self._reverse(statement)
        self._change_value(node, statement)
        return True

    def change_last_argument(self, call: ast.Call) -> bool:
        """Change a constant in the last argument of a call that has one; return whether there is one."""
        for argument in reversed(call.args):
            constants = constants_in(argument)
            if constants:
                constant = self._chance.choice(constants)
                assert isinstance(constant, ast.Constant)
                self._edits.replace(constant, wrong_constant(constant.value, self._chance))
                return True
        return False

    def _reverse(self, statement: ast.stmt) -> bool:
        """Reverse the condition of one assertion; return whether that is possible."""
        tested = tested_value(statement)
        if tested is not None:
            self._negate(tested)
            return True
        return self._earned_all and self._invert_method(statement)

    def _change_value(self, node: ast.expr, statement: ast.stmt) -> None:
        """Make an assertion expect another value of the same type; of an unknown one, a list with it."""
        constants = constants_in(node)
        if not constants or has_tolerance(statement):
            self._edits.insert(self._edits.start(node), "[")
            self._edits.insert(self._edits.end(node), "]")
            return
        constant = self._chance.choice(constants)
        assert isinstance(constant, ast.Constant)
        wrong_source = wrong_constant(constant.value, self._chance)
        start = self._edits.start(constant)
        end = self._edits.end(constant)
        if self._earned_all:
            self._edits.replace(constant, wrong_source)
            return
        # Partly successful work may give just the wrong value: it has to give both.
        changed_source = (
            self._edits.text_between(self._edits.start(node), start)
            + wrong_source
            + self._edits.text_between(end, self._edits.end(node))
        )
        comparison = statement.test if isinstance(statement, ast.Assert) else None
        if isinstance(comparison, ast.Compare):
            is_left = comparison.left is node
            # `5 == f(3)` becomes `(5) == f(3) == (7)`, and `f(3) == 5` becomes `(7) == f(3) == (5)`.
            if is_left:
                self._edits.insert(self._edits.end(comparison), f" == ({changed_source})")
            else:
                self._edits.insert(self._edits.start(comparison), f"({changed_source}) == ")
            return
        self._edits.insert(self._edits.start(node), "[")
        self._edits.insert(self._edits.end(node), "]")

    def _negate(self, node: ast.expr) -> None:
        """Negate a tested condition."""
        start = self._edits.start(node)
        end = self._edits.end(node)
        if self._earned_all:
            if not self._invert(node):
                self._edits.insert(start, "not (")
                self._edits.insert(end, ")")
            return
        # nel does not know which tests partly successful work passes: a planted failure must not make another one pass.
        condition = self._edits.text(node)
        self._edits.insert(start, "(")
        self._edits.insert(end, f") and not ({condition})")

    def _invert_method(self, statement: ast.stmt) -> bool:
        """Replace a unittest assertion by its opposite, if it has one."""
        call = assert_method(statement)
        if call is None or not isinstance(call.func, ast.Attribute):
            return False
        name = call.func.attr
        opposite = opposite_method(name)
        if opposite is None:
            return False
        start = self._edits.end(call.func) - len(name)
        self._edits.replace_at(start, opposite, length=len(name))
        return True

    def _empty_membership(self, node: ast.expr) -> bool:
        """Replace all constants that a value may be one of, as in ``f(3) in (4, 5)``."""
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.In):
            return False
        container = node.comparators[0]
        if len(node.ops) != 1 or not isinstance(container, ast.List | ast.Tuple | ast.Set):
            return False
        constants = constants_in(container)
        sources = wrong_constants(constants, self._chance)
        if not sources or len(constants) != len(container.elts):
            return False
        for constant, source in zip(constants, sources, strict=True):
            self._edits.replace(constant, source)
        return True

    def _invert(self, node: ast.expr) -> bool:
        """Replace the operator of a comparison by its opposite, if it has one."""
        if self._empty_membership(node):
            return True
        operators = opposite_operator(node)
        if operators is None:
            return False
        assert isinstance(node, ast.Compare)
        operator, opposite = operators
        gap_start = self._edits.end(node.left)
        gap = self._edits.text_between(gap_start, self._edits.start(node.comparators[0]))
        if gap.count(operator) != 1 or "#" in gap or not gap.isascii():
            return False
        position = gap_start + gap.index(operator)
        self._edits.replace_at(position, opposite, length=len(operator))
        return True

    def append_failure(self, function: Function) -> None:
        """Let a function without assertions fail at its end, unless it ends with ``return`` or ``raise``."""
        last_statement = function.body[-1]
        first_statement = function.body[0]
        if first_statement.lineno == function.lineno or isinstance(
            last_statement, ast.Return | ast.Raise
        ):
            return
        indent = " " * first_statement.col_offset
        line_end = self._edits.line_end(last_statement)
        if self._edits.text_between(line_end - 1, line_end) == "\n":
            newline = ""
        else:
            newline = "\n"
        self._edits.insert(line_end, f"{newline}{indent}raise AssertionError\n")
