"""The program's end of the pipe: it runs the program, then answers the judge's requests.

The program can reach all of this, so nothing here is secret and nothing here is trusted.
"""

from __future__ import annotations

import _thread
import builtins
import posix as os
import sys

from . import values
from .protocol import (
    CALLBACK,
    CHANGED,
    ENDED,
    FAILED,
    FILE,
    MISSING,
    RAISED,
    RETURNED,
    STOPPED,
    SYNTAX,
    VALUE,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Callable
    from typing import Any, Final

_MAX_TEXT: Final = 3000
_MAX_LABEL: Final = 400
_MAX_NAME: Final = 100
_MAX_CLASSES: Final = 20
_MUTABLE: Final = (list, dict, set, bytearray)
_OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "add": lambda left, right: left + right,
    "sub": lambda left, right: left - right,
    "mul": lambda left, right: left * right,
    "truediv": lambda left, right: left / right,
    "floordiv": lambda left, right: left // right,
    "mod": lambda left, right: left % right,
    "pow": lambda left, right: left**right,
    "matmul": lambda left, right: left @ right,
    "or": lambda left, right: left | right,
    "and": lambda left, right: left & right,
    "xor": lambda left, right: left ^ right,
    "neg": lambda value: -value,
}


class ProgramObjects:
    """Runs the program, and holds its objects that the judge has references to."""

    def __init__(self, requests: int, replies: int) -> None:
        self._requests = requests
        self._replies = replies
        # All threads of a program may call functions of the tests, one at a time.
        self._lock = _thread.RLock()
        # The objects that the judge has references to, and their numbers by id.
        self._shown: list[Any] = []
        self._numbers: dict[int, int] = {}
        # What represents objects of the tests here.
        self._functions: dict[int, TestObject] = {}
        self._globals: dict[str, Any] = {}
        self._actions = _actions()

    def run(self, source: str) -> bool:
        """Run the program as the main module, and report how it ended to the judge.

        Returns:
            Whether it reached its end.
        """
        main = type(sys)("__main__")
        main.__dict__.update(__file__=FILE, __builtins__=builtins)
        sys.modules["__main__"] = main
        self._globals = main.__dict__
        try:
            code = compile(source, FILE, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self._tell("", SYNTAX, _described(error))
            return False
        try:
            exec(code, main.__dict__)
        except BaseException as error:  # noqa: BLE001 - any exception ends the program
            self._tell("", ENDED, _described(error))
            return False
        self._tell("", VALUE, None)
        return True

    def serve(self) -> None:
        """Answer until the judge has no more requests."""
        while True:
            message = self._next_request()
            if message is None:
                return
            self._serve_one(message)

    def _next_request(self) -> tuple[Any, ...] | None:
        body = values.receive(self._requests, values.JUDGE_MAX_FRAME)
        if body is None:
            return None
        message: tuple[Any, ...] = values.decode(
            body, self._resolve, max_depth=values.JUDGE_MAX_DEPTH
        )
        return message

    def _serve_one(self, message: tuple[Any, ...]) -> None:
        key, action, *operands = message
        try:
            answer = self._answer(action, operands)
        except StopIteration as error:
            # Only an iterator that is asked for its next item can be at its end.
            if action == "next":
                answer = (STOPPED, None)
            else:
                answer = (RAISED, _described(error))
        except Exception as error:  # noqa: BLE001 - it goes to the tests, as it would in one process
            answer = (RAISED, _described(error))
        except BaseException as error:  # noqa: BLE001 - ``sys.exit`` and the like end the program
            answer = (ENDED, _described(error))
        self._tell(key, *answer)

    def _answer(self, action: str, operands: list[Any]) -> tuple[int, Any]:
        if action == "name":
            name = operands[0]
            if name not in self._globals:
                return MISSING, None
            return VALUE, self._globals[name]
        if action == "len" and not hasattr(type(operands[0]), "__len__"):
            return MISSING, None
        try:
            result = self._actions[action](*operands)
        except AttributeError:
            if action == "get" and _is_absent(*operands):
                return MISSING, None
            raise
        if action == "call" and result is None:
            arguments = operands[1]
            if any(isinstance(value, _MUTABLE) for value in arguments):
                return CHANGED, arguments
        return VALUE, result

    def _tell(self, key: str, kind: int, content: Any) -> None:
        shown = len(self._shown)
        try:
            body = values.encode((key, kind, content), self._refer)
        except Exception as error:  # noqa: BLE001 - a value that cannot be sent, for whatever reason
            self._forget(shown)
            body = values.encode((key, ENDED, _described(error)), self._refer)
        values.send(self._replies, body)

    def _forget(self, shown: int) -> None:
        """Free the numbers of objects whose message was not sent after all."""
        for value in self._shown[shown:]:
            self._numbers.pop(id(value), None)
        del self._shown[shown:]

    def _refer(self, value: Any) -> values.Reference:
        """The reference that is sent to the judge instead of a value that is not plain."""
        if isinstance(value, TestObject):
            return values.Reference(object.__getattribute__(value, "_number"), True, "function")
        if isinstance(value, type):
            name = getattr(value, "__name__", None)
            if not isinstance(name, str) or name not in values.BUILTIN_TYPES:
                name = ""
            if name and getattr(builtins, name) is value:
                return values.Reference(-1, True, name)
        number = self._numbers.get(id(value))
        if number is None:
            number = len(self._shown)
            self._numbers[id(value)] = number
            self._shown.append(value)
        if isinstance(value, type) and issubclass(value, Exception):
            base = _builtin_names(value)[0]
            return values.Reference(number, values.EXCEPTION, f"{base}:{value.__name__}")
        return values.Reference(number, callable(value), type(value).__name__)

    def _resolve(self, reference: values.Reference) -> Any:
        """The object of a reference: the program's own, a builtin, one of a module, or one of the tests."""
        if reference.number >= 0:
            return self._shown[reference.number]
        if reference.number == -1:
            module, _, name = reference.type_name.rpartition(":")
            if module:
                return getattr(_imported(module), name)
            return getattr(builtins, name)
        if reference.number not in self._functions:
            kind = TestFunction if reference.kind else TestObject
            self._functions[reference.number] = kind(self, reference.number, reference.type_name)
        return self._functions[reference.number]

    def call_back(self, number: int, action: str, operands: tuple[Any, ...]) -> Any:
        """Ask the judge to call a function of the tests, or to look up an attribute of one of their objects."""
        with self._lock:
            self._tell("", CALLBACK, (number, action, *operands))
            while True:
                message = self._next_request()
                if message is None:
                    os._exit(1)
                if message[1] == RETURNED:
                    return message[2]
                if message[1] == FAILED:
                    raise getattr(builtins, message[2])(message[3])
                # The function of the tests sends a request of its own first.
                self._serve_one(message)


class TestObject:
    """Represents an object of the tests in the program."""

    def __init__(self, host: ProgramObjects, number: int, type_name: str) -> None:
        object.__setattr__(self, "_host", host)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "__name__", type_name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._host.call_back(self._number, "get", (name,))

    def __setattr__(self, name: str, value: Any) -> None:
        self._host.call_back(self._number, "set", (name, value))


class TestFunction(TestObject):
    """Represents a function of the tests in the program: the judge executes its calls."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._host.call_back(self._number, "call", (args, kwargs))


def _actions() -> dict[str, Callable[..., Any]]:
    """What the judge may ask for, by the name of the action; the first operand is the object that it is about."""
    actions: dict[str, Callable[..., Any]] = {
        "call": lambda target, args, kwargs: target(*args, **kwargs),
        "get": getattr,
        "set": setattr,
        "del": delattr,
        "item": lambda target, key: target[key],
        "set_item": lambda target, key, value: target.__setitem__(key, value),
        "del_item": lambda target, key: target.__delitem__(key),
        "enter": lambda target: type(target).__enter__(target),
        "exit": _exit,
        "await": _await,
        "is_instance": lambda kind, value: isinstance(value, kind),
        "is_subclass": lambda kind, value: issubclass(value, kind),
    }
    for action in ("len", "iter", "next", "str", "repr", "bool", "int", "float", "reversed"):
        actions[action] = getattr(builtins, action)
    actions.update(_OPERATORS)
    return actions


def _is_absent(target: Any, name: str) -> bool:
    """Whether an attribute is missing, and no code of the program computes attributes or raised the error."""
    kinds = type(target).__mro__
    if any("__getattr__" in vars(kind) or "__getattribute__" in vars(kind) for kind in kinds[:-1]):
        return False
    return not any(name in vars(kind) for kind in kinds)


def _imported(module: str) -> Any:
    __import__(module)
    return sys.modules[module]


def _exit(target: Any, name: str | None) -> bool:
    if name is None:
        return bool(type(target).__exit__(target, None, None, None))
    kind = getattr(builtins, name, Exception)
    return bool(type(target).__exit__(target, kind, kind(), None))


_LOOPS: list[Any] = []


def _await(awaitable: Any) -> Any:
    import asyncio  # noqa: PLC0415 - a program without coroutines does not pay for it

    async def result() -> Any:
        return await awaitable

    if not _LOOPS:
        _LOOPS.append(asyncio.new_event_loop())
        asyncio.set_event_loop(_LOOPS[0])
    return _LOOPS[0].run_until_complete(result())


def _described(error: BaseException) -> tuple[list[str], str, str, list[Any]]:
    """An exception as it is sent to the judge.

    Returns:
        The names of its builtin classes, nearest first; its text; a label for the reader of the verdict; and the
        program's own classes of it, nearest first, followed by the exception itself.
    """
    line = 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    where = f" ({FILE}, line {line})" if line else ""
    text = _text_of(error)
    label = f"{type(error).__name__[:_MAX_NAME]}: {text}"[:_MAX_LABEL] + where
    own_classes: list[Any] = []
    for kind in type(error).__mro__:
        if kind.__module__ == "__main__" and issubclass(kind, Exception):
            own_classes.append(kind)
    own: list[Any] = []
    if own_classes:
        own = [*own_classes[:_MAX_CLASSES], error]
    return _builtin_names(type(error)), text, label, own


def _builtin_names(kind: type) -> list[str]:
    names: list[str] = []
    for base in kind.__mro__:
        if base.__module__ == "builtins" and len(names) < _MAX_CLASSES:
            names.append(str.__str__(base.__name__)[:_MAX_NAME])
    return names


def _text_of(error: BaseException) -> str:
    try:
        if len(error.args) == 1 and isinstance(error.args[0], str):
            return str.__str__(error.args[0])[:_MAX_TEXT]
        return str.__str__(str(error))[:_MAX_TEXT]
    except Exception:  # noqa: BLE001 - its own __str__
        return ""
