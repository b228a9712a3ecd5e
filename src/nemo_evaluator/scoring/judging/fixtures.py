"""Fixtures: the values that pytest functions request by the names of their parameters."""

from __future__ import annotations

from .counting import Unrunnable
from .proxies import Remote
from .pytest_standin import Fixture, Param

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Iterator
    from typing import Any, Final

    from .names import Names

# Parameters with these names receive the function under test.
_ENTRY_PARAMETERS: Final = (
    "candidate",
    "func",
    "fn",
    "f",
    "function",
    "solution",
    "program",
    "impl",
)
_FOLDER: Final = "tmp_path"
_KEPT: Final = ("class", "module", "package", "session")


class Request:
    """The ``request`` of a fixture; it has only ``param``."""

    def __init__(self, param: Any) -> None:
        self.param = param


class Fixtures:
    """Sets fixtures up and tears them down."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._open: list[Any] = []
        self._open_kept: list[Any] = []
        self._kept: dict[str, Any] = {}

    def arguments(
        self, function: Any, given: dict[str, Any], instance: Any
    ) -> Iterator[dict[str, Any]]:
        """Set up the fixtures of a function, once for each combination of fixture parameters.

        Args:
            function: The test function.
            given: Its arguments from ``parametrize``.
            instance: The object whose method it is, if any.

        Yields:
            The other arguments.
        """
        requested = [name for name in _parameters(function) if name not in given]
        automatic = [fixture.name for fixture in self._all(instance) if fixture.autouse]
        for params in self._combinations([*automatic, *requested], instance):
            values: dict[str, Any] = {}
            for name in [*automatic, *requested]:
                self._make(name, instance, params, values=values)
            yield {name: values[name] for name in requested}

    def check(self, function: Any, provided: list[Any], kind: type | None) -> None:
        """Check that something provides each parameter of a test function.

        Args:
            function: The test function, or the function of a method.
            provided: The names that ``parametrize`` provides.
            kind: The class whose method it is, if any.

        Raises:
            Unrunnable: Nothing provides a parameter.
        """
        values = list(self._names.values())
        names = _parameters(function)
        if kind is not None:
            values += vars(kind).values()
            names = names[1:] if names[:1] == ["self"] else names
        fixture_names = [value.name for value in values if type(value) is Fixture]
        for name in names:
            if name not in provided and name not in fixture_names:
                self._check_built_in(name)

    def close(self, *, everything: bool) -> None:
        """Run the code after the ``yield`` of fixtures, the last fixture first."""
        while self._open:
            _finish(self._open.pop())
        while everything and self._open_kept:
            _finish(self._open_kept.pop())

    def _all(self, instance: Any) -> list[Fixture]:
        values = list(self._names.values())
        if instance is not None:
            values += vars(type(instance)).values()
        return [value for value in values if type(value) is Fixture]

    def _find(self, name: str, instance: Any) -> Fixture | None:
        for fixture in reversed(self._all(instance)):
            if fixture.name == name:
                return fixture
        return None

    def _combinations(self, requested: list[str], instance: Any) -> list[dict[str, Any]]:
        """All combinations of the parameters of the fixtures."""
        combinations: list[dict[str, Any]] = [{}]
        for name in self._needed(requested, instance):
            fixture = self._find(name, instance)
            if fixture is None or not fixture.params:
                continue
            values: list[Any] = []
            for param in fixture.params:
                values.append(param.values[0] if type(param) is Param else param)
            extended: list[dict[str, Any]] = []
            for params in combinations:
                extended += [{**params, name: value} for value in values]
            combinations = extended
        return combinations

    def _needed(self, requested: list[str], instance: Any) -> list[str]:
        """The requested fixtures and those that they request themselves."""
        needed: list[str] = []
        pending = list(requested)
        while pending:
            name = pending.pop(0)
            if name not in needed:
                needed.append(name)
                fixture = self._find(name, instance)
                if fixture is not None:
                    pending += _parameters(fixture.function)
        return needed

    def _make(
        self, name: str, instance: Any, params: dict[str, Any], values: dict[str, Any]
    ) -> Any:
        """The value of a fixture; ``values`` holds those of this combination so far."""
        if name in values:
            return values[name]
        fixture = self._find(name, instance)
        if fixture is None:
            values[name] = self._built_in(name)
        elif name in self._kept and name not in params:
            values[name] = self._kept[name]
        else:
            values[name] = self._set_up(fixture, instance, params, values=values)
        return values[name]

    def _set_up(
        self, fixture: Fixture, instance: Any, params: dict[str, Any], values: dict[str, Any]
    ) -> Any:
        arguments: dict[str, Any] = {}
        for name in _parameters(fixture.function):
            if name == "self":
                arguments[name] = instance
            elif name == "request":
                arguments[name] = Request(params.get(fixture.name))
            else:
                arguments[name] = self._make(name, instance, params, values=values)
        value = fixture.function(**arguments)
        is_kept = fixture.scope in _KEPT
        if isinstance(value, Remote):
            # What it looks like is the program's choice.
            pass
        elif hasattr(value, "gi_frame"):
            (self._open_kept if is_kept else self._open).append(value)
            value = next(value)
        elif hasattr(value, "cr_frame"):
            import asyncio  # noqa: PLC0415 - few fixtures are coroutines

            value = asyncio.run(value)
        if is_kept:
            self._kept[fixture.name] = value
        return value

    def _check_built_in(self, name: str) -> None:
        if name != _FOLDER and name not in _ENTRY_PARAMETERS and name != self._names.entry:
            raise Unrunnable(f"a test has a parameter {name!r}, which nothing provides")

    def _built_in(self, name: str) -> Any:
        self._check_built_in(name)
        if name == _FOLDER:
            import pathlib  # noqa: PLC0415 - few tests need a folder
            import tempfile  # noqa: PLC0415

            folder = pathlib.Path(tempfile.mkdtemp())
            # The program runs as another user.
            folder.chmod(0o777)
            return folder
        return self._names.of_program(self._names.entry)


def _parameters(function: Any) -> list[str]:
    """The parameters of a function without defaults, without the ``self`` of a method."""
    if hasattr(function, "__wrapped__") and not hasattr(function, "patchings"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None:
        return []
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = len(function.__defaults__ or ())
    with_default = set(names[code.co_argcount - defaults : code.co_argcount])
    with_default.update(function.__kwdefaults__ or ())
    is_method = getattr(function, "__self__", None) is not None
    first = 1 if is_method else 0
    return [name for name in names[first:] if name not in with_default]


def _finish(generator: Any) -> None:
    """Run a generator to its next ``yield``, or to its end."""
    for _ in generator:
        break
