"""The journal: an append-only file of JSON lines, the source of truth of a run.

Only one process writes it. Records are queued without waiting and written together at the end of the event loop's
turn, so that an answer is in the file before anything else happens with it. The file is synced a few times a second.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

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

    from nemo_evaluator.store.journal_record import AnswerRecord, OutcomeRecord
else:
    # Reading a journal needs no event loop.
    asyncio = Lazy("asyncio")

# The permissions of a file until those of the journal are set.
_PRIVATE: Final = 0o600
_SYNC_EVERY: Final = 0.5
_CHUNK: Final = 1 << 20
# Usually enough for an answer and its outcome, which mostly follow each other.
_BLOCK: Final = 1 << 12


class Listener(Protocol):
    """Follows a journal: receives each queued record, and may provide work for the thread that syncs the file."""

    def note(self, offset: int, length: int, record: Mapping[str, Any]) -> None:
        """Receive a record that was queued at ``offset`` and takes ``length`` bytes."""

    def batch(self) -> Callable[[], None] | None:
        """Return work that is due, or None."""


class Journal:
    """The open journal of a running benchmark.

    Attributes:
        path: The file.
        repaired: The number of bytes that were cut off a torn last line.
        error: The error that stopped writing, if there was one.
        listener: Receives each queued record.
        checksum: The checksum of the record that was queued last.
    """

    def __init__(self, path: Path, *, mode: int = 0o644) -> None:
        """Open a journal for writing, create it if necessary, and cut off a torn last line.

        Args:
            path: The file.
            mode: The permissions of a new file.

        Raises:
            UsageError: Another process writes the journal.
        """
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
        # The checksum of the record that was queued last.
        self.checksum = ""
        # The offset and the bytes of the block that was read last.
        self._block = (0, b"")

    def append(self, record: Mapping[str, Any], written: Callable[[], None] | None = None) -> int:
        """Queue a record.

        Args:
            record: The record to write.
            written: Called once the record is in the file.

        Returns:
            The offset of the record.

        Raises:
            JournalError: An earlier write failed.
        """
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
        """Write all queued records to the file; a failure is stored in ``error``."""
        if not self._lines:
            return
        lines = self._lines
        self._lines = []
        callbacks = self._callbacks
        self._callbacks = []
        try:
            unwritten = memoryview(b"".join(lines))
            while unwritten:
                unwritten = unwritten[os.write(self._fd, unwritten) :]
        except OSError as error:
            self._broken(error)
            return
        for callback in callbacks:
            callback()
        if self._sync_handle is None and self._loop is not None:
            self._sync_handle = self._loop.call_later(_SYNC_EVERY, self._sync_soon)

    def sync(self) -> None:
        """Write all queued records and sync the file now.

        Raises:
            JournalError: A write failed.
        """
        self.flush()
        if self.error is None:
            os.fsync(self._fd)
        else:
            raise self.error

    def answer_at(self, offset: int) -> AnswerRecord:
        """Return the record of an answer; see ``read_at``."""
        return cast("AnswerRecord", self.read_at(offset))

    def outcome_at(self, offset: int) -> OutcomeRecord:
        """Return the record of an outcome; see ``read_at``."""
        return cast("OutcomeRecord", self.read_at(offset))

    def read_at(self, offset: int) -> JsonDict:
        """Return the record at an offset.

        Raises:
            JournalError: There is no whole record at that offset.
        """
        if self._lines:
            self.flush()
        block_start, block = self._block
        if not block_start <= offset < block_start + len(block):
            block_start = offset
            block = os.pread(self._fd, _BLOCK, offset)
            self._block = (block_start, block)
        end = block.find(b"\n", offset - block_start) + 1
        if end:
            record = open_line(block[offset - block_start : end])
            if record is not None:
                return record
        # The line is longer than the block, or damaged.
        return read_record(self._fd, offset)

    def scan(
        self, damaged: Callable[[Damage], None] | None = None
    ) -> Iterator[tuple[int, JsonDict]]:
        """Yield every record with its offset, in the order of writing.

        Args:
            damaged: Called with each damaged line.
        """
        self.flush()
        yield from scan_records(self.path, damaged)

    def set_damage_aside(self, damage: Sequence[Damage]) -> None:
        """Move damaged lines from the journal to ``journal.damaged.jsonl``, with the permissions of the journal."""
        damaged_numbers = {entry.line for entry in damage}
        repaired = self.path.with_name(f".{self.path.name}.repaired")
        permissions = stat.S_IMODE(os.fstat(self._fd).st_mode)
        opener = partial(os.open, mode=_PRIVATE)
        with (
            self.path.open("rb") as journal_file,
            open(repaired, "wb", opener=opener) as good_file,
            open(damaged_lines(self.path), "ab", opener=opener) as damaged_file,
        ):
            os.fchmod(good_file.fileno(), permissions)
            os.fchmod(damaged_file.fileno(), permissions)
            for number, line in enumerate(journal_file, 1):
                if number in damaged_numbers:
                    damaged_file.write(line)
                else:
                    good_file.write(line)
            good_file.flush()
            os.fsync(good_file.fileno())
        repaired.replace(self.path)
        # Its offsets are those of the old file.
        self.path.with_name("index.sqlite").unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = self._open()
        self._block = (0, b"")
        self._end = os.fstat(self._fd).st_size

    def close(self) -> None:
        """Write and sync the remaining records, and close the file.

        Raises:
            JournalError: A write failed.
        """
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
        """Stop writing because of an error; later calls raise it."""
        problem = storage_error(error, self.path)
        self.error = JournalError(problem.message, hint=problem.hint)

    def _sync_soon(self) -> None:
        """Sync the file in another thread, together with the work that the listener has due."""
        self._sync_handle = None
        if self._fd < 0 or self._loop is None:
            return
        work = None if self.listener is None else self.listener.batch()
        try:
            # A duplicate descriptor, so that closing the journal meanwhile cannot hand the number to another file.
            self._loop.run_in_executor(None, _sync, os.dup(self._fd), work)
        except OSError as error:  # No descriptor is left; the next request reports it.
            self._broken(error)

    def _open(self) -> int:
        """Open and lock the file.

        Raises:
            UsageError: Another process holds the lock.
        """
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
    """Return the path of the file that keeps a journal's damaged lines."""
    return journal.with_suffix(".damaged.jsonl")


def _repair(fd: int) -> int:
    """Cut off a torn last line; returns the number of bytes removed."""
    size = os.fstat(fd).st_size
    if size == 0 or os.pread(fd, 1, size - 1) == b"\n":
        return 0
    end = size
    while end > 0:
        start = max(0, end - _CHUNK)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            whole_lines = start + newline + 1
            os.ftruncate(fd, whole_lines)
            return size - whole_lines
        end = start
    os.ftruncate(fd, 0)
    return size


def _sync(fd: int, work: Callable[[], None] | None) -> None:
    """Sync and close a descriptor, then do the listener's work."""
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    if work is not None:
        work()
