"""Plant failures in the source of one Python program."""

from __future__ import annotations

import ast
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from nemo_evaluator.environments.schemes._assertions import (
    assert_method,
    expected_value,
    has_tolerance,
    is_assertion,
    tested_value,
)
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


@dataclass(frozen=True, slots=True)
class Insertion:
    """A text to insert into a source, in place of ``length`` bytes.

    Attributes:
        at: The byte offset.
        text: The inserted text.
        length: The number of bytes that it replaces.
    """

    at: int
    text: str
    length: int = 0


def parse(source: bytes) -> ast.Module | None:
    """Parse a Python program; None if it is not valid."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def planted(source: bytes, form: Form, chance: random.Random, *, earned_all: bool) -> bytes | None:
    """Return a program with failing tests; None if it has none that nel can change."""
    tree = parse(source)
    if tree is None:
        return None
    line_starts = [0]
    for line in source.splitlines(keepends=True):
        line_starts.append(line_starts[-1] + len(line))
    planter = _Planter(source, line_starts, chance, earned_all=earned_all)
    if form is Form.TEST_FUNCTIONS:
        for test in _test_functions(tree):
            planter.plant_in_function(test)
    elif form is Form.MODULE:
        planter.plant_in(_own_statements(tree.body))
    else:
        for node in ast.walk(tree):
            if isinstance(node, Function):
                planter.plant_in(_own_statements(node.body))
    if not planter.insertions:
        return None
    changed_source = source
    for insertion in sorted(planter.insertions, key=lambda item: item.at, reverse=True):
        changed_source = (
            changed_source[: insertion.at]
            + insertion.text.encode()
            + changed_source[insertion.at + insertion.length :]
        )
    if parse(changed_source) is not None:
        return changed_source
    return None


def _test_functions(tree: ast.Module) -> Iterator[Function]:
    """Yield the functions and methods that pytest or unittest run as tests."""
    for node in tree.body:
        if isinstance(node, Function) and node.name.startswith("test"):
            yield node
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, Function) and inner.name.startswith("test"):
                    yield inner


def _own_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield all statements of a body in order, except those inside its functions and classes."""
    for statement in body:
        yield statement
        if isinstance(statement, Function | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _own_statements(getattr(statement, name, None) or [])
        for handler in getattr(statement, "handlers", ()):
            yield from _own_statements(handler.body)


class _Planter:
    """Collects the insertions for one source."""

    def __init__(
        self, source: bytes, starts: list[int], chance: random.Random, *, earned_all: bool
    ) -> None:
        self.insertions: list[Insertion] = []
        self._source = source
        self._starts = starts
        self._chance = chance
        self._earned_all = earned_all

    def plant_in_function(self, function: Function) -> None:
        """Make one test function fail."""
        if not self.plant_in(_own_statements(function.body)):
            self._append_failure(function)

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
        for statement in reversed(assertions):
            tested = tested_value(statement)
            if tested is not None:
                self._negate(tested)
                return True
            if self._earned_all and self._invert_method(statement):
                return True
        return False

    def _change_value(self, node: ast.expr, statement: ast.stmt) -> None:
        """Make an assertion expect another value of the same type; of an unknown one, a list with it."""
        constants = constants_in(node)
        if not constants or has_tolerance(statement):
            self._insert(self._start(node), "[")
            self._insert(self._end(node), "]")
            return
        constant = self._chance.choice(constants)
        assert isinstance(constant, ast.Constant)
        wrong_source = wrong_constant(constant.value, self._chance)
        start = self._start(constant)
        end = self._end(constant)
        if self._earned_all:
            self.insertions.append(Insertion(start, wrong_source, length=end - start))
            return
        # Partly successful work may give just the wrong value: it has to give both.
        changed_source = (
            self._source[self._start(node) : start]
            + wrong_source.encode()
            + self._source[end : self._end(node)]
        ).decode()
        comparison = statement.test if isinstance(statement, ast.Assert) else None
        if isinstance(comparison, ast.Compare):
            is_left = comparison.left is node
            # `5 == f(3)` becomes `(5) == f(3) == (7)`, and `f(3) == 5` becomes `(7) == f(3) == (5)`.
            if is_left:
                self._insert(self._end(comparison), f" == ({changed_source})")
            else:
                self._insert(self._start(comparison), f"({changed_source}) == ")
            return
        self._insert(self._start(node), "[")
        self._insert(self._end(node), "]")

    def _negate(self, node: ast.expr) -> None:
        """Negate a tested condition."""
        start = self._start(node)
        end = self._end(node)
        if self._earned_all:
            if not self._invert(node):
                self._insert(start, "not (")
                self._insert(end, ")")
            return
        # nel does not know which tests partly successful work passes: a planted failure must not make another one pass.
        condition = self._text(node)
        self._insert(start, "(")
        self._insert(end, f") and not ({condition})")

    def _invert_method(self, statement: ast.stmt) -> bool:
        """Replace a unittest assertion by its opposite, if it has one."""
        call = assert_method(statement)
        if call is None or not isinstance(call.func, ast.Attribute):
            return False
        name = call.func.attr
        opposite = opposite_method(name)
        if opposite is None:
            return False
        start = self._end(call.func) - len(name)
        self.insertions.append(Insertion(start, opposite, length=len(name)))
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
            start = self._start(constant)
            self.insertions.append(Insertion(start, source, length=self._end(constant) - start))
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
        gap_start = self._end(node.left)
        gap = self._source[gap_start : self._start(node.comparators[0])]
        if gap.count(operator.encode()) != 1 or b"#" in gap:
            return False
        position = gap_start + gap.index(operator.encode())
        self.insertions.append(Insertion(position, opposite, length=len(operator)))
        return True

    def _append_failure(self, function: Function) -> None:
        """Let a function without assertions fail at its end, unless it ends with ``return`` or ``raise``."""
        last_statement = function.body[-1]
        first_statement = function.body[0]
        if first_statement.lineno == function.lineno or isinstance(
            last_statement, ast.Return | ast.Raise
        ):
            return
        indent = " " * first_statement.col_offset
        line_end = self._starts[last_statement.end_lineno or last_statement.lineno]
        if self._source[:line_end].endswith(b"\n"):
            newline = ""
        else:
            newline = "\n"
        self._insert(line_end, f"{newline}{indent}raise AssertionError\n")

    def _insert(self, at: int, text: str) -> None:
        self.insertions.append(Insertion(at, text))

    def _start(self, node: ast.expr) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        return self._source[self._start(node) : self._end(node)].decode()
