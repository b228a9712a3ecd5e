"""The journal: an append-only file of JSON lines that is the truth of a run.

One writer. Records are handed over without waiting and written together at the end of the event loop's turn, so
that an answer is in the file before anything else happens with it; the file is synced a few times a second.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.lazy import Lazy
from nemo_evaluator.core.storage import storage_error
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.store.sealed import (
    Damage,
    JournalError,
    open_line,
    read_record,
    scan_records,
    seal,
)

if TYPE_CHECKING:
    import asyncio
else:
    # Who only reads a journal needs no event loop.
    asyncio = Lazy("asyncio")

_SYNC_EVERY: Final = 0.5
_CHUNK: Final = 1 << 20
# An answer and its outcome, which mostly stand one behind the other.
_BLOCK: Final = 1 << 12


class Listener(Protocol):
    """Follows a journal: sees each record as it is handed over, and may have work for the thread that syncs."""

    def note(self, offset: int, length: int, record: JsonDict) -> None:
        """A record was handed over."""

    def batch(self) -> Callable[[], None] | None:
        """Work that is due."""


class Journal:
    """The open journal of a running benchmark."""

    def __init__(self, path: Path, *, mode: int = 0o644) -> None:
        self.path = path
        self._mode = mode
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = self._open()
        self.repaired = _repair(self._fd)
        self._end = os.fstat(self._fd).st_size
        self._lines: list[bytes] = []
        self._callbacks: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sync_handle: asyncio.TimerHandle | None = None
        self.error: JournalError | None = None
        self.listener: Listener | None = None
        # That of the record which was handed over last.
        self.checksum = ""
        # What was read last, and where it begins.
        self._block = (0, b"")

    def append(self, record: JsonDict, written: Callable[[], None] | None = None) -> int:
        """Hand a record over; returns its offset. ``written`` is called once it is in the file."""
        if self.error is not None:
            raise self.error
        line, self.checksum = seal(record)
        offset = self._end
        self._end += len(line)
        self._lines.append(line)
        if self.listener is not None:
            self.listener.note(offset, len(line), record)
        if written is not None:
            self._callbacks.append(written)
        if len(self._lines) == 1:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self.flush)
        return offset

    def flush(self) -> None:
        if not self._lines:
            return
        lines = self._lines
        self._lines = []
        callbacks = self._callbacks
        self._callbacks = []
        try:
            view = memoryview(b"".join(lines))
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self._broken(error)
            return
        for callback in callbacks:
            callback()
        if self._sync_handle is None and self._loop is not None:
            self._sync_handle = self._loop.call_later(_SYNC_EVERY, self._sync_soon)

    def sync(self) -> None:
        """Write and sync what was handed over, now."""
        self.flush()
        if self.error is None:
            os.fsync(self._fd)
        else:
            raise self.error

    def read_at(self, offset: int) -> JsonDict:
        if self._lines:
            self.flush()
        begin, data = self._block
        if not begin <= offset < begin + len(data):
            begin = offset
            data = os.pread(self._fd, _BLOCK, offset)
            self._block = (begin, data)
        end = data.find(b"\n", offset - begin) + 1
        if end:
            record = open_line(data[offset - begin : end])
        else:
            record = None
        if record is None:
            return read_record(self._fd, offset)
        return record

    def scan(
        self, damaged: Callable[[Damage], None] | None = None
    ) -> Iterator[tuple[int, JsonDict]]:
        """Every record with its offset, in the order of writing; damaged lines are handed to ``damaged``."""
        self.flush()
        yield from scan_records(self.path, damaged)

    def set_damage_aside(self, damage: Sequence[Damage]) -> None:
        """Take damaged lines out of the journal; they are kept in ``journal.damaged.jsonl``."""
        bad = {found.line for found in damage}
        repaired = self.path.with_name(f".{self.path.name}.repaired")
        with (
            self.path.open("rb") as old,
            repaired.open("wb") as good,
            damaged_lines(self.path).open("ab") as kept,
        ):
            for number, line in enumerate(old, 1):
                (kept if number in bad else good).write(line)
            good.flush()
            os.fsync(good.fileno())
        repaired.replace(self.path)
        # Its places are those of the old file.
        self.path.with_name("index.sqlite").unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = self._open()
        self._block = (0, b"")
        self._end = os.fstat(self._fd).st_size

    def close(self) -> None:
        """Write and sync the remaining records, and close the file."""
        if self._fd < 0:
            return
        self.flush()
        if self._sync_handle is not None:
            self._sync_handle.cancel()
        try:
            os.fsync(self._fd)
        except OSError as error:
            self._broken(error)
        os.close(self._fd)
        self._fd = -1
        if self.error is not None:
            raise self.error

    def _broken(self, error: OSError) -> None:
        why = storage_error(error, self.path)
        self.error = JournalError(why.message, hint=why.hint)

    def _sync_soon(self) -> None:
        self._sync_handle = None
        if self._fd < 0 or self._loop is None:
            return
        try:
            # A duplicate descriptor, so that closing the journal meanwhile cannot hand the number to another file.
            if self.listener is not None:
                work = self.listener.batch()
            else:
                work = None
            self._loop.run_in_executor(None, _sync, os.dup(self._fd), work)
        except OSError as error:  # No descriptor is left: what that ends, a request says.
            self._broken(error)

    def _open(self) -> int:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, self._mode)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            hint = (
                "wait for it, stop it with `nel eval stop`, or choose another output folder with -o"
            )
            raise UsageError(f"another run is writing {self.path}", hint=hint) from error
        return fd


def damaged_lines(journal: Path) -> Path:
    """Where damaged lines of a journal are kept."""
    return journal.with_suffix(".damaged.jsonl")


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


def _sync(fd: int, work: Callable[[], None] | None) -> None:
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    if work is not None:
        work()
