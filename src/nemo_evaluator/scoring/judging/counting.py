"""The results of the assertions of the tests.

They are: how many assertions reached the program, the first that failed, and the exception of the program that the
tests have not received yet.

The tests were rewritten before they travelled here, so that their assertions and handlers report to this module.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Callable
    from typing import Any, Final

# Kinds of assertions, as the rewriting knows them: the value depends on the program only if the program is called
# meanwhile; the value is made from an answer; the value is always the same; or an answer is compared with a literal.
APART: Final = 0
INVOLVED: Final = 1
CONSTANT: Final = 2
DECISIVE: Final = 3
_MAX_TEXT: Final = 400


class End(BaseException):
    """The tests cannot continue: a verdict and its reason. An ``except`` of the tests does not change that."""


class Failed(BaseException):
    """The tests call ``pytest.fail``; like pytest's own class, ``except Exception`` does not catch it."""


class Skipped(BaseException):
    """The tests skip themselves."""


class Unrunnable(Exception):
    """The tests cannot be run, whatever the program does."""


class AssertionCounts:
    """Counts the answers of the program and the assertions that depend on them.

    Attributes:
        answers: How many answers the program has given.
        counted: How many assertions hold that depend on the program.
        decided: Whether an assertion held that only the expected answer can make true.
        end: The first reason why the tests cannot continue.
        failure: The first assertion that failed.
        evaluated: The numbers of the assertions that were evaluated.
        entered: The places that were reached where answers decide which assertions follow; see ``code_rewrite``.
        raised: The exception of the program that the tests have not received yet.
        is_control: The tests run with a control, see ``controls``.
        is_lenient: Assertions hold whatever their value, see ``unanswered``.
        asserting: How many assertions are being evaluated, one inside another.
        is_seen: Whether such an assertion looked into an answer.
        trying: How many answers there were when each ``try`` or context began that may receive an exception now.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Set all counts back to zero."""
        self.answers = 0
        self.counted = 0
        self.decided = False
        self.end: End | None = None
        self.failure: str | None = None
        self.evaluated: set[int] = set()
        self.entered: set[int] = set()
        self.raised: BaseException | None = None
        self.is_control = False
        self.is_lenient = False
        self.asserting = 0
        self.is_seen = False
        self.trying: list[int] = []
        self._label = ""

    def stop(self, verdict: str, text: str) -> End:
        """Remember the first reason why the tests cannot continue."""
        if self.end is None:
            self.end = End(verdict, text[:_MAX_TEXT])
        return self.end

    def fail(self, text: str) -> None:
        """Remember the first assertion that failed."""
        if self.failure is None:
            self.failure = text[:_MAX_TEXT]

    def settle(self) -> None:
        """End the tests when an exception of the program got lost on its way to them."""
        if self.end is not None:
            raise self.end
        if self.raised is not None:
            raise self.stop("crash", self.raised_text)

    def send(self, error: BaseException, label: str) -> BaseException:
        """Note an exception that the tests will receive; ``label`` is for the reader of a verdict."""
        self.raised = error
        self._label = label
        return error

    @property
    def raised_text(self) -> str:
        """The exception that the tests have not received yet, for the reader of a verdict."""
        return self._label

    def asks(self) -> int:
        """How many answers there are before an assertion is evaluated."""
        self.asserting += 1
        return self.answers

    def failed(self) -> bool:
        """Note that an assertion that is a call raised; catching the exception does not undo that.

        Returns:
            Whether the exception is raised again.
        """
        error = sys.exc_info()[1]
        is_failure = isinstance(error, (AssertionError, Failed)) and error is not self.raised
        if is_failure and self.is_lenient:
            self._end_assertion()
            return False
        if is_failure and error is not None:
            self.fail(describe(error))
        return True

    def raising(self, error: Any) -> Any:
        """Note that the tests raise an AssertionError themselves; catching it does not undo that."""
        self.fail("AssertionError: raised by the tests")
        return error

    def skipped(self, branches: dict[int, list[int]]) -> bool:
        """Whether the answers kept all assertions of some place from being reached."""
        return any(not self.evaluated.intersection(branches[branch]) for branch in self.entered)

    def reached(self, number: int, context: Any) -> Any:
        """Note that a context that demands an exception was reached."""
        self.evaluated.add(number)
        return context

    def skips(self, condition: Any) -> Any:
        """Note that an answer is the condition of a mark: a test that it skips has failed."""
        if isinstance(condition, str):
            is_skipped = condition == "True"
        else:
            is_skipped = bool(condition)
        if is_skipped:
            self.fail("AssertionError: an answer skips a test")
        return condition

    def tries(self) -> None:
        """Note that a ``try`` begins whose handlers may receive an exception of the program."""
        self.trying.append(self.answers)

    def tried(self) -> None:
        """Note that the last ``try`` or context has ended."""
        if self.trying:
            self.trying.pop()

    def items(self, branch: int, number: int, values: Any) -> Any:
        """The items of an ``all`` or ``any`` in an assertion; without items it asserts nothing."""
        self.entered.add(branch)
        for value in values:
            self.evaluated.add(number)
            yield value

    def zipped(self, expected: int, *values: Any, **options: Any) -> Any:
        """``zip`` with values that are written out in the tests: an answer with fewer items fails them.

        Args:
            expected: How many values are written out.
            values: The arguments of ``zip``.
            options: Its keyword arguments.
        """
        items = 0
        for row in zip(*values, **options):  # noqa: B905 - the options may have it
            items += 1
            yield row
        if items < expected and not self.is_lenient:
            self.fail(
                f"AssertionError: the tests expect {expected} items, and the answer has {items}"
            )

    def holds(self, before: int, value: Any, kind: int, number: int) -> bool:
        """Whether the value of an ``assert`` is true; counts it if it depends on the program."""
        self.evaluated.add(number)
        self.settle()
        truth = self.is_lenient or bool(value)
        self._end_assertion()
        self.settle()
        if not truth:
            self.fail("AssertionError: an assertion does not hold")
            return False
        self._count(before, kind)
        return True

    def called(self, before: int, value: Any, kind: int, number: int) -> Any:
        """Count an assertion that is a call, such as ``self.assertEqual(f(3), 9)``; it did not raise."""
        self.evaluated.add(number)
        self._end_assertion()
        self.settle()
        self._count(before, kind)
        return value

    def _end_assertion(self) -> None:
        """Note that an assertion was evaluated: whatever it looked into has no effect any more."""
        self.asserting -= 1
        if not self.asserting:
            self.is_seen = False

    def _count(self, before: int, kind: int) -> None:
        if kind == CONSTANT:
            return
        asked = self.answers > before
        if asked or (kind != APART and self.answers):
            self.counted += 1
        if asked and kind == DECISIVE:
            self.decided = True

    def caught(self, catches_all: bool, skips_assertion: bool, demanded: bool, notes: bool) -> None:
        """A handler of the tests begins.

        Args:
            catches_all: It names no class of exceptions, or one that all of them have.
            skips_assertion: The exception may have kept an assertion from being evaluated.
            demanded: The tests fail when there is no exception.
            notes: The handler sets a flag, which the tests may demand.
        """
        error = sys.exc_info()[1]
        if isinstance(error, (End, Skipped)):
            raise error
        if error is self.raised and error is not None:
            if catches_all and skips_assertion:
                self.settle()
            self.raised = None
            if demanded or notes:
                self._end_control()
            if demanded:
                self.counted += 1
        elif isinstance(error, (AssertionError, Failed)):
            self.fail(describe(error))

    def ordered(self, value: Any) -> Any:
        """An operand of ``<`` or ``>``: no assertion may hold because it is not a number."""
        if hasattr(value, "_nel_control"):
            self._end_control()
        if isinstance(value, float) and value != value:
            self.fail("AssertionError: the answer is not a number")
        return value

    def leave(self, code: object) -> None:
        """The last statement of the tests ends the interpreter with this code."""
        if code not in (None, 0):
            raise AssertionError(f"the tests end with {code!r}")

    def receive(self, error: BaseException | None) -> bool:
        """The tests expected this exception and received it; whether it is the program's."""
        if error is None or error is not self.raised:
            return False
        self.raised = None
        self._end_control()
        self.counted += 1
        return True

    def _end_control(self) -> None:
        """End a control where its answer may be right: an exception that the tests demand, or one side of ``<``."""
        if self.is_control:
            raise self.stop("wrong", "the answer of a control may be right here")


def describe(error: BaseException) -> str:
    """The class and the text of an exception; its text may be the program's."""
    try:
        text = str(error)[:_MAX_TEXT]
    except Exception:  # noqa: BLE001 - the text may be an object of the program
        text = ""
    return f"{type(error).__name__}: {text}"


def not_a_number(tally: AssertionCounts) -> float:
    """The value for a NaN of the program: comparing it with ``<`` or ``>`` fails the tests."""

    def compare(self: float, other: object) -> bool:
        tally.fail("AssertionError: the answer is not a number")
        return False

    def combine(self: float, *others: object) -> Any:
        return nan

    body: dict[str, Callable[..., Any]] = {}
    for name in ("lt", "le", "gt", "ge"):
        body[f"__{name}__"] = compare
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        body[f"__{name}__"] = combine
        body[f"__r{name}__"] = combine
    for name in ("abs", "neg", "pos"):
        body[f"__{name}__"] = combine
    body["__hash__"] = float.__hash__
    nan: float = type("float", (float,), body)("nan")
    return nan
