"""The index beside the rows: where each one is, and the fields it is looked up by, in pieces in SQLite.

While a run writes, the index covers the journal and the run keeps it; afterwards it covers ``results.jsonl``. It holds
nothing that cannot be read again: an index that is missing, older than its file, broken, edited or written by somebody
else is built anew. Whoever reads and whoever runs may write it at once: nothing is written that does not follow on what
is there.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from nemo_evaluator.core.files import lines_from
from nemo_evaluator.core.types import JsonDict
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

# How often a run writes what its journal got, in seconds.
_EVERY: Final = 2.0
_TRIES: Final = 3
# So many bytes of records become entries together: one by one, between other work, each would take twice as long.
_TOGETHER: Final = 1 << 16
# Where a stretch of the source begins, what the index covers with it, and its rows, given the words.
_Batch: TypeAlias = tuple[int, Covers, Callable[[Codes], Piece]]


class IndexWriter:
    """Follows a journal and writes what it gets, now and then."""

    def __init__(self, task: TaskPaths) -> None:
        self._task = task
        # Answers without an outcome yet, and the rows of those that have one.
        self._answers = dict[int, Entry]()
        self._entries = list[Entry]()
        # Records that are no entries yet begin at ``_entered``.
        self._noted = list[tuple[int, int, JsonDict]]()
        self._begin = self._entered = self._end = 0
        self._due = 0.0
        self._lock = threading.Lock()

    def note(self, offset: int, length: int, record: JsonDict) -> None:
        """Take in a record of the journal."""
        self._noted.append((offset, length, record))
        self._end = offset + length
        if self._end - self._entered > _TOGETHER:
            self._enter()

    def _enter(self) -> None:
        answers = self._answers
        self._entries += [
            found for noted in self._noted if (found := journal_entry(answers, *noted)) is not None
        ]
        self._noted = []
        self._entered = self._end

    def take(self, start: int) -> Iterator[_Batch]:
        """Take in what the journal has from a byte on, in batches to be written."""
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
        """The writing of what was taken in, for another thread to do; None until it is due again."""
        if not (self._entries or self._noted) or time.monotonic() < self._due:
            return None
        self._due = time.monotonic() + _EVERY
        return partial(self._write, self._batch())

    def flush(self) -> None:
        """Write what was taken in."""
        self._write(self._batch())

    def _batch(self) -> _Batch:
        self._enter()
        entries = self._entries
        begin = self._begin
        end = self._end
        self._entries = []
        self._begin = end
        # Somebody who goes on later must begin at the first answer that waits.
        upto = min((answer[0] for answer in self._answers.values()), default=end)
        journal = self._task.journal
        covers = Covers(journal.name, upto, end, state=state_of(journal.stat()))
        return begin, covers, partial(packed, entries)

    def _write(self, batch: _Batch) -> None:
        # What is not written is safe in its file: whoever reads next goes on from where the index ends.
        with self._lock, suppress(sqlite3.Error), opened(self._task.index) as db:
            append_rows(db, *batch)


def open_index(task: TaskPaths) -> tuple[sqlite3.Connection, Path]:
    """The index of a benchmark's folder, up to date, and the file it covers; in memory where nothing can be written.

    What is read through the connection does not change until it is closed. A run cannot write its index meanwhile, so
    close it soon, or see ``index_snapshot``.
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
    """A connection in a transaction, to an index that was checked within it."""
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
    """The rows were written: the index of the journal stands for them if it holds as many, and is of no use if not."""
    # A reader may put another file in its place at any moment: then that one is settled.
    for _ in range(_TRIES):
        with suppress(sqlite3.Error):
            if _refresh(task, task.journal):
                stamp = task.results.stat().st_mtime_ns
                with opened(task.index) as db:
                    settle_rows(db, rows=rows, stamp=stamp, state=_settled_state(task))
                return


def state_of(stat: os.stat_result) -> str:
    """What tells a file from another one of its name, and from itself before it was changed.

    Unpacking an archive can set the time of a change at will, but neither of these.
    """
    return f"{stat.st_ino}.{stat.st_ctime_ns}"


def _settled_state(task: TaskPaths) -> str:
    return f"{state_of(task.journal.stat())} {state_of(task.results.stat())}"


