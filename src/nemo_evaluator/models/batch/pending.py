"""The requests that wait for the next batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from time import monotonic


class PendingRequests:
    """Requests that are not in a batch yet, oldest first.

    Args:
        most: How many requests a batch may have.
        largest: How many bytes make a batch full.

    Attributes:
        most: How many requests a batch may have.
        first_at: When the oldest of the requests arrived, by the monotonic clock.
    """

    def __init__(self, most: int, largest: int) -> None:
        self.most = most
        self.first_at = 0.0
        self._largest = largest
        self._requests: deque[tuple[str, bytes]] = deque()
        self._size = 0

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def ids(self) -> list[str]:
        """The ids of the requests."""
        return [custom_id for custom_id, _ in self._requests]

    @property
    def full(self) -> bool:
        """Whether the requests fill a batch."""
        return len(self._requests) >= self.most or self._size >= self._largest

    def add(self, custom_id: str, line: bytes) -> None:
        """Add a request.

        Args:
            custom_id: Its id.
            line: The request in the form of the vendor.
        """
        if not self._requests:
            self.first_at = monotonic()
        self._requests.append((custom_id, line))
        self._size += len(line)

    def take(self, waiting: Container[str]) -> dict[str, bytes]:
        """Remove the oldest requests, and return those for one batch: lines by id.

        Args:
            waiting: The ids of the requests whose caller still waits; the others are dropped.
        """
        lines: dict[str, bytes] = {}
        while self._requests and len(lines) < self.most:
            custom_id, line = self._requests.popleft()
            self._size -= len(line)
            if custom_id in waiting:
                lines[custom_id] = line
        return lines

    def clear(self) -> None:
        """Drop all requests."""
        self._requests.clear()
        self._size = 0
