"""The index beside the rows: where each row is and the fields to look it up by, in pieces in SQLite.

While a run writes, the index covers the journal and the run updates it; afterwards it covers ``results.jsonl``. It
contains nothing that cannot be read again: an index that is missing, older than its source, broken, edited or written
by somebody else is rebuilt. Readers and the run may write it at the same time, because each write is accepted only if
it continues what the index already has.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from nemo_evaluator.core.files import lines_from
from nemo_evaluator.runs.index_apart import LARGE, entries_of, pieces_apart
from nemo_evaluator.runs.index_entry import Entry, journal_entry
from nemo_evaluator.runs.index_file import (
    Covers,
    append_rows,
    begin_index,
    checked_covers,
    connect,
    connect_to_read,
    empty_index,
    opened,
    settle_rows,
)
from nemo_evaluator.runs.index_piece import MOST_ROWS, Codes, Piece, packed
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.lock import holder_of
from nemo_evaluator.store.sealed import open_line

if TYPE_CHECKING:
    from nemo_evaluator.store.journal import Journal

# How often a run writes the new records of its journal to the index, in seconds.
_EVERY: Final = 2.0
_TRIES: Final = 3
# Records become entries in batches of this many bytes: one by one, between other work, each takes twice as long.
_TOGETHER: Final = 1 << 16
# Rows to write: the byte of the source where they start, what the index covers after them, and a function that makes
# them.
_Batch: TypeAlias = tuple[int, Covers, Callable[[Codes], Piece]]


class IndexWriter:
    """Follows a journal and writes its rows to the index from time to time."""

    def __init__(self, task: TaskPaths) -> None:
        """Start without records; ``take`` reads those that are already in the journal."""
        self._task = task
        # Answers that still wait for their outcome, and the entries of finished rows.
        self._answers = dict[int, Entry]()
        self._entries = list[Entry]()
        # Records that have not become entries yet begin at ``_entered``.
        self._noted = list[tuple[int, int, Mapping[str, Any]]]()
        self._begin = self._entered = self._end = 0
        self._due = 0.0
        self._lock = threading.Lock()

    def note(self, offset: int, length: int, record: Mapping[str, Any]) -> None:
        """Add a record of the journal."""
        self._noted.append((offset, length, record))
        self._end = offset + length
        if self._end - self._entered > _TOGETHER:
            self._enter()

    def _enter(self) -> None:
        """Turn the records that were added into entries."""
        answers = self._answers
        entries = self._entries
        for offset, length, record in self._noted:
            entry = journal_entry(answers, offset, length, record)
            if entry is not None:
                entries.append(entry)
        self._noted = []
        self._entered = self._end

    def take(self, start: int) -> Iterator[_Batch]:
        """Add the records of the journal from byte ``start`` on; yields batches to write."""
        self._begin = self._entered = self._end = start
        for offset, line in lines_from(self._task.journal, start):
            if not line.endswith(b"\n"):
                break
            record = open_line(line)
            if record is not None:
                self.note(offset, len(line), record)
            self._end = offset + len(line)
            if len(self._entries) >= MOST_ROWS:
                yield self._batch()
        yield self._batch()

    def batch(self) -> Callable[[], None] | None:
        """Return a function that writes the new rows, for another thread to call; None until a write is due."""
        if not (self._entries or self._noted) or time.monotonic() < self._due:
            return None
        self._due = time.monotonic() + _EVERY
        return partial(self._write, self._batch())

    def flush(self) -> None:
        """Write the new rows now."""
        self._write(self._batch())

    def _batch(self) -> _Batch:
        """Return the new rows as a batch and start the next one."""
        self._enter()
        entries = self._entries
        start = self._begin
        end = self._end
        self._entries = []
        self._begin = end
        # A later reader must continue at the first answer that waits for its outcome.
        resume_offset = min((answer[0] for answer in self._answers.values()), default=end)
        journal = self._task.journal
        covers = Covers(journal.name, resume_offset, end, state=state_of(journal.stat()))
        return start, covers, partial(packed, entries)

    def _write(self, batch: _Batch) -> None:
        """Write a batch to the index."""
        # Rows that cannot be written are safe in the journal: the next reader continues where the index ends.
        with self._lock, suppress(sqlite3.Error), opened(self._task.index) as db:
            append_rows(db, *batch)


def open_index(task: TaskPaths) -> tuple[sqlite3.Connection, Path]:
    """Open the current index of a benchmark's folder, in memory if the folder is not writable.

    The data seen through the connection does not change until it is closed. A run cannot write its index meanwhile, so
    close the connection soon, or use ``index_snapshot``.

    Returns:
        The connection, and the file that the index covers.
    """
    source = _source(task)
    if _refresh(task, source):
        with suppress(sqlite3.Error, OSError):
            return _begin_reading(task, source), source
    memory = connect(":memory:")
    begin_index(memory, source)
    for batch in _batches(task, source, 0):
        append_rows(memory, *batch)
    return memory, source


def _begin_reading(task: TaskPaths, source: Path) -> sqlite3.Connection:
    """Open a read transaction on the index and check the index within it."""
    db = connect_to_read(task.index)
    try:
        db.execute("BEGIN")
        if checked_covers(db).name != source.name:
            raise sqlite3.DatabaseError("another process has put another index in its place")
    except sqlite3.Error:
        db.close()
        raise
    return db


def settle_index(task: TaskPaths, rows: int) -> None:
    """Let the index of the journal stand for the rows that were just written, if it has as many rows."""
    # A reader may replace the index at any moment; the new one is then settled.
    for _ in range(_TRIES):
        with suppress(sqlite3.Error):
            if _refresh(task, task.journal):
                stamp = task.results.stat().st_mtime_ns
                with opened(task.index) as db:
                    settle_rows(db, rows=rows, stamp=stamp, state=_settled_state(task))
                return


def state_of(stat: os.stat_result) -> str:
    """Return a text that identifies this version of a file, unlike its name and modification time.

    Unpacking an archive can set the modification time at will, but neither the inode nor the change time.
    """
    return f"{stat.st_ino}.{stat.st_ctime_ns}"


def _settled_state(task: TaskPaths) -> str:
    """Return the states of the journal and the rows together."""
    return f"{state_of(task.journal.stat())} {state_of(task.results.stat())}"


def _source(task: TaskPaths) -> Path:
    """Return the file that the index covers: the rows if they are complete, otherwise the journal.

    The journal is also used for complete rows if its index stands for them.
    """
    if not task.journal.is_file():
        return task.results
    if not task.results.is_file():
        return task.journal
    journal = task.journal.stat()
    results = task.results.stat()
    if results.st_mtime_ns < journal.st_mtime_ns:
        return task.journal
    covers = _covers(task)
    stands_for_rows = (
        covers.name == task.journal.name
        and covers.known == journal.st_size
        and covers.stamp == results.st_mtime_ns
        and covers.state == _settled_state(task)
    )
    return task.journal if stands_for_rows else task.results


@contextmanager
def kept_index(task: TaskPaths, journal: Journal) -> Iterator[None]:
    """Keep the index current while a journal is written; a folder that is not writable has no index."""
    journal.flush()
    _refresh(task, task.journal)
    writer = IndexWriter(task)
    for batch in writer.take(_covers(task).upto):
        # These rows are already in the index; only the waiting answers are needed.
        del batch
    journal.listener = writer
    try:
        yield
    finally:
        journal.listener = None
        journal.flush()
        writer.flush()


def _refresh(task: TaskPaths, source: Path) -> bool:
    """Bring the index up to date, one process at a time; returns whether that worked."""
    try:
        with _alone(task.root):
            covers = _covers(task)
            if not _fits(task, source, covers):
                _start(task, source, covers)
                covers = Covers(source.name)
            if not source.is_file() or covers.known == source.stat().st_size:
                return True
            with opened(task.index) as db:
                return all(append_rows(db, *batch) for batch in _batches(task, source, covers.upto))
    except (sqlite3.Error, OSError):
        return False


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so that other processes do not build the index; a disk without locks is used without."""
    folder_fd = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(folder_fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder_fd)


