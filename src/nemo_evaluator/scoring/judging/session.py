"""The judge's end of the pipe: it asks the program one question at a time, and lets nothing in but values."""

from __future__ import annotations

import _thread
import builtins
import posix as os
import sys

from . import program, values
from .counting import AssertionCounts, End, describe, not_a_number
from .exceptions import exception_type, rebuilt
from .handing import is_of_judge, is_usable, perform
from .proxies import MissingName, ProgramFunction, Remote, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from typing import Any, Final

_MAX_OBJECTS: Final = 10_000_000
_MAX_CLASSES: Final = 100
_MAX_TEXT: Final = 4000
_TESTS: Final = "__main__"


class ProgramSession:
    """Asks the program."""

    def __init__(self, requests: int, replies: int) -> None:
        self._requests = requests
        self._replies = replies
        self._lock = _thread.RLock()
        # How many of its objects the program has shown; they are numbered in this order.
        self._shown = 0
        self._handed_out: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._exception_types: dict[int, type[Exception]] = {}
        # How many functions of the tests the program has called that have not returned.
        self._depth = 0
        self._is_direct = False
        # Whether the tests looked for anything in the program.
        self.reached = False
        self.tally = AssertionCounts()
        self._nan = not_a_number(self.tally)

    def greet(self) -> None:
        """Wait until the program has run to its end."""
        self._await("", "run", ())

    def ask(self, action: str, *operands: Any) -> Any:
        """The plain value of an answer, or a proxy; raises what the program raised."""
        if action != "name" or self.tally.end is not None:
            # A name may be that of the exception which a handler expects.
            self.tally.settle()
        with self._lock:
            self.reached = True
            key = os.urandom(8).hex()
            # What a function of the tests returns to the program may be the program's choice.
            self._is_direct = self._depth == 0
            self._send((key, action, *operands))
            self._is_direct = False
            answer = self._await(key, action, operands)
        if action != "name" or not isinstance(answer, Remote):
            self.tally.answers += 1
        return answer

    @property
    def ended(self) -> tuple[str, str] | None:
        """The verdict, once the tests cannot go on; it is never that they passed."""
        if self.tally.end is None:
            return None
        verdict, text = self.tally.end.args
        if verdict == "passed":
            return "tamper", "the program ended the tests"
        return verdict, text

    def stop(self, verdict: str, text: str) -> End:
        """Remember the first reason why the tests cannot go on."""
        return self.tally.stop(verdict, text)

    def _send(self, message: tuple[Any, ...]) -> None:
        try:
            body = values.encode(
                message, self._refer, values.JUDGE_MAX_FRAME, max_depth=values.JUDGE_MAX_DEPTH
            )
            values.send(self._requests, body)
        except BrokenPipeError:
            raise self.stop("crash", "the program ended") from None
        except values.Forbidden as error:
            raise self.stop("tamper", f"the program reached for {error}") from None
        except ValueError as error:
            # Before the first answer, what the tests pass is their own.
            verdict = "crash" if self.tally.answers else "unjudged"
            raise self.stop(
                verdict, f"the tests pass a value that cannot be sent: {error}"
            ) from None

    def _await(self, key: str, action: str, operands: tuple[Any, ...]) -> Any:
        while True:
            try:
                body = values.receive(self._replies)
                if body is None:
                    raise self.stop("crash", "the program ended")
                message = values.decode(body, self._resolve, self._nan)
                if type(message) is not tuple or len(message) != 3 or type(message[0]) is not str:
                    raise values.Malformed("a message of no known form")
                if message[0] == "" and message[1] == program.CALLBACK and key:
                    self._call_back(message[2])
                    continue
                if message[0] != key:
                    raise values.Malformed("an answer to no question")
                return self._content(action, message[1], message[2], operands=operands)
            except values.Malformed as error:
                raise self.stop(
                    "tamper", f"the program wrote to the judge's pipe: {error}"
                ) from None

    def _content(self, action: str, kind: Any, content: Any, operands: tuple[Any, ...]) -> Any:
        if kind == program.VALUE:
            return content
        if kind == program.CHANGED and action == "call":
            return _change(operands, content)
        if kind == program.STOPPED and action == "next":
            self.tally.answers += 1
            raise StopIteration
        if kind == program.MISSING and action in ("name", "get", "len"):
            raise MissingName
        if kind not in (program.RAISED, program.ENDED, program.SYNTAX):
            raise values.Malformed("an unknown kind of answer")
        names, text, label, own = _exception(content)
        if kind == program.SYNTAX:
            raise self.stop("compile_error", label)
        if kind == program.ENDED or "MemoryError" in names:
            raise self.stop(_end_of(names), label)
        self.tally.answers += 1
        raise self.tally.send(rebuilt(names, text, own), label)

    def _call_back(self, content: Any) -> None:
        """The program calls a function that the tests gave it, or looks at one of their objects."""
        if type(content) is not tuple or len(content) < 2:
            raise values.Malformed("a call of no known form")
        if type(content[0]) is not int or type(content[1]) is not str:
            raise values.Malformed("a call of no known form")
        number = -2 - content[0]
        if not 0 <= number < len(self._handed_out):
            raise values.Malformed("a call of no function of the tests")
        target = self._handed_out[number]
        # What the program calls with is an answer too.
        self.tally.answers += 1
        self._depth += 1
        try:
            result = perform(target, content[1], content[2:])
        except values.Malformed:
            raise
        except Exception as error:  # noqa: BLE001 - it goes to the program, as it would in one process
            if error is self.tally.raised:
                self.tally.raised = None
            names = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
            self._send(("", program.FAILED, names[0], describe(error).partition(": ")[2]))
        else:
            self._send(("", program.RETURNED, result))
        finally:
            self._depth -= 1

    def _refer(self, value: Any) -> values.Reference:
        """How the program is told of something that is not sent itself."""
        if isinstance(value, Remote):
            return values.Reference(number_of(value), True, "")
        if isinstance(value, type) and value in self._exception_types.values():
            return values.Reference(vars(value)["_nel_number"], True, "")
        if is_of_judge(value):
            raise values.Forbidden(f"a {type(value).__name__} of the judge")
        name = getattr(value, "__name__", None)
        if isinstance(name, str):
            if getattr(builtins, name, None) is value:
                return values.Reference(-1, True, name)
            module = getattr(value, "__module__", None)
            if isinstance(module, str) and _is_of_python(module, name, value):
                return values.Reference(-1, True, f"{module}:{name}")
        number = self._numbers.get(id(value))
        if number is None:
            # What the program was given before, it may have chosen to be given again.
            if self._is_direct and not is_usable(value):
                raise self.stop(
                    "unjudged", f"the tests pass a {type(value).__name__}, which cannot be sent"
                )
            number = len(self._handed_out)
            self._numbers[id(value)] = number
            self._handed_out.append(value)
        return values.Reference(-2 - number, callable(value), type(value).__name__)

    def _exception_type(self, number: int, type_name: str) -> type[Exception]:
        """A class of exceptions of the program, as a class that the tests can expect."""
        if number not in self._exception_types:
            base, _, name = type_name.partition(":")
            if base not in values.BUILTIN_TYPES or not issubclass(
                getattr(builtins, base), Exception
            ):
                raise values.Malformed("a class of exceptions of no known kind")
            self._exception_types[number] = exception_type(name, getattr(builtins, base), number)
        return self._exception_types[number]

    def _resolve(self, reference: values.Reference) -> Any:
        """What a reference of the program stands for: its own object, one of the tests', or a builtin type."""
        number = reference.number
        if number >= 0:
            if number > self._shown or number > _MAX_OBJECTS:
                raise values.Malformed("an object that the program has not shown")
            if number == self._shown:
                self._shown += 1
            if reference.kind == values.EXCEPTION:
                return self._exception_type(number, reference.type_name)
            kind = ProgramFunction if reference.kind else Remote
            return kind(self, number, reference.type_name)
        if number == -1:
            if reference.type_name not in values.BUILTIN_TYPES:
                raise values.Malformed("a name that is not the program's")
            return getattr(builtins, reference.type_name)
        if -2 - number >= len(self._handed_out):
            raise values.Malformed("an object that the tests did not pass")
        return self._handed_out[-2 - number]