def _source(task: TaskPaths) -> Path:
    """The rows once they are whole, by way of the journal if its index stands for them; else the journal."""
    if not task.journal.is_file():
        return task.results
    if not task.results.is_file():
        return task.journal
    journal = task.journal.stat()
    results = task.results.stat()
    if results.st_mtime_ns < journal.st_mtime_ns:
        return task.journal
    covers = _covers(task)
    indexed = (covers.name, covers.known, covers.stamp, covers.state)
    settled = (task.journal.name, journal.st_size, results.st_mtime_ns, _settled_state(task))
    return task.journal if indexed == settled else task.results


@contextmanager
def kept_index(task: TaskPaths, journal: Journal) -> Iterator[None]:
    """Keep the index of a journal while it is written; a folder in which that cannot be done has none."""
    journal.flush()
    _refresh(task, task.journal)
    writer = IndexWriter(task)
    for batch in writer.take(_covers(task).upto):
        # It is in the index already: only the answers that wait were wanted.
        del batch
    journal.listener = writer
    try:
        yield
    finally:
        journal.listener = None
        journal.flush()
        writer.flush()


def _refresh(task: TaskPaths, source: Path) -> bool:
    """Bring the index up to date, one process at a time; whether it is."""
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
    """Keep others from building here meanwhile; a disk that knows no locks does without."""
    guard = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(guard, fcntl.LOCK_EX)
        yield
    finally:
        os.close(guard)


def _start(task: TaskPaths, source: Path, covers: Covers) -> None:
    """Begin an empty index. What a run writes into the old one is refused or lost, and read again."""
    if covers.name:
        with suppress(sqlite3.DatabaseError), opened(task.index) as db:
            empty_index(db, source)
            return
    remove_index(task)
    with opened(task.index) as db:
        begin_index(db, source)


def remove_index(task: TaskPaths) -> None:
    """Remove the index, and what an interrupted write to it left; it is built anew when it is wanted."""
    for ending in ("", "-journal", "-wal", "-shm"):
        task.index.with_name(task.index.name + ending).unlink(missing_ok=True)


def _batches(task: TaskPaths, source: Path, start: int) -> Iterator[_Batch]:
    """What a source has from a byte on."""
    if not source.is_file():
        return
    if source == task.journal:
        yield from IndexWriter(task).take(start)
        return
    stat = source.stat()
    begin = start
    if stat.st_size - start > LARGE:
        for piece, end in pieces_apart(source, start, stat.st_size):
            yield begin, Covers(source.name, end, end), piece
            begin = end
    entries = list[Entry]()
    end = begin
    for end, entry in entries_of(source, begin, stat.st_size):
        if entry is not None:
            entries.append(entry)
        if len(entries) == MOST_ROWS:
            yield begin, Covers(source.name, end, end), partial(packed, entries)
            entries = []
            begin = end
    covers = Covers(
        source.name, stat.st_size, stat.st_size, stamp=stat.st_mtime_ns, state=state_of(stat)
    )
    yield begin, covers, partial(packed, entries)


def _fits(task: TaskPaths, source: Path, covers: Covers) -> bool:
    """Whether the index is one of this source, and can be gone on with."""
    if covers.name != source.name or not source.is_file():
        return covers.name == source.name
    stat = source.stat()
    if source == task.results:
        return (covers.known, covers.stamp, covers.state) == (
            stat.st_size,
            stat.st_mtime_ns,
            state_of(stat),
        )
    if covers.known == 0:
        return True
    indexed_state = covers.state.partition(" ")[0]
    if covers.known == stat.st_size:
        # The time of the last change is that of the index, unless a run is just writing.
        return indexed_state == state_of(stat) or (
            _same_file(indexed_state, stat) and _is_written(task)
        )
    return covers.known < stat.st_size and _same_file(indexed_state, stat)


def _same_file(state: str, stat: os.stat_result) -> bool:
    return state.partition(".")[0] == str(stat.st_ino)


def _is_written(task: TaskPaths) -> bool:
    """Whether a run writes into the folder, or into the one above it."""
    return holder_of(task.root) is not None or holder_of(task.root.parent) is not None


def _covers(task: TaskPaths) -> Covers:
    """What the index says of itself; nothing when there is none, or one that this user's nel did not write so."""
    with suppress(sqlite3.DatabaseError, OSError), closing(connect_to_read(task.index)) as db:
        db.execute("BEGIN")
        return checked_covers(db)
    return Covers()
