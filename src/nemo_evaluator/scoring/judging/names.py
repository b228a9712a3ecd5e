"""The names that tests find: their own, Python's, the problem's, those of the standard library, and the program's."""

from __future__ import annotations

import builtins
import sys

from .proxies import MissingName, Remote

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from typing import Any, Final

    from .controls import ControlSession
    from .session import ProgramSession

    _Session = ProgramSession | ControlSession

    _Globals = dict[str, Any]
else:
    _Globals = dict

# Names that tests take from what a solution usually imports; the program's own would be no measure of itself.
_COMPARING: Final = {
    "isclose": "math",
    "Counter": "collections",
    "OrderedDict": "collections",
    "deque": "collections",
}

# For a Python before 3.10, which does not know the names of its modules.
_MODULES: Final = (
    "math",
    "sys",
    "re",
    "collections",
    "itertools",
    "random",
    "string",
    "copy",
    "datetime",
)
# Attributes that lead from a value to the code around it.
_INSIDE: Final = frozenset(
    {
        "__globals__",
        "__builtins__",
        "__closure__",
        "__code__",
        "__dict__",
        "__func__",
        "__getattribute__",
    }
    | {
        "__init__",
        "__loader__",
        "__self__",
        "__spec__",
        "__subclasses__",
        "__wrapped__",
        "ag_frame",
        "cr_frame",
    }
    | {
        "f_back",
        "f_builtins",
        "f_globals",
        "f_locals",
        "gi_frame",
        "tb_frame",
        "__traceback__",
        "__reduce_ex__",
    }
)
_NOTHING: Final = object()


class Names(_Globals):
    """The globals of the tests; a missing name comes from the stub, a module, or the program, in this order."""

    def __init__(self, session: _Session, tests: dict[str, Any]) -> None:
        own_builtins = dict(vars(builtins))
        own_builtins["next"] = _next_of(session)
        own_builtins["getattr"] = _getattr_of(session)
        super().__init__(
            __name__="__main__", __file__="tests.py", __doc__=None, __builtins__=own_builtins
        )
        tally = session.tally
        self["__nel_asks__"] = tally.asks
        self["__nel_holds__"] = tally.holds
        self["__nel_called__"] = tally.called
        self["__nel_caught__"] = tally.caught
        self["__nel_entered__"] = tally.entered.add
        self["__nel_items__"] = tally.items
        self["__nel_raising__"] = tally.raising
        self["__nel_failed__"] = tally.failed
        self["__nel_format__"] = _format
        self["__nel_leave__"] = tally.leave
        self["__nel_ordered__"] = tally.ordered
        self["__nel_reached__"] = tally.reached
        self["__nel_skips__"] = tally.skips
        self["__nel_tries__"] = tally.tries
        self["__nel_tried__"] = tally.tried
        self["__nel_zip__"] = tally.zipped
        self.session = session
        self.entry: str = tests["entry"]
        self._stub: str = tests["stub"]
        self._asked = frozenset(tests["asked"])
        self._unbound = frozenset(tests["unbound"])
        self._source: str = tests["tests"]
        self._helpers: dict[str, Any] | None = None

    def __missing__(self, name: str) -> Any:
        if name == "pytest" and name in sys.modules:
            return sys.modules[name]
        if name != self.entry:
            if hasattr(builtins, name):
                raise KeyError(name)
            helpers = self._stub_names()
            if name in helpers:
                return helpers[name]
            if name in _COMPARING:
                return getattr(__import__(_COMPARING[name]), name)
            if name in getattr(sys, "stdlib_module_names", _MODULES):
                return __import__(name)
        if name not in self._asked:
            # An own name of the tests that is not bound now, or a name in a text: the program does not define it.
            is_of_answers = name in self._unbound or name not in self._source
            reason = f"the tests use {name!r}, which nobody defines"
            raise self.session.stop("crash" if is_of_answers else "unjudged", reason)
        return self.of_program(name)

    def of_program(self, name: str) -> Any:
        """What the program calls by this name."""
        try:
            value = self.session.ask("name", name)
        except MissingName:
            # No handler of the tests takes that for the exception that it expects.
            raise self.session.stop("crash", f"NameError: name {name!r} is not defined") from None
        if isinstance(value, Remote) or (isinstance(value, type) and "_nel_number" in vars(value)):
            # A plain value is requested each time: the program may have changed it.
            self[name] = value
        return value

    def _stub_names(self) -> dict[str, Any]:
        """What the problem itself defines (``poly``, ``encode_shift``) is taken from there, not from the answer."""
        if self._helpers is None:
            self._helpers = {"__name__": "stub"}
            try:
                exec(compile(self._stub, "stub.py", "exec", dont_inherit=True), self._helpers)
            except (SyntaxError, ValueError):
                self._helpers = {}
        return self._helpers


def _getattr_of(session: _Session) -> Any:
    """``getattr`` for the tests: a name that the program chose does not lead into the judge."""

    def getattr(target: Any, name: str, *default: Any) -> Any:
        if isinstance(name, str) and name in _INSIDE and session.tally.answers:
            raise session.stop("tamper", f"the program reached for {name}")
        return builtins.getattr(target, name, *default)

    return getattr


def _format(pattern: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """``pattern.format(...)`` for a pattern that may be the program's: it reads no private attribute."""
    if not isinstance(pattern, str):
        return getattr(pattern, method)(*args, **kwargs)
    import string  # noqa: PLC0415 - few tests need it

    class Formatter(string.Formatter):
        def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
            if "._" in field_name or "[_" in field_name:
                raise ValueError("a pattern may not read private attributes")
            return super().get_field(field_name, args, kwargs)

    values = args[0] if method == "format_map" else kwargs
    return Formatter().vformat(pattern, () if method == "format_map" else args, values)


def _next_of(session: _Session) -> Any:
    """``next`` for the tests: when they take an item themselves, there has to be one."""

    def next(iterator: Any, default: Any = _NOTHING) -> Any:
        if default is not _NOTHING:
            return builtins.next(iterator, default)
        try:
            return builtins.next(iterator)
        except StopIteration as error:
            if isinstance(iterator, Remote):
                session.tally.send(error, "StopIteration: the program has no further item")
            raise

    return next
