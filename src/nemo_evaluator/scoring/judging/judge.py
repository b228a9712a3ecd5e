"""The judge's side: it runs the tests, which find proxies where they expect the program, and compares plain values."""

from __future__ import annotations

import builtins
import posix as os
import sys

from . import values
from .program import CALLBACK, CHANGED, ENDED, MISSING, RAISED, STOPPED, SYNTAX, VALUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Callable, Iterator
    from typing import Any, Final

# Names that tests take from what a solution usually imports; the program's own would be no measure of itself.
_COMPARING: Final = {"isclose": "math", "Counter": "collections", "OrderedDict": "collections", "deque": "collections"}

# For a Python before 3.10, which does not know the names of its modules.
_MODULES: Final = ("math", "sys", "re", "collections", "itertools", "random", "string", "copy", "datetime")


class End(BaseException):
    """The tests cannot go on: a verdict and why. No ``except`` of theirs takes that back."""


class Session:
    """Asks the program, one question at a time."""

    def __init__(self, requests: int, replies: int) -> None:
        self._requests, self._replies = requests, replies
        self._callbacks: dict[int, Callable[..., Any]] = {}
        self.end: End | None = None

    def greet(self) -> None:
        """Wait until the program has run to its end."""
        self._await("")

    def ask(self, action: str, *operands: Any) -> Any:
        """The plain value of an answer, or a proxy; raises what the program raised."""
        if self.end is not None:
            raise self.end
        key = os.urandom(8).hex()
        try:
            body = values.encode((key, action, *operands), self._refer)
            values.send(self._requests, body)
        except BrokenPipeError:
            raise self.stop("crash", "the program ended") from None
        except ValueError as error:
            raise self.stop("unjudged", f"the tests pass something that cannot be sent: {error}") from None
        return self._await(key, operands)

    @property
    def ended(self) -> tuple[str, str] | None:
        """The verdict, once the tests cannot go on."""
        return None if self.end is None else self.end.args

    def stop(self, verdict: str, text: str) -> End:
        """Remember the first reason why the tests cannot go on."""
        self.end = self.end or End(verdict, text)
        return self.end

    def _await(self, key: str, operands: tuple[Any, ...] = ()) -> Any:
        while True:
            try:
                body = values.receive(self._replies)
                if body is None:
                    raise self.stop("crash", "the program ended")
                message = values.decode(body, self._resolve)
                if not (type(message) is tuple and len(message) == 3):
                    raise values.Malformed("a message of no known form")
                if message[:2] == ("", CALLBACK) and key:
                    self._call_back(message[2])
                    continue
                if message[0] != key:
                    raise values.Malformed("an answer to no question")
                return self._content(message[1], message[2], operands)
            except values.Malformed as error:
                raise self.stop("tamper", f"the program wrote to the judge's pipe: {error}") from None

    def _content(self, kind: Any, content: Any, operands: tuple[Any, ...]) -> Any:
        if kind == VALUE:
            return content
        if kind == CHANGED:
            return _change(operands, content)
        if kind == STOPPED:
            raise StopIteration
        if kind == MISSING:
            raise KeyError
        if kind not in (RAISED, ENDED, SYNTAX):
            raise values.Malformed("an unknown kind of answer")
        if not (isinstance(content, tuple) and len(content) == 2 and isinstance(content[0], list)):
            raise values.Malformed("an exception of no known form")
        names, text = content
        if kind == SYNTAX:
            raise self.stop("compile_error", str(text))
        kinds = [getattr(builtins, str(name), None) for name in names]
        known = [one for one in kinds if isinstance(one, type) and issubclass(one, Exception)]
        if kind == ENDED or "MemoryError" in names:
            verdicts = {"MemoryError": "out_of_memory", "AssertionError": "wrong"}
            verdict = next((verdicts[name] for name in names if name in verdicts), "crash")
            raise self.stop(verdict, str(text))
        raise _rebuilt(known[0] if known else Exception, str(text))

    def _call_back(self, content: Any) -> None:
        """The program calls a function that the tests gave it."""
        if not (type(content) is tuple and len(content) == 2 and type(content[0]) is int and type(content[1]) is tuple):
            raise values.Malformed("a call of no known form")
        number, args = content
        if number not in self._callbacks:
            raise values.Malformed("a call of no function")
        try:
            answer: tuple[bool, Any] = (False, self._callbacks[number](*args))
        except Exception as error:  # noqa: BLE001 - it goes to the program, as it would in one process
            answer = (True, next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"))
        values.send(self._requests, values.encode(answer, self._refer))

    def _refer(self, value: Any) -> values.Reference:
        if isinstance(value, Remote):
            return values.Reference(_number(value), True, "")
        name = getattr(value, "__name__", None)
        if isinstance(name, str) and getattr(builtins, name, None) is value:
            return values.Reference(-1, True, name)
        if not callable(value) or isinstance(value, type):
            raise ValueError(f"a {type(value).__name__}")
        number = -2 - len(self._callbacks)
        self._callbacks[number] = value
        return values.Reference(number, True, "function")

    def _resolve(self, reference: values.Reference) -> Any:
        if reference.number < 0:
            known = self._callbacks.get(reference.number) or getattr(builtins, reference.type_name, None)
            if reference.number == -1 and not isinstance(known, type):
                raise values.Malformed("a function that is not the program's")
            return known
        return Remote(self, reference.number, reference.type_name)


def _change(operands: tuple[Any, ...], content: Any) -> None:
    """A call that returned nothing may have changed its arguments: make the tests' own like the program's."""
    if not (len(operands) == 3 and type(content) is list and len(content) == len(operands[1])):
        raise values.Malformed("changes of no call")
    for old, new in zip(operands[1], content):  # noqa: B905 - images may have an old Python
        if type(old) is type(new) and type(old) in (list, bytearray):
            old[:] = new
        elif type(old) is type(new) and type(old) in (dict, set):
            old.clear()
            old.update(new)


def _rebuilt(kind: type[Exception], text: str) -> Exception:
    try:
        return kind(text)
    except TypeError:
        # UnicodeDecodeError and its like want more than a text.
        return next((one(text) for one in (ValueError, OSError) if issubclass(kind, one)), Exception(text))


def _number(remote: Remote) -> int:
    return int(object.__getattribute__(remote, "_number"))


class Remote:
    """An object of the program: it can be called, looked into and walked through, and is equal to nothing but itself.
    Operators, ``in`` and comparisons are not passed on: they would tell the program what is expected, and let it say
    that it is so."""

    def __init__(self, session: Session, number: int, type_name: str) -> None:
        for name, value in (("_session", session), ("_number", number), ("_type_name", type_name)):
            object.__setattr__(self, name, value)

    def _ask(self, action: str, *operands: Any) -> Any:
        session: Session = object.__getattribute__(self, "_session")
        return session.ask(action, self, *operands)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Remote._ask(self, "call", list(args), kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Remote._ask(self, "get", name)

    def __setattr__(self, name: str, value: Any) -> None:
        Remote._ask(self, "set", name, value)

    def __getitem__(self, key: Any) -> Any:
        return Remote._ask(self, "item", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        Remote._ask(self, "set_item", key, value)

    def __len__(self) -> int:
        return int(Remote._ask(self, "len"))

    def __bool__(self) -> bool:
        return bool(Remote._ask(self, "bool"))

    def __iter__(self) -> Iterator[Any]:
        walk = Remote._ask(self, "iter")
        return walk if isinstance(walk, Remote) else iter(walk)

    def __next__(self) -> Any:
        return Remote._ask(self, "next")

    def __str__(self) -> str:
        return str(Remote._ask(self, "str"))

    def __repr__(self) -> str:
        return str(Remote._ask(self, "repr"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Remote):
            return False
        if _number(other) == _number(self):
            return True
        session: Session = object.__getattribute__(self, "_session")
        name = object.__getattribute__(self, "_type_name")
        raise session.stop("tamper", f"the tests compare two objects of the program's own type {name}")

    def __hash__(self) -> int:
        return _number(self)


class Names(dict):  # type: ignore[type-arg]
    """The globals of the tests: what is not theirs or Python's is the stub's, a module's, or the program's."""

    def __init__(self, session: Session, entry: str, stub: str) -> None:
        super().__init__(__name__="__main__", __builtins__=builtins)
        self._session, self._entry, self._stub = session, entry, stub
        self._helpers: dict[str, Any] | None = None

    def __missing__(self, name: str) -> Any:
        if name != self._entry:
            if hasattr(builtins, name):
                raise KeyError(name)
            if name in self._stub_names():
                return self._stub_names()[name]
            if name in _COMPARING:
                return getattr(__import__(_COMPARING[name]), name)
            if name in getattr(sys, "stdlib_module_names", _MODULES):
                return __import__(name)
        try:
            value = self._session.ask("name", name)
        except KeyError:
            raise NameError(f"name {name!r} is not defined") from None
        if isinstance(value, (Remote, int, str, float, tuple)):
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


def judge(session: Session, tests: str, entry: str, stub: str) -> tuple[str, str]:
    """Run the tests: (verdict, why not)."""
    try:
        code = compile(tests, "tests.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return "unjudged", f"the tests are no Python: {error}"
    try:
        session.greet()
        exec(code, Names(session, entry, stub))
    except BaseException as error:  # noqa: BLE001 - whatever the tests raise is their verdict
        if session.end is None:
            said = str(error)[:400]
            return "wrong" if isinstance(error, AssertionError) else "crash", f"{type(error).__name__}: {said}"
    return session.ended or ("passed", "")
