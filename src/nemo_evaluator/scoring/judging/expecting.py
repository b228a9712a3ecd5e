"""``raises`` and ``approx`` of pytest: contexts that expect an exception, and comparisons that allow a difference."""

from __future__ import annotations

import re

from .counting import AssertionCounts, End, Failed, describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from typing import Any, Final

_RELATIVE: Final = 1e-6
_ABSOLUTE: Final = 1e-12


class ExceptionInfo:
    """The ``info`` of ``with pytest.raises(...) as info``."""

    value: Any = None

    @property
    def type(self) -> Any:
        """The class of the exception."""
        return type(self.value)

    def match(self, pattern: str) -> bool:
        """Assert that the text of the exception matches."""
        if re.search(pattern, str(self.value)) is None:
            raise AssertionError(f"the text of the exception does not match {pattern!r}")
        return True

    def errisinstance(self, kinds: Any) -> bool:
        """Whether the exception is one of these."""
        return isinstance(self.value, kinds)


class Expecting:
    """The state of the counts when a context began that expects an exception."""

    def __init__(self, tally: AssertionCounts) -> None:
        self._tally = tally
        self._failure = tally.failure
        self._answers = tally.answers
        tally.tries()

    def accept(self, error: BaseException) -> None:
        """Count the expected exception; it does not count as a failed assertion."""
        if not self._tally.receive(error) and self._tally.answers > self._answers:
            self._tally.counted += 1
        self._tally.failure = self._failure


class Raises:
    """``pytest.raises`` as a context."""

    def __init__(self, tally: AssertionCounts, expected: Any, match: str | None) -> None:
        self._tally = tally
        self._expected = expected
        self._match = match
        self._info = ExceptionInfo()
        self._begun: Expecting | None = None

    def __enter__(self) -> ExceptionInfo:
        self._begun = Expecting(self._tally)
        return self._info

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        self._tally.tried()
        if error is None:
            if self._tally.is_lenient:
                self._tally.counted += 1
                return False
            text = "the program did not raise what the tests expect"
            self._tally.fail(f"Failed: {text}")
            raise Failed(text)
        if isinstance(error, End) or not isinstance(error, self._expected):
            return False
        if self._begun is not None:
            self._begun.accept(error)
        self._info.value = error
        if self._match is not None:
            self._info.match(self._match)
        return True


def raises_of(tally: AssertionCounts) -> Any:
    """``pytest.raises``."""

    def raises(expected: Any, *call: Any, match: str | None = None, **options: Any) -> Any:
        context = Raises(tally, expected, match)
        if not call:
            return context
        with context as info:
            call[0](*call[1:], **options)
        return info

    return raises


class Approx:
    """``pytest.approx``: equal within a tolerance."""

    __array_ufunc__ = None
    __array_priority__ = 100

    def __init__(
        self,
        expected: Any,
        rel: float | None = None,
        abs: float | None = None,
        nan_ok: bool = False,
    ) -> None:
        self._expected = expected
        self._relative = rel
        self._absolute = abs
        self._nan_ok = nan_ok

    def __eq__(self, actual: object) -> bool:
        return self._equal(actual, self._expected)

    def __ne__(self, actual: object) -> bool:
        return not self._equal(actual, self._expected)

    def __repr__(self) -> str:
        return f"approx({self._expected!r})"

    def _equal(self, actual: Any, expected: Any) -> bool:
        if hasattr(expected, "tolist"):
            expected = expected.tolist()
        if hasattr(actual, "tolist") and hasattr(actual, "dtype"):
            actual = actual.tolist()
        if isinstance(expected, dict):
            if not isinstance(actual, dict) or set(actual) != set(expected):
                return False
            return all(self._equal(actual[key], expected[key]) for key in expected)
        if isinstance(expected, (list, tuple)):
            if not isinstance(actual, (list, tuple)) or len(actual) != len(expected):
                return False
            pairs = zip(actual, expected)  # noqa: B905 - images may have an old Python
            return all(self._equal(item, expected_item) for item, expected_item in pairs)
        return self._numbers_equal(actual, expected)

    def _numbers_equal(self, actual: Any, expected: Any) -> bool:
        if isinstance(expected, (bool, str, bytes)) or expected is None:
            return type(actual) is type(expected) and bool(actual == expected)
        if actual == expected:
            return True
        try:
            if actual != actual or expected != expected:
                return self._nan_ok and actual != actual and expected != expected
            if abs(expected) == float("inf"):
                return False
            return bool(abs(actual - expected) <= self._tolerance(expected))
        except TypeError:
            return False

    def _tolerance(self, expected: Any) -> Any:
        if self._absolute is not None and self._relative is None:
            return self._absolute
        relative = _RELATIVE if self._relative is None else self._relative
        absolute = _ABSOLUTE if self._absolute is None else self._absolute
        return max(relative * abs(float(expected)), absolute)


def patch_contexts(tally: AssertionCounts, context: Any, *, counts: bool) -> None:
    """Make a context class of the standard library report the exceptions that it accepts.

    Args:
        tally: Receives the reports.
        context: The class, such as ``contextlib.suppress``.
        counts: An accepted exception is an assertion that holds.
    """
    enter = context.__enter__
    leave = context.__exit__

    def begin(self: Any) -> Any:
        self.__dict__["_nel_begun"] = Expecting(tally)
        return enter(self)

    def end(self: Any, kind: Any, error: BaseException | None, trace: Any) -> Any:
        tally.tried()
        if isinstance(error, End):
            return False
        try:
            accepted = leave(self, kind, error, trace)
        except AssertionError as failure:
            if tally.is_lenient and error is None:
                tally.counted += 1
                return False
            tally.fail(describe(failure))
            raise
        if accepted and error is not None:
            if counts:
                self.__dict__["_nel_begun"].accept(error)
            elif error is tally.raised:
                tally.raised = None
            elif isinstance(error, (AssertionError, Failed)):
                tally.fail(describe(error))
        return accepted

    context.__enter__ = begin
    context.__exit__ = end
