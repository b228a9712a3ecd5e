"""Programs that answer every question alike: tests that one of them passes cannot tell wrong programs from right ones.

A control has no process: its session answers in the judge. Whether the tests pass it depends on the tests alone, so no
program can bring it about.
"""

from __future__ import annotations

from .proxies import ProgramFunction, Remote, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Callable, Iterator
    from typing import Any, Final

    from .counting import AssertionCounts, End

_LARGE: Final = 987_654_321_987_654
_TEXT: Final = "nel control answer"
# The numbers of proxies: of a function, of a class, and of an object.
_FUNCTION: Final = 0
_CLASS: Final = 1
_OBJECT: Final = 2


class ControlError(Exception):
    """What a control raises that answers nothing."""


class ControlSession:
    """Stands for ``ProgramSession``: every call has the same answer.

    Attributes:
        reached: Whether the tests looked for anything in the program.
        tally: Counts the answers and the assertions.
    """

    def __init__(self, tally: AssertionCounts, answer: Callable[[], Any], *, awaited: bool) -> None:
        self._answer = answer
        self._awaited = awaited
        self.reached = False
        self.tally = tally
        tally.reset()
        tally.is_control = True

    @property
    def ended(self) -> tuple[str, str] | None:
        """The verdict, once the tests cannot continue."""
        if self.tally.end is None:
            return None
        verdict, text = self.tally.end.args
        return verdict, text

    def stop(self, verdict: str, text: str) -> End:
        """Remember the first reason why the tests cannot continue."""
        return self.tally.stop(verdict, text)

    def greet(self) -> None:
        """Do nothing: a control needs no start."""

    def ask(self, action: str, *operands: Any) -> Any:
        """Answer like ``ProgramSession.ask``."""
        self.reached = True
        if action == "name":
            return self._named(operands[0])
        self.tally.settle()
        self.tally.answers += 1
        if action == "call":
            return self._called(number_of(operands[0]))
        if action == "get":
            return ProgramFunction(self, _FUNCTION, "method")
        if action in ("await", "item"):
            return self._answer()
        raise self.stop("wrong", "a control cannot do this")

    def _named(self, name: str) -> ProgramFunction:
        if name[:1].isupper():
            return ProgramFunction(self, _CLASS, "type")
        return ProgramFunction(self, _FUNCTION, "function")

    def _called(self, number: int) -> Any:
        if number == _CLASS:
            return Remote(self, _OBJECT, "object")
        if self._awaited:
            return Remote(self, _OBJECT, "coroutine")
        return self._answer()


def answers_of(tally: AssertionCounts, *, has_defaults: bool) -> Iterator[Callable[[], Any]]:
    """Yield what each control does when it is called.

    Args:
        tally: Receives what the controls raise.
        has_defaults: The tests replace an answer that is None or empty, so None is a control too.
    """

    def indecisive(kind: type, content: Any) -> Any:
        # Its truth is a right answer as often as not: where the tests ask for it, the control does not pass.
        def truth(self: object) -> bool:
            raise tally.stop("wrong", "a control is neither true nor false")

        body = {"__bool__": truth, "__hash__": kind.__hash__, "_nel_control": True}
        return type(kind.__name__, (kind,), body)(content)

    def fail() -> Any:
        raise tally.send(ControlError(_TEXT), _TEXT)

    large = indecisive(int, _LARGE)
    text = indecisive(str, _TEXT)
    values = [
        large,
        indecisive(int, -_LARGE),
        text,
        indecisive(list, []),
        indecisive(dict, {text: large}),
    ]
    for value in values:
        yield _constantly(value)
    yield fail
    if has_defaults:
        yield _constantly(None)


def _constantly(value: Any) -> Callable[[], Any]:
    return lambda: value
