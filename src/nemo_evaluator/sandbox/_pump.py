"""The pipes of one command: its output is passed on as it arrives; its init reports its end on a pipe of its own."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from typing import IO, Final

import uvloop

_CHUNK: Final = 1 << 16
# Reads in one turn of the loop: a command with endless output must not block the others.
_TURNS: Final = 16


class Capped:
    """Keeps the beginning and the end of a stream, in at most ``cap`` bytes."""

    def __init__(self, cap: int) -> None:
        self._head_cap = cap - cap // 2
        self._tail_cap = cap // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Add more of the stream."""
        self._total += len(data)
        head_room = self._head_cap - len(self._head)
        self._head += data[:head_room]
        self._tail += data[head_room:]
        excess = max(0, len(self._tail) - self._tail_cap)
        del self._tail[:excess]

    @property
    def truncated(self) -> bool:
        """Whether a part of the stream was left out."""
        return self._total > self._head_cap + self._tail_cap

    def text(self) -> str:
        """The beginning and the end as text; bytes that are not UTF-8 become U+FFFD."""
        if not self.truncated:
            return (self._head + self._tail).decode("utf-8", "replace")
        left_out = self._total - len(self._head) - len(self._tail)
        head = self._head.decode("utf-8", "replace")
        tail = self._tail.decode("utf-8", "replace")
        return f"{head}\n[... {left_out} bytes left out ...]\n{tail}"


class Pump(contextlib.AbstractContextManager["Pump"]):
    """Creates the pipes of a command and reads from our ends, which are closed on leaving the context.

    Args:
        emit: Called with "stdout" or "stderr" and bytes as they arrive.

    Attributes:
        report: What the command's init reported at its end; empty when it was killed.
    """

    def __init__(self, emit: Callable[[str, bytes], None]) -> None:
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._near: dict[int, str] = {}
        self._reported: asyncio.Future[None] = self._loop.create_future()
        self._drained: asyncio.Future[None] = self._loop.create_future()
        self.report = b""

    def __exit__(self, *_error: object) -> None:
        for fd in list(self._near):
            self._forget(fd)

    @contextlib.contextmanager
    def far_ends(
        self, stdin: bytes | IO[bytes] | int | None, owner: int | None = None
    ) -> Iterator[list[int]]:
        """The command's ends, to start it with. Our copies are closed afterwards, so that we notice when the command
        has closed its own.

        Args:
            stdin: The command's input; a descriptor is closed as well.
            owner: The user id that the command runs as, if that is not our own.

        Yields:
            The descriptors of stdin, stdout, stderr and the report.
        """
        far = [_input(stdin, owner)]
        try:
            for name in ("stdout", "stderr", "report"):
                near, end = os.pipe()
                far.append(end)
                os.set_blocking(near, False)
                if owner is not None and name != "report":
                    # So that the command may open /dev/stdout and /dev/stderr by name.
                    os.fchown(end, owner, owner)
                self._near[near] = name
                self._loop.add_reader(near, self._ready, near)
            yield far
        finally:
            for fd in far:
                os.close(fd)

    async def reported(self) -> None:
        """Wait until the command's init has reported its end, or is gone."""
        await asyncio.shield(self._reported)

    async def drained(self) -> None:
        """Wait until the command and all that it started have closed their output."""
        await asyncio.shield(self._drained)

    def drain_now(self) -> None:
        """Read what the pipes hold, without waiting for more."""
        for fd in list(self._near):
            self._ready(fd)

    def _ready(self, fd: int) -> None:
        """Read from a pipe until it is empty or closed, at most a few pieces at once."""
        name = self._near.get(fd)
        if name is None:
            return
        for _ in range(_TURNS):
            try:
                data = os.read(fd, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                return self._forget(fd)
            if name == "report":
                # One short write arrives as a whole; its writer may take a while to end.
                self.report += data
                _resolve(self._reported)
            else:
                self._emit(name, data)

    def _forget(self, fd: int) -> None:
        name = self._near.pop(fd)
        self._loop.remove_reader(fd)
        os.close(fd)
        if name == "report":
            _resolve(self._reported)
        open_streams = set(self._near.values()) - {"report"}
        if not open_streams:
            _resolve(self._drained)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _input(stdin: bytes | IO[bytes] | int | None, owner: int | None) -> int:
    """A descriptor from which a command reads its input."""
    if stdin is None:
        return os.open(os.devnull, os.O_RDONLY)
    if isinstance(stdin, int):
        return stdin
    if not isinstance(stdin, bytes):
        return os.dup(stdin.fileno())
    fd = os.memfd_create("nel-stdin", os.MFD_CLOEXEC)
    if owner is not None:
        with contextlib.suppress(PermissionError):
            os.fchown(fd, owner, owner)
    unwritten = memoryview(stdin)
    while unwritten:
        written = os.write(fd, unwritten)
        unwritten = unwritten[written:]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


async def stdin_pipe() -> tuple[int, asyncio.StreamWriter]:
    """A pipe for the input of a command: a file could be read again from its beginning.

    Returns:
        The reading end, for the command, and a writer.
    """
    reading_end, writing_end = os.pipe()
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    # uvloop closes the descriptor and then the file: a file that owned it could close another file, which a thread has
    # opened meanwhile under the same number. asyncio's own loop closes the file alone.
    file_owns_fd = not isinstance(loop, uvloop.Loop)
    file = os.fdopen(writing_end, "wb", 0, closefd=file_owns_fd)
    transport, _ = await loop.connect_write_pipe(lambda: protocol, file)
    return reading_end, asyncio.StreamWriter(transport, protocol, None, loop)
