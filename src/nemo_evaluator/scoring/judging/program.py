"""The program's side: it runs, then answers what the judge asks. All of this is in its reach; nothing is secret."""

from __future__ import annotations

import builtins
import posix as os
import sys

from . import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Callable
    from typing import Any, Final

FILE: Final = "main.py"
# Replies: a value, an exception, the end of an iteration, no such name, the program's end, a call of a function of the
# tests, arguments that a call changed.
VALUE, RAISED, STOPPED, MISSING, ENDED, SYNTAX, CALLBACK, CHANGED = range(8)
_SHOWN: Final = 400
_MUTABLE: Final = (list, dict, set, bytearray)


class Host:
    """Holds the program's objects that were shown to the judge."""

    def __init__(self, requests: int, replies: int) -> None:
        self._requests, self._replies = requests, replies
        self._shown: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._globals: dict[str, Any] = {}
        self._actions: dict[str, Callable[..., Any]] = {
            "call": lambda target, args, kwargs: target(*args, **kwargs),
            "get": getattr,
            "set": setattr,
            "item": lambda target, key: target[key],
            "set_item": lambda target, key, value: target.__setitem__(key, value),
            **{action: getattr(builtins, action) for action in ("len", "iter", "next", "str", "repr", "bool")},
        }

    def run(self, source: str) -> bool:
        """Run the program as the main module; False when it did not come to its end."""
        main = type(sys)("__main__")
        main.__dict__.update(__file__=FILE, __builtins__=builtins)
        sys.modules["__main__"] = main
        self._globals = main.__dict__
        try:
            code = compile(source, FILE, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self._tell("", SYNTAX, _told(error))
            return False
        try:
            exec(code, main.__dict__)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is its end
            self._tell("", ENDED, _told(error))
            return False
        self._tell("", VALUE, None)
        return True

    def serve(self) -> None:
        """Answer until the judge has heard enough."""
        while (body := values.receive(self._requests)) is not None:
            key, action, *operands = values.decode(body, self._resolve)
            try:
                answer = self._answer(action, operands)
            except StopIteration:
                answer = (STOPPED, None)
            except Exception as error:  # noqa: BLE001 - it goes to the tests, as it would in one process
                answer = (RAISED, _told(error))
            except BaseException as error:  # noqa: BLE001
                answer = (ENDED, _told(error))
            self._tell(key, *answer)

    def _answer(self, action: str, operands: list[Any]) -> tuple[int, Any]:
        if action == "name":
            name = operands[0]
            return (VALUE, self._globals[name]) if name in self._globals else (MISSING, None)
        found = self._actions[action](*operands)
        if found is None and action == "call" and any(isinstance(one, _MUTABLE) for one in operands[1]):
            return CHANGED, operands[1]
        return VALUE, found

    def _tell(self, key: str, kind: int, content: Any) -> None:
        try:
            body = values.encode((key, kind, content), self._refer)
        except Exception as error:  # noqa: BLE001 - a value that cannot be told, for whatever reason
            body = values.encode((key, RAISED, _told(error)), self._refer)
        values.send(self._replies, body)

    def _refer(self, value: Any) -> values.Reference:
        name = getattr(value, "__name__", None)
        if isinstance(value, type) and isinstance(name, str) and getattr(builtins, name, None) is value:
            return values.Reference(-1, True, name)
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._shown)
            self._shown.append(value)
        return values.Reference(number, callable(value), type(value).__name__)

    def _resolve(self, reference: values.Reference) -> Any:
        if reference.number >= 0:
            return self._shown[reference.number]
        if reference.number == -1:
            return getattr(builtins, reference.type_name)
        # A function of the tests: calling it asks the judge.
        return lambda *args: self._call_back(reference.number, args)

    def _call_back(self, number: int, args: tuple[Any, ...]) -> Any:
        self._tell("", CALLBACK, (number, args))
        body = values.receive(self._requests)
        if body is None:
            os._exit(1)
        failed, content = values.decode(body, self._resolve)
        if failed:
            raise getattr(builtins, content)
        return content


def _told(error: BaseException) -> tuple[list[str], str]:
    """The built-in classes of an exception, nearest first, and it in words."""
    names = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    where, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE:
            where = f" ({FILE}, line {trace.tb_lineno})"
        trace = trace.tb_next
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - its own __str__
        text = ""
    return names, f"{type(error).__name__}: {text}"[:_SHOWN] + where