def _start(task: TaskPaths, source: Path, covers: Covers) -> None:
    """Begin an empty index; rows that a run writes to the old one are refused or lost, and read again."""
    if covers.name:
        with suppress(sqlite3.DatabaseError), opened(task.index) as db:
            empty_index(db, source)
            return
    remove_index(task)
    with opened(task.index) as db:
        begin_index(db, source)


def remove_index(task: TaskPaths) -> None:
    """Remove the index and the files of an interrupted write; it is rebuilt when it is needed."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        task.index.with_name(task.index.name + suffix).unlink(missing_ok=True)


def _batches(task: TaskPaths, source: Path, start: int) -> Iterator[_Batch]:
    """Yield the rows of a source from byte ``start`` on, in batches to write."""
    if not source.is_file():
        return
    if source == task.journal:
        yield from IndexWriter(task).take(start)
        return
    stat = source.stat()
    batch_start = start
    if stat.st_size - start > LARGE:
        for piece, end in pieces_apart(source, start, stat.st_size):
            yield batch_start, Covers(source.name, end, end), piece
            batch_start = end
    entries = list[Entry]()
    end = batch_start
    for end, entry in entries_of(source, batch_start, stat.st_size):
        if entry is not None:
            entries.append(entry)
        if len(entries) == MOST_ROWS:
            yield batch_start, Covers(source.name, end, end), partial(packed, entries)
            entries = []
            batch_start = end
    covers = Covers(
        source.name, stat.st_size, stat.st_size, stamp=stat.st_mtime_ns, state=state_of(stat)
    )
    yield batch_start, covers, partial(packed, entries)


def _fits(task: TaskPaths, source: Path, covers: Covers) -> bool:
    """Return whether the index covers this source and can be continued."""
    if covers.name != source.name or not source.is_file():
        return covers.name == source.name
    stat = source.stat()
    if source == task.results:
        same_size = covers.known == stat.st_size
        return same_size and covers.stamp == stat.st_mtime_ns and covers.state == state_of(stat)
    if covers.known == 0:
        return True
    journal_state = covers.state.partition(" ")[0]
    if covers.known > stat.st_size or not _same_file(journal_state, stat):
        return False
    if covers.known < stat.st_size:
        # The run has added records since.
        return True
    # The time of the last change is that of the index, unless a run is just writing.
    return journal_state == state_of(stat) or _is_written(task)


def _same_file(state: str, stat: os.stat_result) -> bool:
    """Return whether a state has the inode of ``stat``."""
    return state.partition(".")[0] == str(stat.st_ino)


def _is_written(task: TaskPaths) -> bool:
    """Return whether a run writes to the folder or to its parent."""
    return holder_of(task.root) is not None or holder_of(task.root.parent) is not None


def _covers(task: TaskPaths) -> Covers:
    """Return what the index covers; empty without an index, or if this user's nel did not write it as it is."""
    with suppress(sqlite3.DatabaseError, OSError), closing(connect_to_read(task.index)) as db:
        db.execute("BEGIN")
        return checked_covers(db)
    return Covers()
