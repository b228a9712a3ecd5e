"""How much of a server one holder may take: connections, and memory for bodies.

A holder is a session, or an address of which nobody knows yet for which session it asks. Where a server has no more to
give, the holder with most of it loses, and everybody else goes on.
"""

from collections import Counter
from typing import Final, Protocol, TypeAlias

from nemo_evaluator.core.open_files import raise_limit

Holder: TypeAlias = tuple[str, str]

#: Whoever has the token of the proxy: the user, who is bound by what the server has alone.
TRUSTED: Final[Holder] = ("token", "")

_SHARE_OF_FILES: Final = 4
_MOST_CONNECTIONS: Final = 8192
_FEWEST_CONNECTIONS: Final = 16
#: Connections of one session at once.
SESSION_CONNECTIONS: Final = 256
#: Bytes of bodies that a server holds for all, and for one session.
ALL_BODIES: Final = 256 * 2**20
SESSION_BODIES: Final = 96 * 2**20
# What a session gets even while others hold all of it.
_OWN_BODIES: Final = 2 * 2**20


class Closable(Protocol):
    """A connection as the table sees it."""

    def drop(self) -> None:
        """Close it at once."""


class ConnectionTable:
    """The open connections of one server, by who holds them."""

    def __init__(self) -> None:
        files = raise_limit()
        self.most = max(_FEWEST_CONNECTIONS, min(_MOST_CONNECTIONS, files // _SHARE_OF_FILES))
        # In the order in which they came.
        self._open: dict[Holder, dict[Closable, None]] = {}
        self._count = 0

    def add(self, holder: Holder, connection: Closable) -> bool:
        """A connection has come. Returns whether it may stay; another one may have to go for it."""
        unnamed = self._open.setdefault(holder, {})
        if len(unnamed) >= self.most // 2:
            # Those who never say who they are: the oldest one has had its time.
            self._drop(holder, next(iter(unnamed)))
        elif self._count >= self.most:
            largest = max(self._open, key=lambda each: len(self._open[each]))
            if largest == holder:
                return False
            self._drop(largest, next(reversed(self._open[largest])))
        self._open.setdefault(holder, {})[connection] = None
        self._count += 1
        return True

    def rename(self, before: Holder, after: Holder, connection: Closable, most: int | None) -> bool:
        """It is known now whose a connection is. Returns whether that holder may have one more.

        Args:
            before: Who held it so far.
            after: Who holds it.
            connection: The connection.
            most: Connections of the holder at once; None: as many as the server has.
        """
        if before == after:
            return True
        if most is not None and len(self._open.get(after, ())) >= most:
            return False
        self.remove(before, connection)
        self._open.setdefault(after, {})[connection] = None
        self._count += 1
        return True

    def remove(self, holder: Holder, connection: Closable) -> None:
        """A connection is gone."""
        held = self._open.get(holder)
        if held is None or connection not in held:
            return
        del held[connection]
        self._count -= 1
        if not held:
            del self._open[holder]

    def _drop(self, holder: Holder, connection: Closable) -> None:
        self.remove(holder, connection)
        connection.drop()


class BodyBudget:
    """Memory for the bodies that a server reads, parses and carries."""

    def __init__(self, most: int = ALL_BODIES, share: int = SESSION_BODIES) -> None:
        self._most = most
        self._share = share
        self._held: Counter[Holder] = Counter()

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        return sum(self._held.values())

    def take(self, holder: Holder, size: int) -> bool:
        """Hold so many bytes more. Returns whether there is room for them."""
        own = self._held[holder] + size
        if holder != TRUSTED and own > self._share:
            return False
        if own > _OWN_BODIES and self.held + size > self._most:
            return False
        self._held[holder] = own
        return True

    def give_back(self, holder: Holder, size: int) -> None:
        """Hold so many bytes less."""
        self._held[holder] -= size
        if self._held[holder] <= 0:
            del self._held[holder]
