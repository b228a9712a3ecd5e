"""Finds and runs what pytest and unittest would: test functions, test classes, and test cases."""

from __future__ import annotations

import sys

from .counting import AssertionCounts, End, Failed, Skipped
from .fixtures import Fixtures
from .marks import cases_of, is_skipped, marks_of, names_of_cases
from .proxies import Remote

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Iterator
    from typing import Any

    from .names import Names


class Runner:
    """Runs tests one after another; the first that fails raises."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._tally: AssertionCounts = names.session.tally
        self._fixtures = Fixtures(names)

    def run(self, wanted: list[str]) -> None:
        """Run the functions and classes of these names."""
        module_marks = self._names.get("pytestmark", [])
        if isinstance(module_marks, list):
            marks = module_marks
        else:
            marks = [module_marks]
        targets = [self._names.get(name) for name in wanted]
        # Before anything is asked: whether tests can be run does not depend on how far a program comes.
        for target in targets:
            self._check_parameters(target, marks)
        self._module_hook("setup_module", "setUpModule")
        for target in targets:
            if isinstance(target, type):
                self._run_class(target, marks)
            elif callable(target):
                self._module_hook("setup_function")
                self._run_function(target, marks, None)
                self._module_hook("teardown_function")
        self._fixtures.close(everything=True)
        self._module_hook("teardown_module", "tearDownModule")

    def _check_parameters(self, target: Any, marks: list[Any]) -> None:
        """Raise Unrunnable for a test function, or a method of a test class, with a parameter that nothing provides."""
        if isinstance(target, type):
            unittest = sys.modules.get("unittest")
            is_case = unittest is not None and issubclass(target, unittest.TestCase)
            if is_case or not target.__name__.startswith("Test") or "__init__" in vars(target):
                return
            class_marks = [*marks, *marks_of(target)]
            for name in _test_names(target):
                self._check_function(getattr(target, name), class_marks, target)
        elif hasattr(target, "__code__"):
            self._check_function(target, marks, None)

    def _check_function(self, function: Any, marks: list[Any], kind: type | None) -> None:
        all_marks = [*marks, *marks_of(function)]
        if not is_skipped(all_marks, self._names):
            self._fixtures.check(function, names_of_cases(all_marks), kind)

    def _module_hook(self, *hooks: str) -> None:
        for hook in hooks:
            if hook in self._names:
                _call_hook(self._names[hook])

    def _run_class(self, kind: type, marks: list[Any]) -> None:
        unittest = sys.modules.get("unittest")
        if unittest is not None and issubclass(kind, unittest.TestCase):
            self._run_case(kind, unittest)
            return
        own_marks = [*marks, *marks_of(kind)]
        if (
            not kind.__name__.startswith("Test")
            or "__init__" in vars(kind)
            or is_skipped(own_marks, self._names)
        ):
            return
        if hasattr(kind, "setup_class"):
            _call_hook(kind.setup_class)
        for name in _test_names(kind):
            instance = kind()
            if hasattr(instance, "setup_method"):
                _call_hook(instance.setup_method)
            self._run_function(getattr(instance, name), own_marks, instance)
            if hasattr(instance, "teardown_method"):
                _call_hook(instance.teardown_method)
        if hasattr(kind, "teardown_class"):
            _call_hook(kind.teardown_class)

    def _run_function(self, function: Any, marks: list[Any], instance: Any) -> None:
        all_marks = [*marks, *marks_of(function)]
        if is_skipped(all_marks, self._names):
            return
        for arguments, case_marks in cases_of(all_marks):
            if not is_skipped(case_marks, self._names):
                self._run_case_of(function, arguments, instance)

    def _run_case_of(self, function: Any, arguments: dict[str, Any], instance: Any) -> None:
        before = self._tally.answers
        try:
            for fixture_arguments in self._fixtures.arguments(function, arguments, instance):
                before = self._tally.answers
                self._call(function, {**arguments, **fixture_arguments})
        except Exception as error:  # ``unittest`` may not be imported; all but its SkipTest goes on
            if type(error).__name__ != "SkipTest" or self._tally.answers > before:
                raise
        except Skipped:
            if self._tally.answers > before:
                raise
        self._tally.settle()

    def _call(self, function: Any, arguments: dict[str, Any]) -> None:
        try:
            result = function(**arguments)
            if not isinstance(result, Remote) and hasattr(result, "cr_frame"):
                import asyncio  # noqa: PLC0415 - few tests are coroutines

                asyncio.run(result)
        except SystemExit as error:
            raise Failed(f"the test ends the interpreter with {error.code}") from None
        self._tally.settle()
        self._fixtures.close(everything=False)

    def _run_case(self, kind: type, unittest: Any) -> None:
        if getattr(kind, "__unittest_expecting_failure__", False):
            return
        result = _result(self._tally)
        result.stopTest(None)
        loader = unittest.TestLoader()
        suite = unittest.TestSuite(_cases(loader.loadTestsFromTestCase(kind)))
        suite.run(result)
        if result.first is not None:
            raise result.first
        self._tally.settle()


def run_collected(names: Names, wanted: list[str]) -> None:
    """Run the test functions and classes of these names.

    Raises:
        Unrunnable: A test has a parameter that nothing provides.
    """
    Runner(names).run(wanted)


def _call_hook(hook: Any) -> None:
    code = getattr(hook, "__code__", None)
    if getattr(hook, "__self__", None) is not None:
        bound = 1
    else:
        bound = 0
    takes = code.co_argcount - bound if code is not None else 0
    hook(*[None] * takes)


def _test_names(kind: type) -> list[str]:
    """Methods in the order of their definition, those of base classes first."""
    names: dict[str, None] = {}
    for base in reversed(kind.__mro__):
        for name, value in vars(base).items():
            if name.startswith("test") and callable(getattr(value, "__func__", value)):
                names[name] = None
    return list(names)


def _cases(suite: Any) -> Iterator[Any]:
    """Test cases that are not expected to fail."""
    for case in suite:
        method = getattr(case, getattr(case, "_testMethodName", ""), None)
        if not getattr(method, "__unittest_expecting_failure__", False):
            yield case


def _result(tally: AssertionCounts) -> Any:
    import unittest  # noqa: PLC0415 - only tests that use it come here

    class Result(unittest.TestResult):
        """Keeps the first exception and stops there."""

        first: BaseException | None = None
        _before = 0

        def startTest(self, test: Any) -> None:
            super().startTest(test)
            self._before = tally.answers

        def stopTest(self, test: Any) -> None:
            super().stopTest(test)
            self._before = tally.answers

        def _note(self, error: BaseException | None) -> None:
            if error is not None and (self.first is None or isinstance(error, End)):
                self.first = error
            self.shouldStop = True

        def addError(self, test: Any, err: Any) -> None:
            self._note(err[1])

        def addFailure(self, test: Any, err: Any) -> None:
            self._note(err[1])

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
            if err is not None:
                self._note(err[1])

        def addSkip(self, test: Any, reason: str) -> None:
            if tally.answers > self._before:
                self._note(Skipped(reason))

    return Result()
