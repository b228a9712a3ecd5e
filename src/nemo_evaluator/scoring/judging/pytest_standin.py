"""A small ``pytest`` for the tests that a judge runs; an image need not have the real one, and the judge knows what
this one does."""

from __future__ import annotations

import sys

from .counting import AssertionCounts, Failed, Skipped
from .expecting import Approx, Raises, raises_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Callable
    from typing import Any


class Mark:
    """One mark of a test, such as ``pytest.mark.parametrize("x", [1, 2])``."""

    def __init__(
        self, name: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> None:
        self.name = name
        self.args = args
        self.kwargs = kwargs or {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        is_decorated = (
            len(args) == 1
            and not kwargs
            and (isinstance(args[0], type) or hasattr(args[0], "__code__"))
        )
        if not is_decorated:
            return Mark(self.name, args, kwargs)
        target = args[0]
        target.pytestmark = [*vars(target).get("pytestmark", []), self]
        return target


class _Marks:
    def __getattr__(self, name: str) -> Mark:
        return Mark(name)


class Param:
    """The values of one case of ``parametrize``, with marks of its own."""

    def __init__(self, *values: Any, marks: Any = (), id: Any = None) -> None:
        self.values = values
        if isinstance(marks, (list, tuple)):
            self.marks = list(marks)
        else:
            self.marks = [marks]
        self.id = id


class Fixture:
    """A function that makes what tests ask for by the name of a parameter."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function = function
        self.name = options.get("name") or function.__name__
        self.scope = options.get("scope", "function")
        self.autouse = bool(options.get("autouse"))
        self.params = options.get("params")

    def __get__(self, owner: Any, kind: Any) -> Any:
        return self


def _fixture(function: Any = None, **options: Any) -> Any:
    if function is not None:
        return Fixture(function, options)
    return lambda decorated: Fixture(decorated, options)


def _fail(reason: str = "", *args: Any, **options: Any) -> None:
    raise Failed(reason)


def _skip(reason: str = "", *args: Any, **options: Any) -> None:
    raise Skipped(reason)


def _import_or_skip(name: str, *args: Any, **options: Any) -> Any:
    try:
        __import__(name)
    except ImportError:
        raise Skipped(f"could not import {name}") from None
    return sys.modules[name]


def make_module(tally: AssertionCounts) -> Any:
    """The module that ``import pytest`` gives."""
    module: Any = type(sys)("pytest")
    module.raises = raises_of(tally)
    module.RaisesContext = Raises
    module.approx = Approx
    module.mark = _Marks()
    module.param = Param
    module.fixture = _fixture
    module.fail = _fail
    module.skip = _skip
    module.xfail = _skip
    module.importorskip = _import_or_skip
    module.main = lambda *args, **options: 0
    module.__version__ = "8.0.0"
    return module
