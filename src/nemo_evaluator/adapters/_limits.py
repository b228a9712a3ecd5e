"""How much of a server one holder may take: connections, and memory for bodies.

A holder is a session, or an address whose session is not known yet. When the server runs out, the holder with the most
loses a connection, and the others continue.
"""

from collections import Counter
from typing import Final, Protocol, TypeAlias

from nemo_evaluator.core.open_files import raise_limit

#: A kind ("session", "address") and a name.
Holder: TypeAlias = tuple[str, str]

#: The holder of the proxy's token: the user, who is limited only by what the server has.
TRUSTED: Final[Holder] = ("token", "")

# One in so many of the files that the process may open is a connection.
_SHARE_OF_FILES: Final = 4
_MOST_CONNECTIONS: Final = 8192
_FEWEST_CONNECTIONS: Final = 16
#: Simultaneous connections of one session.
SESSION_CONNECTIONS: Final = 256
#: Bytes of bodies that a server holds for all, and for one session.
ALL_BODIES: Final = 256 * 2**20
SESSION_BODIES: Final = 96 * 2**20
# What a session gets even while others hold everything.
_GUARANTEED_BODIES: Final = 2 * 2**20


class Closable(Protocol):
    """A connection as the table sees it."""

    def drop(self) -> None:
        """Close the connection immediately."""


class ConnectionTable:
    """The open connections of one server, by holder.

    Attributes:
        most: The largest number of connections that the server keeps open.
    """

    def __init__(self) -> None:
        """Find out how many connections the process can have."""
        share = raise_limit() // _SHARE_OF_FILES
        self.most = max(_FEWEST_CONNECTIONS, min(_MOST_CONNECTIONS, share))
        # Oldest first.
        self._open: dict[Holder, dict[Closable, None]] = {}
        self._count = 0

    def add(self, holder: Holder, connection: Closable) -> bool:
        """Add a new connection; another one may be closed for it.

        Returns:
            Whether the new connection may stay.
        """
        own_connections = self._open.get(holder, {})
        if len(own_connections) >= self.most // 2:
            # Connections that never named their session: the oldest one has had its time.
            self._drop(holder, next(iter(own_connections)))
        elif self._count >= self.most:
            largest = max(self._open, key=lambda candidate: len(self._open[candidate]))
            if largest == holder:
                return False
            newest = next(reversed(self._open[largest]))
            self._drop(largest, newest)
        self._insert(holder, connection)
        return True

    def rename(self, before: Holder, after: Holder, connection: Closable, most: int | None) -> bool:
        """Move a connection to the holder that it turned out to belong to.

        Args:
            before: The holder so far.
            after: The new holder.
            connection: The connection.
            most: The number of simultaneous connections the new holder may have; None for no limit.

        Returns:
            Whether the new holder may have one more connection.
        """
        if before == after:
            return True
        if most is not None and len(self._open.get(after, ())) >= most:
            return False
        self.remove(before, connection)
        self._insert(after, connection)
        return True

    def remove(self, holder: Holder, connection: Closable) -> None:
        """Forget a closed connection."""
        own_connections = self._open.get(holder)
        if own_connections is None or connection not in own_connections:
            return
        del own_connections[connection]
        self._count -= 1
        if not own_connections:
            del self._open[holder]

    def _insert(self, holder: Holder, connection: Closable) -> None:
        self._open.setdefault(holder, {})[connection] = None
        self._count += 1

    def _drop(self, holder: Holder, connection: Closable) -> None:
        self.remove(holder, connection)
        connection.drop()


class BodyBudget:
    """Limits the memory for the bodies that a server reads, parses and forwards."""

    def __init__(self, most: int = ALL_BODIES, share: int = SESSION_BODIES) -> None:
        """Start with nothing held.

        Args:
            most: Bytes for all holders.
            share: Bytes for one holder.
        """
        self._most = most
        self._share = share
        self._held: Counter[Holder] = Counter()

    @property
    def held(self) -> int:
        """Return how many bytes are reserved now."""
        return sum(self._held.values())

    def take(self, holder: Holder, size: int) -> bool:
        """Reserve ``size`` more bytes. Returns whether there is room for them."""
        own_bytes = self._held[holder] + size
        if holder != TRUSTED and own_bytes > self._share:
            return False
        if own_bytes > _GUARANTEED_BODIES and self.held + size > self._most:
            return False
        self._held[holder] = own_bytes
        return True

    def give_back(self, holder: Holder, size: int) -> None:
        """Release ``size`` bytes."""
        self._held[holder] -= size
        if self._held[holder] <= 0:
            del self._held[holder]