def _is_of_python(module: str, name: str, value: Any) -> bool:
    """A function or type of an imported module: the program has it too, so the judge need not run it."""
    if module == _TESTS or module.startswith("nel_judge"):
        return False
    return getattr(sys.modules.get(module), name, None) is value


def _exception(content: Any) -> tuple[list[str], str, str, list[Any]]:
    if (
        type(content) is not tuple
        or len(content) != 4
        or type(content[0]) is not list
        or type(content[3]) is not list
    ):
        raise values.Malformed("an exception of no known form")
    names, text, label, own = content
    if len(names) > _MAX_CLASSES or any(type(name) is not str for name in [*names, text, label]):
        raise values.Malformed("an exception of no known form")
    if len(text) > _MAX_TEXT or len(label) > _MAX_TEXT or len(own) > _MAX_CLASSES:
        raise values.Malformed("an exception beyond the bounds")
    return names, text, label, own


def _end_of(names: list[str]) -> str:
    if "MemoryError" in names:
        return "out_of_memory"
    return "wrong" if "AssertionError" in names else "crash"


def _change(operands: tuple[Any, ...], content: Any) -> None:
    """A call that returned nothing may have changed its arguments: make the tests' own like the program's."""
    if len(operands) != 3 or type(content) is not list or len(content) != len(operands[1]):
        raise values.Malformed("changes of no call")
    for old, new in zip(operands[1], content):  # noqa: B905 - images may have an old Python
        if type(old) is not type(new):
            continue
        if type(old) in (list, bytearray):
            old[:] = new
        elif type(old) in (dict, set):
            old.clear()
            old.update(new)
