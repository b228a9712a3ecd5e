"""The journal: an append-only file of JSON lines that is the truth of a run.

One writer. Records are handed over without waiting and written together at the end of the event loop's turn, so
that an answer is in the file before anything else happens with it; the file is synced a few times a second.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import orjson

from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.core.types import JsonDict

_SYNC_EVERY: Final = 0.5
_CHUNK: Final = 1 << 20


class JournalError(NelError):
    """The journal cannot be written: the run must stop, since what it would do next would be lost."""

    exit_code = 2


class Journal:
    """The open journal of a running benchmark."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock()
        self.repaired = _repair(self._fd)
        self._end = os.fstat(self._fd).st_size
        self._lines: list[bytes] = []
        self._callbacks: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sync_handle: asyncio.TimerHandle | None = None
        self.error: JournalError | None = None

    def append(self, record: JsonDict, written: Callable[[], None] | None = None) -> int:
        """Hand a record over; returns its offset. ``written`` is called once it is in the file."""
        if self.error is not None:
            raise self.error
        line = scrub_json(dumps(record)) + b"\n"
        offset = self._end
        self._end += len(line)
        self._lines.append(line)
        if written is not None:
            self._callbacks.append(written)
        if len(self._lines) == 1:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self.flush)
        return offset

    def append_now(self, record: JsonDict) -> int:
        """Write a record at once, where no event loop runs."""
        line = scrub_json(dumps(record)) + b"\n"
        offset = self._end
        self._end += len(line)
        _write_all(self._fd, line)
        return offset

    def flush(self) -> None:
        """Write what was handed over."""
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        callbacks, self._callbacks = self._callbacks, []
        try:
            _write_all(self._fd, b"".join(lines))
        except OSError as error:
            hint = "free some space or choose another output folder, then run again with --resume"
            self.error = JournalError(f"cannot write {self.path}: {error.strerror}", hint=hint)
            return
        for callback in callbacks:
            callback()
        if self._sync_handle is None and self._loop is not None:
            self._sync_handle = self._loop.call_later(_SYNC_EVERY, self._sync_soon)

    def read_at(self, offset: int) -> JsonDict:
        """The record at an offset."""
        self.flush()
        return read_record(self._fd, offset)

    def scan(self) -> Iterator[tuple[int, JsonDict]]:
        """Every record with its offset, in the order of writing."""
        self.flush()
        yield from scan_records(self.path)

    def close(self) -> None:
        """Write and sync what is left, and let go of the file."""
        if self._fd < 0:
            return
        self.flush()
        if self._sync_handle is not None:
            self._sync_handle.cancel()
        os.fsync(self._fd)
        os.close(self._fd)
        self._fd = -1
        if self.error is not None:
            raise self.error

    def _sync_soon(self) -> None:
        self._sync_handle = None
        if self._fd >= 0 and self._loop is not None:
            # A duplicate descriptor, so that closing the journal meanwhile cannot hand the number to another file.
            self._loop.run_in_executor(None, _sync, os.dup(self._fd))

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._fd)
            self._fd = -1
            hint = "wait for it, stop it with `nel eval stop`, or choose another output folder with -o"
            raise UsageError(f"another run is writing {self.path}", hint=hint) from error


def scan_records(path: Path) -> Iterator[tuple[int, JsonDict]]:
    """Every whole record of a journal file with its offset; lines that are not JSON are passed over."""
    offset = 0
    with path.open("rb", buffering=_CHUNK) as file:
        for line in file:
            if line.endswith(b"\n"):
                try:
                    yield offset, orjson.loads(line)
                except orjson.JSONDecodeError:
                    pass
            offset += len(line)


def read_record(fd: int, offset: int) -> JsonDict:
    """The record that starts at ``offset``."""
    size = 8192
    while True:
        data = os.pread(fd, size, offset)
        end = data.find(b"\n")
        if end >= 0:
            record: JsonDict = orjson.loads(data[:end])
            return record
        if len(data) < size:
            raise JournalError(f"no whole record at offset {offset}", hint="was the journal changed by hand?")
        size *= 8


def _repair(fd: int) -> int:
    """Cut a torn last line off; returns how many bytes were cut."""
    size = os.fstat(fd).st_size
    if size == 0 or os.pread(fd, 1, size - 1) == b"\n":
        return 0
    end = size
    while end > 0:
        start = max(0, end - _CHUNK)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            os.ftruncate(fd, start + found + 1)
            return size - (start + found + 1)
        end = start
    os.ftruncate(fd, 0)
    return size


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync(fd: int) -> None:
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
