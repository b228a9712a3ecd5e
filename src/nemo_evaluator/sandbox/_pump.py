"""The pipes of one command: output handed over as it comes and kept within a cap, its end reported on a pipe."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from typing import IO, Final

import uvloop

_CHUNK: Final = 1 << 16
# Reads in one turn of the loop: a command that floods us must not hold up the others.
_TURNS: Final = 16


class Capped:
    """Keeps the first and the last half of a stream, in at most ``cap`` bytes."""

    def __init__(self, cap: int) -> None:
        self._head_cap = cap - cap // 2
        self._tail_cap = cap // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Take in more of the stream."""
        self._total += len(data)
        room = self._head_cap - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[: max(0, len(self._tail) - self._tail_cap)]

    @property
    def truncated(self) -> bool:
        """True when something was left out."""
        return self._total > self._head_cap + self._tail_cap

    def text(self) -> str:
        """What was kept, as text; bytes that are not UTF-8 become U+FFFD."""
        if not self.truncated:
            return (self._head + self._tail).decode("utf-8", "replace")
        left_out = self._total - len(self._head) - len(self._tail)
        head, tail = (part.decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n[... {left_out} bytes left out ...]\n{tail}"


class Pump(contextlib.AbstractContextManager["Pump"]):
    """Makes the pipes of a command and reads our ends of them; these are closed on leaving."""

    def __init__(self, emit: Callable[[str, bytes], None]) -> None:
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._near: dict[int, str] = {}
        self._reported: asyncio.Future[None] = self._loop.create_future()
        self._drained: asyncio.Future[None] = self._loop.create_future()
        # What the command's init said at its end; empty when it was killed.
        self.report = b""

    def __exit__(self, *_error: object) -> None:
        for fd in list(self._near):
            self._forget(fd)

    @contextlib.contextmanager
    def far_ends(
        self, stdin: bytes | IO[bytes] | int | None, owner: int | None = None
    ) -> Iterator[list[int]]:
        """The command's ends (stdin, stdout, stderr, report) to start it with. They are closed on our side afterwards,
        so that we see when it has closed its own. ``stdin`` may be a descriptor, which becomes ours."""
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
        """Wait until the command's init has said how it ended, or is gone."""
        await asyncio.shield(self._reported)

    async def drained(self) -> None:
        """Wait until the command and all that it started have closed their output."""
        await asyncio.shield(self._drained)

    def drain_now(self) -> None:
        """Take what lies in the pipes without waiting for more."""
        for fd in list(self._near):
            self._ready(fd)

    def _ready(self, fd: int) -> None:
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
                # One short write: it is here as a whole, and its writer may take a while to be gone.
                self.report += data
                if not self._reported.done():
                    self._reported.set_result(None)
            else:
                self._emit(name, data)

    def _forget(self, fd: int) -> None:
        name = self._near.pop(fd)
        self._loop.remove_reader(fd)
        os.close(fd)
        if name == "report" and not self._reported.done():
            self._reported.set_result(None)
        if not any(name != "report" for name in self._near.values()) and not self._drained.done():
            self._drained.set_result(None)


def _input(stdin: bytes | IO[bytes] | int | None, owner: int | None) -> int:
    if stdin is None or isinstance(stdin, int):
        if stdin is None:
            return os.open(os.devnull, os.O_RDONLY)
        return stdin
    if not isinstance(stdin, bytes):
        return os.dup(stdin.fileno())
    fd = os.memfd_create("nel-stdin", os.MFD_CLOEXEC)
    if owner is not None:
        with contextlib.suppress(PermissionError):
            os.fchown(fd, owner, owner)
    left = memoryview(stdin)
    while left:
        left = left[os.write(fd, left) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


async def stdin_pipe() -> tuple[int, asyncio.StreamWriter]:
    """(descriptor for the command, writer): never a file, which the command could read again from its beginning."""
    far, near = os.pipe()
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    # uvloop closes the descriptor and then the file: a file that owned it would close what another thread has opened
    # meanwhile under its number. asyncio's own loop closes the file alone.
    owned = not isinstance(loop, uvloop.Loop)
    transport, _ = await loop.connect_write_pipe(
        lambda: protocol, os.fdopen(near, "wb", 0, closefd=owned)
    )
    return far, asyncio.StreamWriter(transport, protocol, None, loop)
