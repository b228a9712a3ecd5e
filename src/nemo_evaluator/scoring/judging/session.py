"""The judge's end of the pipe: it sends the program one request at a time, and lets nothing in but values."""

from __future__ import annotations

import _thread
import builtins
import posix as os
import sys

from . import protocol, values
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
    """Sends requests to the program.

    Attributes:
        reached: Whether the tests looked for anything in the program.
        tally: Counts the answers and the assertions.
    """

    def __init__(self, requests: int, replies: int) -> None:
        self._requests = requests
        self._replies = replies
        self._lock = _thread.RLock()
        # How many of its objects the program has sent references to; they are numbered in this order.
        self._shown = 0
        # Objects of the tests that the program has references to, and their numbers by id.
        self._handed_out: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._exception_types: dict[int, type[Exception]] = {}
        # How many calls of functions of the tests by the program are running.
        self._depth = 0
        # Whether the operands that are being sent were chosen by the tests.
        self._is_direct = False
        self.reached = False
        self.tally = AssertionCounts()
        self._nan = not_a_number(self.tally)

    def greet(self) -> None:
        """Wait until the program has run to its end."""
        self._await("", "run", ())

    def ask(self, action: str, *operands: Any) -> Any:
        """Send a request and wait for the answer.

        Args:
            action: An action of ``ProgramObjects``, or "name" for the value of a global name.
            operands: The object that it is about, and further operands.

        Returns:
            A plain value, or a proxy for an object.

        Raises:
            Exception: What the program raised.
            End: The program ended, or broke a rule.
        """
        if action != "name" or self.tally.end is not None:
            # A name is exempt: a handler may look up the exception that it expects.
            self.tally.settle()
        with self._lock:
            self.reached = True
            key = os.urandom(8).hex()
            # Inside a call by the program, the program may have chosen the operands.
            self._is_direct = self._depth == 0
            self._send((key, action, *operands))
            self._is_direct = False
            answer = self._await(key, action, operands)
        if action != "name" or not isinstance(answer, Remote):
            self.tally.answers += 1
        return answer

    @property
    def ended(self) -> tuple[str, str] | None:
        """The verdict, once the tests cannot continue; it is never "passed"."""
        if self.tally.end is None:
            return None
        verdict, text = self.tally.end.args
        if verdict == "passed":
            return "tamper", "the program ended the tests"
        return verdict, text

    def stop(self, verdict: str, text: str) -> End:
        """Remember the first reason why the tests cannot continue."""
        return self.tally.stop(verdict, text)

    def _send(self, message: tuple[Any, ...]) -> None:
        body = self._encoded(message)
        try:
            values.send(self._requests, body)
        except BrokenPipeError:
            raise self.stop("crash", "the program ended") from None

    def _encoded(self, message: tuple[Any, ...]) -> bytes:
        """The bytes of a request; ends the tests where it cannot be sent."""
        try:
            return values.encode(
                message, self._refer, values.JUDGE_MAX_FRAME, max_depth=values.JUDGE_MAX_DEPTH
            )
        except values.Forbidden as error:
            raise self.stop("tamper", f"the program reached for {error}") from None
        except ValueError as error:
            raise self.stop(
                "unjudged", f"the tests pass a value that cannot be sent: {error}"
            ) from None

    def _await(self, key: str, action: str, operands: tuple[Any, ...]) -> Any:
        """Serve calls of the program until it sends the answer with this key."""
        while True:
            try:
                body = values.receive(self._replies)
                if body is None:
                    raise self.stop("crash", "the program ended")
                reply_key, kind, content = self._message(body)
                if reply_key == "" and kind == protocol.CALLBACK and key:
                    self._call_back(content)
                    continue
                if reply_key != key:
                    raise values.Malformed("an answer to no question")
                return self._content(action, kind, content, operands=operands)
            except values.Malformed as error:
                raise self.stop(
                    "tamper", f"the program wrote to the judge's pipe: {error}"
                ) from None

    def _message(self, body: bytes) -> tuple[str, Any, Any]:
        """The key, the kind and the content of a reply."""
        message = values.decode(body, self._resolve, self._nan)
        if type(message) is not tuple or len(message) != 3 or type(message[0]) is not str:
            raise values.Malformed("a message of no known form")
        key, kind, content = message
        return key, kind, content

    def _content(self, action: str, kind: Any, content: Any, operands: tuple[Any, ...]) -> Any:
        """The value of an answer; raises what the program raised."""
        if kind == protocol.VALUE:
            return content
        if kind == protocol.CHANGED and action == "call":
            return _change(operands, content)
        if kind == protocol.STOPPED and action == "next":
            self.tally.answers += 1
            raise StopIteration
        if kind == protocol.MISSING and action in ("name", "get", "len"):
            raise MissingName
        if kind not in (protocol.RAISED, protocol.ENDED, protocol.SYNTAX):
            raise values.Malformed("an unknown kind of answer")
        names, text, label, own = _exception(content)
        if kind == protocol.SYNTAX:
            raise self.stop("compile_error", label)
        if kind == protocol.ENDED or "MemoryError" in names:
            raise self.stop(_end_of(names), label)
        self.tally.answers += 1
        raise self.tally.send(rebuilt(names, text, own), label)

    def _call_back(self, content: Any) -> None:
        """The program calls a function that the tests passed to it, or uses an attribute of one of their objects."""
        if type(content) is not tuple or len(content) < 2:
            raise values.Malformed("a call of no known form")
        if type(content[0]) is not int or type(content[1]) is not str:
            raise values.Malformed("a call of no known form")
        number = -2 - content[0]
        if not 0 <= number < len(self._handed_out):
            raise values.Malformed("a call of no function of the tests")
        target = self._handed_out[number]
        # The arguments of the call are an answer too.
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
            self._send(("", protocol.FAILED, names[0], describe(error).partition(": ")[2]))
        else:
            self._send(("", protocol.RETURNED, result))
        finally:
            self._depth -= 1

    def _refer(self, value: Any) -> values.Reference:
        """The reference that is sent to the program instead of a value that is not plain."""
        if isinstance(value, Remote):
            return values.Reference(number_of(value), True, "")
        if isinstance(value, type) and value in self._exception_types.values():
            return values.Reference(vars(value)["_nel_number"], True, "")
        if is_of_judge(value):
            raise values.Forbidden(f"a {type(value).__name__} of the judge")
        known_name = _name_in_python(value)
        if known_name is not None:
            return values.Reference(-1, True, known_name)
        number = self._handed_out_number(value)
        return values.Reference(-2 - number, callable(value), type(value).__name__)

    def _handed_out_number(self, value: Any) -> int:
        """The number of an object of the tests that the program may use from now on."""
        number = self._numbers.get(id(value))
        if number is None:
            # Only operands of the tests' own choice: the program may have chosen to get the others back.
            if self._is_direct and not is_usable(value):
                raise self.stop(
                    "unjudged", f"the tests pass a {type(value).__name__}, which cannot be sent"
                )
            number = len(self._handed_out)
            self._numbers[id(value)] = number
            self._handed_out.append(value)
        return number

    def _exception_type(self, number: int, type_name: str) -> type[Exception]:
        """A class of exceptions of the program, as a class that the tests can expect."""
        if number not in self._exception_types:
            base_name, _, name = type_name.partition(":")
            if base_name not in values.BUILTIN_TYPES:
                raise values.Malformed("a class of exceptions of no known kind")
            base = getattr(builtins, base_name)
            if not issubclass(base, Exception):
                raise values.Malformed("a class of exceptions of no known kind")
            self._exception_types[number] = exception_type(name, base, number)
        return self._exception_types[number]

    def _resolve(self, reference: values.Reference) -> Any:
        """The object behind a reference: a proxy for one of the program's, one of the tests', or a builtin type."""
        number = reference.number
        if number >= 0:
            return self._object_of_program(reference)
        if number == -1:
            if reference.type_name not in values.BUILTIN_TYPES:
                raise values.Malformed("a name that is not the program's")
            return getattr(builtins, reference.type_name)
        if -2 - number >= len(self._handed_out):
            raise values.Malformed("an object that the tests did not pass")
        return self._handed_out[-2 - number]

    def _object_of_program(self, reference: values.Reference) -> Any:
        number = reference.number
        if number > self._shown or number > _MAX_OBJECTS:
            raise values.Malformed("an object that the program has not shown")
        if number == self._shown:
            self._shown += 1
        if reference.kind == values.EXCEPTION:
            return self._exception_type(number, reference.type_name)
        kind = ProgramFunction if reference.kind else Remote
        return kind(self, number, reference.type_name)


