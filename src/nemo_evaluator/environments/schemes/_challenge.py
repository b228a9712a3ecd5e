"""Tests of a task with planted failures: work that passes these too has not earned what it got.

Every test is changed in place, under its own name, so that a success that counts or names tests falls too. What is
planted looks like any other assertion: only who knows the right answer can tell it from the original.
"""

from __future__ import annotations

import ast
import random
import re
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final, TypeAlias

_SCRIPTS: Final = (".sh", ".bash")
# A heredoc, and a program on the command line that quoting leaves as it is.
_INLINE: Final = (
    re.compile(
        r"<<-?\s*(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)[^\n]*\n(?P<body>.*?)\n(?P=word)\s*$",
        re.DOTALL | re.MULTILINE,
    ),
    re.compile(r"\s-c\s+'(?P<body>[^']*)'"),
    re.compile(r'\s-c\s+"(?P<body>[^"$`\\]*)"'),
)
_WRITES_REWARD: Final = re.compile(
    r"\b(?:echo|printf)\s+(?:-n\s+)?(?P<quote>[\"']?)(?P<value>[01](?:\.0+)?)(?:\\n)?(?P=quote)(?P<rest>\s*>\s*[^\n;&|]*reward)"
)
_OPPOSITE: Final = {"0": "1", "1": "0"}
_EQUALITIES: Final = frozenset({
    "assertEqual", "assertEquals", "assertAlmostEqual", "assertListEqual", "assertDictEqual", "assertSetEqual",
    "assertTupleEqual", "assertSequenceEqual", "assertMultiLineEqual", "assertCountEqual", "assertIs",
})  # fmt: skip
_TRUTHS: Final = frozenset({"assertTrue", "assertFalse", "assert_"})
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Form(Enum):
    """Where a program says what it tests, the surest first."""

    TEST_FUNCTIONS = auto()
    MODULE = auto()
    OTHER_FUNCTIONS = auto()


@dataclass(frozen=True, slots=True)
class Insertion:
    """Text that is put into a source, at a byte."""

    at: int
    text: str


def plant_failures(
    tests: Path, target: Path, *, earned_all: bool, seed: int | None = None
) -> list[str]:
    """Copy a task's tests with planted failures.

    Args:
        tests: the folder with the task's tests.
        target: where to write the copy.
        earned_all: whether the work got the whole reward, so that every assertion is known to hold.
        seed: for a choice that can be repeated.

    Returns:
        The files in which something was planted, by their paths below the folder.
    """
    shutil.copytree(tests, target, symlinks=True)
    files: list[Path] = []
    for path in sorted(target.rglob("*")):
        if path.is_file() and not path.is_symlink():
            files.append(path)
    # Helpers may assert something before the work is looked at: they are changed only where there is nothing else.
    for form in Form:
        chance = random.Random(seed)
        planted: list[str] = []
        for path in files:
            if path.suffix != ".py" and path.suffix not in _SCRIPTS:
                continue
            source = path.read_bytes()
            changed = _with_failures(
                source, path.suffix, form, chance=chance, earned_all=earned_all
            )
            if changed != source:
                path.write_bytes(changed)
                planted.append(path.relative_to(target).as_posix())
        if planted:
            return planted
    return []


def stop_tests(tests: Path, target: Path, planted: list[str]) -> None:
    """Copy a task's tests so that the planted files fail before anything of the work can run."""
    shutil.copytree(tests, target, symlinks=True)
    for name in planted:
        path = target / name
        if path.suffix == ".py":
            path.write_text("raise AssertionError\n")
            continue
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        for place, _ in reversed(list(_inline_programs(text))):
            text = f"{text[: place.start]}raise AssertionError{text[place.stop :]}"
        path.write_text(text, encoding="utf-8", errors="surrogateescape")


def swap_rewards(tests: Path, target: Path) -> bool:
    """Copy a task's tests with the rewards that ``test.sh`` writes for success and failure exchanged.

    Returns:
        Whether there are both to exchange.
    """
    shutil.copytree(tests, target, symlinks=True)
    script = target / "test.sh"
    text = script.read_text(encoding="utf-8", errors="surrogateescape")
    values = {match["value"][0] for match in _WRITES_REWARD.finditer(text)}
    if values != {"0", "1"}:
        return False

    def swapped(match: re.Match[str]) -> str:
        start = match.start("value") - match.start()
        opposite = _OPPOSITE[match["value"][0]]
        return f"{match[0][:start]}{opposite}{match[0][start + len(match['value']) :]}"

    script.write_text(_WRITES_REWARD.sub(swapped, text), encoding="utf-8", errors="surrogateescape")
    return True


def _with_failures(
    source: bytes, suffix: str, form: Form, chance: random.Random, *, earned_all: bool
) -> bytes:
    if suffix == ".py":
        return _planted(source, form, chance, earned_all=earned_all) or source
    text = source.decode("utf-8", "surrogateescape")
    for place, body in reversed(list(_inline_programs(text))):
        changed = _planted(
            body.encode("utf-8", "surrogateescape"), form, chance, earned_all=earned_all
        )
        if changed is not None:
            text = f"{text[: place.start]}{changed.decode('utf-8', 'surrogateescape')}{text[place.stop :]}"
    return text.encode("utf-8", "surrogateescape")


