"""The outcome of an exchange on the wire: an answer, a late duplicate of an answer, or an error.

A duplicate could be mistaken for the answer to the next request of its connection.
"""

from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from nemo_evaluator.core.values import dataclass, field

_LONGEST_GRACE: Final = 5.0
_SAMPLE: Final = 4096
_MOST_FIRSTS: Final = 1024


@dataclass(slots=True)
class Answer:
    """The status and headers (names in lower case) of an answer, and its body or its stream."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None
    sent_at: float = 0.0
    first_byte_at: float = 0.0
    last_byte_at: float = 0.0

    @property
    def content_type(self) -> str:
        """The media type, without parameters."""
        value = self.headers.get("content-type", "")
        if value == "application/json":
            return value
        return value.partition(";")[0].strip().lower()


class WireError(Exception):
    """An exchange failed below the level of HTTP statuses.

    Attributes:
        status: The HTTP status, if it had arrived; otherwise 0.
        connected: Whether there was a connection.
        own: This side ran out of files, memory or ports, which says nothing about the server.
    """

    def __init__(
        self, text: str, status: int = 0, *, connected: bool = True, own: bool = False
    ) -> None:
        super().__init__(text)
        self.status = status
        self.connected = connected
        self.own = own


class Duplicates:
    """Distinguishes a late duplicate from a server whose answers are simply equal.

    The answers of a connection usually differ, if only in their id. A repeated answer is held back until the request's
    own answer has followed. If none follows within ``grace``, or if two connections begin with the same answer, this
    server's answers are equal (``usual``) and nothing is held back any more.
    """

    __slots__ = ("_firsts", "_slowest", "usual")

    def __init__(self) -> None:
        self.usual = False
        self._slowest = 0.125
        self._firsts: set[int] = set()

    @property
    def grace(self) -> float:
        """Seconds to wait for the own answer: twice the time of the slowest answer."""
        return min(2 * self._slowest, _LONGEST_GRACE)

    def suspects(self, answer: Answer, seen: deque[int]) -> bool:
        """Whether an answer may belong to an earlier request.

        Args:
            answer: The complete answer.
            seen: Hashes of the last answers of its connection; the answer is added.
        """
        if self.usual or answer.status >= 400:
            return False
        duration = answer.last_byte_at - answer.sent_at
        if duration > self._slowest:
            self._slowest = duration
        body = answer.body
        sample = body if len(body) <= _SAMPLE else body[: _SAMPLE // 2] + body[-_SAMPLE // 2 :]
        key = hash(sample)
        if not seen and len(self._firsts) < _MOST_FIRSTS:
            self.usual = key in self._firsts
            self._firsts.add(key)
        is_repeated = key in seen
        seen.append(key)
        return is_repeated