def _name_in_python(value: Any) -> str | None:
    """How the program can find a builtin, or a function or type of an imported module, by itself; None for others."""
    name = getattr(value, "__name__", None)
    if not isinstance(name, str):
        return None
    if getattr(builtins, name, None) is value:
        return name
    module = getattr(value, "__module__", None)
    if isinstance(module, str) and _is_in_module(module, name, value):
        return f"{module}:{name}"
    return None


def _is_in_module(module: str, name: str, value: Any) -> bool:
    """Whether an imported module, which is neither the tests nor a part of the judge, calls a value by this name."""
    if module == _TESTS or module.startswith("nel_judge"):
        return False
    return getattr(sys.modules.get(module), name, None) is value


def _exception(content: Any) -> tuple[list[str], str, str, list[Any]]:
    """The parts of an exception, as ``program._described`` makes them; raises Malformed for anything else."""
    if type(content) is not tuple or len(content) != 4:
        raise values.Malformed("an exception of no known form")
    names, text, label, own = content
    if type(names) is not list or type(own) is not list:
        raise values.Malformed("an exception of no known form")
    if len(names) > _MAX_CLASSES or any(type(name) is not str for name in [*names, text, label]):
        raise values.Malformed("an exception of no known form")
    if len(text) > _MAX_TEXT or len(label) > _MAX_TEXT or len(own) > _MAX_CLASSES:
        raise values.Malformed("an exception beyond the bounds")
    return names, text, label, own


def _end_of(names: list[str]) -> str:
    """The verdict on a program that ended with an exception of these classes."""
    if "MemoryError" in names:
        return "out_of_memory"
    return "wrong" if "AssertionError" in names else "crash"


def _change(operands: tuple[Any, ...], content: Any) -> None:
    """Make the arguments of a call that returned nothing like the program's copies, which it may have changed."""
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