def _inline_programs(text: str) -> Iterator[tuple[slice, str]]:
    """Python programs in a shell script, in the order of the script."""
    places: list[tuple[int, int]] = []
    for pattern in _INLINE:
        for match in pattern.finditer(text):
            places.append(match.span("body"))
    end = 0
    for start, stop in sorted(places):
        body = text[start:stop]
        if (
            start >= end
            and "assert" in body
            and _parse(body.encode("utf-8", "surrogateescape")) is not None
        ):
            end = stop
            yield slice(start, stop), body


def _parse(source: bytes) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _planted(source: bytes, form: Form, chance: random.Random, *, earned_all: bool) -> bytes | None:
    """A program with its tests failing; None when it has none that can be changed."""
    tree = _parse(source)
    if tree is None:
        return None
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    planter = _Planter(source, starts, chance, earned_all=earned_all)
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
    changed = source
    for insertion in sorted(planter.insertions, key=lambda one: one.at, reverse=True):
        changed = changed[: insertion.at] + insertion.text.encode() + changed[insertion.at :]
    if _parse(changed) is not None:
        return changed
    return None


def _test_functions(tree: ast.Module) -> Iterator[Function]:
    """Functions and methods that pytest or unittest run as tests."""
    for node in tree.body:
        if isinstance(node, Function) and node.name.startswith("test"):
            yield node
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, Function) and inner.name.startswith("test"):
                    yield inner


def _own_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of a body in order, without those of functions and classes in it."""
    for statement in body:
        yield statement
        if isinstance(statement, Function | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _own_statements(getattr(statement, name, None) or [])
        for handler in getattr(statement, "handlers", ()):
            yield from _own_statements(handler.body)


class _Planter:
    """Collects what is to be put into one source."""

    def __init__(
        self, source: bytes, starts: list[int], chance: random.Random, *, earned_all: bool
    ) -> None:
        self.insertions: list[Insertion] = []
        self._source = source
        self._starts = starts
        self._chance = chance
        self._earned_all = earned_all

    def plant_in_function(self, function: Function) -> None:
        """Make one test fail."""
        if not self.plant_in(_own_statements(function.body)):
            self._append_failure(function)

    def plant_in(self, statements: Iterator[ast.stmt]) -> bool:
        """Change the equalities among some statements, else the last assertion. Returns whether there is one."""
        assertions = [statement for statement in statements if _is_assertion(statement)]
        equalities = [
            node
            for node in (_expected_value(statement) for statement in assertions)
            if node is not None
        ]
        if equalities:
            for node in equalities:
                self._change_value(node)
            return True
        for statement in reversed(assertions):
            tested = _tested_value(statement)
            if tested is not None:
                self._negate(tested)
                return True
        return False

    def _change_value(self, node: ast.expr) -> None:
        """Expect another value: a number that is off, else the value in a list."""
        if isinstance(node, ast.Constant):
            constant = node.value
        else:
            constant = None
        text = self._text(node)
        if type(constant) is int and text.isdigit() and not text.startswith("0"):
            self._insert(self._end(node), str(self._chance.randint(1, 9)))
            return
        self._insert(self._start(node), "[")
        self._insert(self._end(node), "]")

    def _negate(self, node: ast.expr) -> None:
        start = self._start(node)
        end = self._end(node)
        if self._earned_all:
            self._insert(start, "not (")
            self._insert(end, ")")
            return
        # Of work that passes some tests only, it is not known which: what is planted must not make another pass.
        text = self._text(node)
        self._insert(start, "(")
        self._insert(end, f") and not ({text})")

    def _append_failure(self, function: Function) -> None:
        last = function.body[-1]
        first = function.body[0]
        if first.lineno == function.lineno or isinstance(last, ast.Return | ast.Raise):
            return
        indent = " " * first.col_offset
        line_end = self._starts[last.end_lineno or last.lineno]
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


def _is_assertion(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assert) or _assert_method(statement) is not None


def _assert_method(statement: ast.stmt) -> ast.Call | None:
    """The call of a unittest assertion: ``self.assertEqual(a, b)``."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    function = statement.value.func
    if not isinstance(function, ast.Attribute) or not function.attr.startswith("assert"):
        return None
    return statement.value


def _expected_value(statement: ast.stmt) -> ast.expr | None:
    """The value that an equality expects: a literal if one side is one, else the right side."""
    sides: list[ast.expr] = []
    if isinstance(statement, ast.Assert):
        test = statement.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            sides = [test.comparators[0], test.left]
    call = _assert_method(statement)
    if call is not None and isinstance(call.func, ast.Attribute) and call.func.attr in _EQUALITIES:
        if len(call.args) >= 2:
            sides = call.args[1::-1]
        else:
            sides = []
    if not sides or any(isinstance(side, ast.Starred | ast.GeneratorExp) for side in sides):
        return None
    literals = [side for side in sides if isinstance(side, ast.Constant)]
    return literals[0] if literals else sides[0]


def _tested_value(statement: ast.stmt) -> ast.expr | None:
    """The condition of an assertion that can be negated."""
    if isinstance(statement, ast.Assert):
        return statement.test
    call = _assert_method(statement)
    if (
        call is not None
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in _TRUTHS
        and call.args
    ):
        return call.args[0]
    return None
