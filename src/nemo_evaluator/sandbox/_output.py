"""Output of a command: head and tail are kept within a cap, any bytes become text."""

from collections import deque


class Capped:
    """Keeps the first and the last half of a stream, in at most ``cap`` bytes."""

    __slots__ = ("_head", "_head_size", "_tail", "_tail_cap", "_tail_size", "total")

    def __init__(self, cap: int) -> None:
        self._head_size = max(0, cap - cap // 2)
        self._tail_cap = cap // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take in more of the stream."""
        self.total += len(data)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_cap:
            self._tail_size -= len(self._tail.popleft())

    @property
    def truncated(self) -> bool:
        """True when something was left out."""
        return self.total > self._head_size + self._tail_cap

    def text(self) -> str:
        """What was kept, as text; bytes that are not UTF-8 become U+FFFD."""
        tail = b"".join(self._tail)
        if not self.truncated:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        tail = tail[-self._tail_cap :] if self._tail_cap else b""
        left_out = self.total - len(self._head) - len(tail)
        head = self._head.decode("utf-8", "replace")
        return f"{head}\n[... {left_out} bytes left out ...]\n{tail.decode('utf-8', 'replace')}"
