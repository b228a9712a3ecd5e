"""A run of the tests without a program: it shows whether tests cannot be judged, whatever a program does.

Every question has an answer about which nothing is known. Assertions about such answers hold. Where the tests look
into one to decide what to do next, the run ends: what follows depends on the program. Tests that cannot be run up to
there can be run with no program, so a program cannot bring about that they are not judged.
"""

from __future__ import annotations

from .proxies import MissingName, ProgramFunction, Remote, number_of, session_of
from .session import ProgramSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Callable
    from typing import Any, Final

    from .counting import AssertionCounts, End

# How many items answers have in the two runs: tests that cannot be judged fail in both.
ITEM_COUNTS: Final = (0, 8)
# What an answer looks like inside an assertion, whose result is not used.
_SEEN: Final[dict[str, Any]] = {
    "bool": True,
    "int": 1,
    "float": 1.0,
    "str": "unknown",
    "repr": "unknown",
    "is_instance": True,
    "is_subclass": True,
}
_WITHOUT_RESULT: Final = ("set", "del", "set_item", "del_item")


class UnansweredSession(ProgramSession):
    """Stands for ``ProgramSession`` where there is no program.

    Args:
        tally: Counts the answers and the assertions.
        items: How many items an answer has; an answer without items is false.
        may_decide: An answer may decide the course of the tests: they have no assertion that could be left out.

    Attributes:
    """

    def __init__(self, tally: AssertionCounts, items: int, *, may_decide: bool) -> None:
        super().__init__(-1, -1)
        tally.reset()
        tally.is_lenient = True
        self.tally = tally
        self._items = items
        self._may_decide = may_decide
        self._answers = 0
        # How many items are left in each iterator, by its number.
        self._left: dict[int, int] = {}
        self._is_encoding = False

    def greet(self) -> None:
        """Do nothing: there is no program."""

    def stop(self, verdict: str, text: str) -> End:
        """Remember the first reason why the tests cannot continue; "wrong" where an answer may keep them from it."""
        if verdict == "unjudged" and self.is_decided:
            return super().stop("wrong", "an answer decides the course of the tests")
        return super().stop(verdict, text)

    @property
    def is_decided(self) -> bool:
        """Whether what the tests do now may depend on an answer, or on an exception in its place."""
        if self.tally.asserting > 0 and self.tally.is_seen:
            return True
        return any(self.tally.answers > answers for answers in self.tally.trying)

    def ask(self, action: str, *operands: Any) -> Any:
        """Check that the request can be sent, and answer like ``ProgramSession.ask``."""
        self.reached = True
        if action == "name":
            return self.new_answer()
        self.tally.settle()
        self._is_direct = True
        self._is_encoding = True
        try:
            self._encoded(("", action, *operands))
        finally:
            self._is_encoding = False
        self.tally.answers += 1
        if action in _SEEN:
            return self.seen(_SEEN[action])
        if action in _WITHOUT_RESULT:
            return None
        if action == "exit":
            return self.seen(True)
        if action == "len":
            return self._length()
        if action == "next":
            return self._next(number_of(operands[0]))
        return self.new_answer()

    def new_answer(self) -> Unknown:
        """An answer that was not given before."""
        self._answers += 1
        return Unknown(self, self._answers, "unknown")

    def seen(self, value: Any) -> Any:
        """What the tests see when they look into an answer.

        Raises:
            End: They do so outside an assertion.
        """
        if self.tally.asserting:
            self.tally.is_seen = True
            return value
        if not self._may_decide:
            raise self.stop("wrong", "an answer decides the course of the tests")
        if isinstance(value, type) or self._items:
            return value
        return type(value)()

    def class_of_answer(self) -> type:
        """The class that ``isinstance`` sees."""
        if self._is_encoding:
            return Unknown
        kind: type = self.seen(Unknown)
        return kind

    def _length(self) -> int:
        """How many items an answer has; ``list`` does without it, but ``len`` shows it to the tests."""
        if not self._may_decide and not self.tally.asserting:
            raise MissingName
        self.tally.is_seen = True
        return self._items

    def _next(self, number: int) -> Any:
        left = self._left.get(number, self._items)
        if not left:
            raise StopIteration
        self._left[number] = left - 1
        return self.new_answer()


class Unknown(ProgramFunction):
    """An answer about which nothing is known; what is computed from it is unknown too."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return session_of(self).class_of_answer()

    def __hash__(self) -> int:
        return int(session_of(self).seen(number_of(self)))

    def __index__(self) -> int:
        return int(session_of(self).seen(1))

    def __contains__(self, item: object) -> bool:
        return bool(session_of(self).seen(True))

    def __format__(self, pattern: str) -> str:
        return str(session_of(self).seen("unknown"))

    def __round__(self, digits: int | None = None) -> Any:
        return session_of(self).new_answer()


def _computed(self: Remote, *operands: object) -> Any:
    return session_of(self).new_answer()


def _add_methods(names: str, pattern: str, method: Callable[..., Any]) -> None:
    for name in names.split():
        setattr(Unknown, pattern.format(name), method)


_BINARY: Final = "add sub mul truediv floordiv mod divmod pow matmul or and xor lshift rshift"
# The tests have not looked into an answer before they ask for the truth of a comparison.
_add_methods("eq ne lt le gt ge", "__{}__", _computed)
_add_methods(_BINARY, "__{}__", _computed)
_add_methods(_BINARY, "__r{}__", _computed)
_add_methods("neg pos abs invert", "__{}__", _computed)
