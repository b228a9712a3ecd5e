"""What came back from a server, before anybody reads it: an answer, a late duplicate of one, or none.

A duplicate would be taken for the answer to the next request of its connection.
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
    """The status and headers (names in lower case) of an answer, and its body unless that is a stream."""

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
        said = self.headers.get("content-type", "")
        if said == "application/json":
            return said
        return said.partition(";")[0].strip().lower()


class WireError(Exception):
    """An exchange failed below the level of HTTP statuses; the text says how. ``status``: if one had come, which.

    ``connected``: whether there was a connection at all. ``own``: whether this side had run out of files, memory or
    ports, which says nothing of the server.
    """

    def __init__(
        self, text: str, status: int = 0, *, connected: bool = True, own: bool = False
    ) -> None:
        super().__init__(text)
        self.status = status
        self.connected = connected
        self.own = own


class Duplicates:
    """Tells a late duplicate from a server whose answers are simply equal.

    The answers of a connection differ, if only in their id. One that came before is held until the request's own
    answer has followed; when none follows within ``grace``, or when two connections begin with the same answer, this
    server's answers are equal (``usual``) and nothing is held any more.
    """

    __slots__ = ("_firsts", "_slowest", "usual")

    def __init__(self) -> None:
        self.usual = False
        self._slowest = 0.125
        self._firsts: set[int] = set()

    @property
    def grace(self) -> float:
        """How long the own answer is waited for, in seconds: twice as long as the slowest answer took."""
        return min(2 * self._slowest, _LONGEST_GRACE)

    def suspects(self, answer: Answer, seen: deque[int]) -> bool:
        """Whether a whole answer may belong to an earlier request; ``seen`` has the last ones of its connection."""
        if self.usual or answer.status >= 400:
            return False
        took = answer.last_byte_at - answer.sent_at
        if took > self._slowest:
            self._slowest = took
        body = answer.body
        key = hash(body if len(body) <= _SAMPLE else body[: _SAMPLE // 2] + body[-_SAMPLE // 2 :])
        if not seen and len(self._firsts) < _MOST_FIRSTS:
            self.usual = key in self._firsts
            self._firsts.add(key)
        found = key in seen
        seen.append(key)
        return found
