"""The index beside the rows: where each one is, and the fields it is looked up by, in pieces in SQLite.

While a run writes, the index covers the journal and the run keeps it; afterwards it covers ``results.jsonl``. It holds
nothing that cannot be read again: an index that is missing, older than its file or broken is built anew. Whoever reads
and whoever runs may write it at once: nothing is written that does not follow on what is there.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zlib import crc32

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.index_apart import LARGE, entries_of, pieces_apart
from nemo_evaluator.runs.index_entry import Entry, JournalEntries
from nemo_evaluator.runs.index_piece import COLUMNS, MOST_ROWS, Piece, Words, packed, unpacked
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.sealed import open_line

if TYPE_CHECKING:
    from nemo_evaluator.store.journal import Journal

_VERSION: Final = 3
_WAIT: Final = 10.0
# How often a run writes what its journal got, in seconds.
_EVERY: Final = 2.0
# Of the source everything before ``known`` is in; whoever goes on reads from ``upto``, where an answer may wait.
_SCHEMA: Final = f"""
CREATE TABLE source (name TEXT, upto INTEGER, known INTEGER, stamp INTEGER);
CREATE TABLE words (code INTEGER PRIMARY KEY, word TEXT);
CREATE TABLE pieces (piece INTEGER PRIMARY KEY, rows INTEGER, failed INTEGER, rewards INTEGER, sum REAL, cost REAL,
                     low INTEGER, high INTEGER);
CREATE TABLE cells (id INTEGER PRIMARY KEY, crc INTEGER, data BLOB);
PRAGMA user_version = {_VERSION};
"""
_BEGIN: Final = "INSERT INTO source VALUES ('{}', 0, 0, 0);"
_EMPTY: Final = "DELETE FROM source; DELETE FROM words; DELETE FROM pieces; DELETE FROM cells;"
# As SQLite keeps them: an index whose tables read otherwise is damaged.
_TABLES: Final = frozenset(part.strip() for part in _SCHEMA.split(";") if part.strip().startswith("CREATE TABLE"))
# A cell's number: its column above its piece, so that a column is read in one go.
_PIECE_BITS: Final = 32
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class _Covers:
    """What an index says of itself: the name of its source, how much of it is in, and of which time the rows are."""

    name: str = ""
    upto: int = 0
    known: int = 0
    stamp: int = 0


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows of a stretch of the source, and what the index covers with them."""

    rows: Callable[[Words], Piece]
    begin: int
    covers: _Covers

    def append(self, db: sqlite3.Connection) -> bool:
        """Write them where they follow on what the index has; False where they do not."""
        with db:
            db.execute("BEGIN IMMEDIATE")
            there = _said(db)
            if there.name != self.covers.name or there.known < self.begin:
                return False
            if there.known < self.covers.known or self.covers.stamp:
                _put(db, self.rows)
                new = self.covers.upto, self.covers.known, self.covers.stamp
                db.execute("UPDATE source SET upto = ?, known = ?, stamp = ?", new)
            return True


class IndexWriter:
    """Follows a journal and writes what it gets, now and then."""

    def __init__(self, task: TaskPaths) -> None:
        self._task = task
        self._rows, self._entries = JournalEntries(), list[Entry]()
        self._begin = self._end = 0
        self._due = 0.0
        self._lock = threading.Lock()

    def note(self, offset: int, length: int, record: JsonDict) -> None:
        """Take in a record of the journal."""
        entry = self._rows.entry(offset, length, record)
        if entry is not None:
            self._entries.append(entry)
        self._end = offset + length

    def take(self, start: int) -> Iterator[_Batch]:
        """Take in what the journal has from a byte on, in batches to be written."""
        self._begin = self._end = start
        for offset, line in _whole_lines(self._task.journal, start):
            record = open_line(line)
            if record is None:
                self._end = offset + len(line)
            else:
                self.note(offset, len(line), record)
            if len(self._entries) >= MOST_ROWS:
                yield self._batch()
        yield self._batch()

    def batch(self) -> Callable[[], None] | None:
        """The writing of what was taken in, for another thread to do; None until it is due again."""
        if not self._entries or time.monotonic() < self._due:
            return None
        self._due = time.monotonic() + _EVERY
        return partial(self._write, self._batch())

    def flush(self) -> None:
        """Write what was taken in."""
        self._write(self._batch())

    def _batch(self) -> _Batch:
        entries, begin, end = self._entries, self._begin, self._end
        self._entries, self._begin = [], end
        covers = _Covers(self._task.journal.name, self._rows.open_from(end), end)
        return _Batch(partial(packed, entries), begin, covers)

    def _write(self, batch: _Batch) -> None:
        # What is not written is safe in its file: whoever reads next goes on from where the index ends.
        with self._lock, suppress(sqlite3.Error), _opened(self._task.index) as db:
            batch.append(db)


def _put(db: sqlite3.Connection, make: Callable[[Words], Piece]) -> None:
    """Write a piece: rows that are there already are taken out first, and a small last piece is filled up."""
    words = read_words(db)
    known = len(words)
    added = make(words)
    if not len(added):
        return
    db.executemany("INSERT INTO words VALUES (?, ?)", list(zip(words.values(), words, strict=True))[known:])
    numbers = set(added.columns[0])
    near = "SELECT piece FROM pieces WHERE low <= ? AND high >= ?"
    for (at,) in db.execute(near, (max(numbers), min(numbers))).fetchall():
        if not numbers.isdisjoint(array("q", b"".join(read_cells(db, 0, at, at)))):
            _write(db, at, _piece(db, at).without(numbers))
    last, rows = db.execute("SELECT piece, rows FROM pieces ORDER BY piece DESC LIMIT 1").fetchone() or (-1, MOST_ROWS)
    if rows + len(added) <= MOST_ROWS:
        added = _piece(db, last) + added
        last -= 1
    for number, part in enumerate(added.parts(), last + 1):
        _write(db, number, part)


def _piece(db: sqlite3.Connection, at: int) -> Piece:
    return unpacked(data for column in range(len(COLUMNS)) for data in read_cells(db, column, at, at))


def _write(db: sqlite3.Connection, at: int, piece: Piece) -> None:
    ids = [column << _PIECE_BITS | at for column in range(len(COLUMNS))]
    if not len(piece):
        db.execute("DELETE FROM pieces WHERE piece = ?", (at,))
        db.executemany("DELETE FROM cells WHERE id = ?", [(one,) for one in ids])
        return
    db.execute("INSERT OR REPLACE INTO pieces VALUES (?,?,?,?,?,?,?,?)", (at, *piece.sums()))
    cells = [(one, crc32(data), data) for one, data in zip(ids, piece.cells(), strict=True)]
    db.executemany("INSERT OR REPLACE INTO cells VALUES (?, ?, ?)", cells)


def read_cells(db: sqlite3.Connection, column: int, first: int = 0, last: int = (1 << _PIECE_BITS) - 1) -> list[bytes]:
    """A column of some pieces, or of all. Raises sqlite3.DatabaseError for what is not as it was written."""
    bounds = column << _PIECE_BITS | first, column << _PIECE_BITS | last
    cells = db.execute("SELECT data, crc FROM cells WHERE id BETWEEN ? AND ? ORDER BY id", bounds).fetchall()
    if any(type(data) is not bytes or crc32(data) != crc for data, crc in cells):
        raise sqlite3.DatabaseError("a checksum does not fit")
    return [data for data, _ in cells]


def read_words(db: sqlite3.Connection) -> Words:
    """The words of all columns by their codes."""
    return Words(word for (word,) in db.execute("SELECT word FROM words ORDER BY code"))


def _connect(path: Path | str) -> sqlite3.Connection:
    # A reader that hands out rows one by one may be driven by several threads, one after another.
    db = sqlite3.connect(path, timeout=_WAIT, check_same_thread=False, isolation_level=None)
    # Nothing is lost with the index: what a crash of the machine leaves half written is built anew.
    db.execute("PRAGMA synchronous = OFF")
    return db


def _opened(path: Path) -> closing[sqlite3.Connection]:
    return closing(_connect(path))


def open_index(task: TaskPaths) -> tuple[sqlite3.Connection, Path]:
    """The index of a benchmark's folder, up to date, and the file it covers; in memory where nothing can be written."""
    source = _source(task)
    if _refresh(task, source):
        return _connect(task.index), source
    memory = _connect(":memory:")
    memory.executescript(_SCHEMA + _BEGIN.format(source.name))
    for batch in _batches(task, source, 0):
        batch.append(memory)
    return memory, source


def settle_index(task: TaskPaths, rows: int) -> None:
    """The rows were written: the index of the journal stands for them if it holds as many, and is of no use if not."""
    settled = "UPDATE source SET stamp = ? WHERE (SELECT sum(rows) FROM pieces) = ?"
    # A reader may put another file in its place at any moment: then that one is settled.
    for _ in range(_TRIES):
        with suppress(sqlite3.Error):
            if _refresh(task, task.journal):
                with _opened(task.index) as db:
                    db.execute(settled, (task.results.stat().st_mtime_ns, rows))
                return


def _source(task: TaskPaths) -> Path:
    """The rows once they are whole, by way of the journal if its index stands for them; else the journal."""
    results, journal = task.results, task.journal
    if not journal.is_file():
        return results
    if not results.is_file() or results.stat().st_mtime_ns < journal.stat().st_mtime_ns:
        return journal
    covers = _covers(task)
    settled = (journal.name, journal.stat().st_size, results.stat().st_mtime_ns)
    return journal if (covers.name, covers.known, covers.stamp) == settled else results


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
                covers = _Covers(source.name)
            if not source.is_file() or covers.known == source.stat().st_size:
                return True
            with _opened(task.index) as db:
                return all(batch.append(db) for batch in _batches(task, source, covers.upto))
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


def _start(task: TaskPaths, source: Path, covers: _Covers) -> None:
    """Begin an empty index. What a run writes into the old one is refused or lost, and read again."""
    begin = _BEGIN.format(source.name)
    if covers.name:
        with suppress(sqlite3.DatabaseError), _opened(task.index) as db:
            db.executescript(f"BEGIN IMMEDIATE; {_EMPTY} {begin} COMMIT;")
            return
    remove_index(task)
    with _opened(task.index) as db:
        db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {begin} COMMIT;")


def remove_index(task: TaskPaths) -> None:
    """Remove the index, and what an interrupted write to it left; it is built anew when it is wanted."""
    for path in (task.index, task.index.with_name(f"{task.index.name}-journal")):
        path.unlink(missing_ok=True)


def _batches(task: TaskPaths, source: Path, start: int) -> Iterator[_Batch]:
    """What a source has from a byte on."""
    if source == task.journal:
        yield from IndexWriter(task).take(start)
        return
    state = source.stat()
    begin = start
    if state.st_size - start > LARGE:
        for piece, end in pieces_apart(source, start, state.st_size):
            yield _Batch(piece, begin, _Covers(source.name, end, end))
            begin = end
    entries = list[Entry]()
    end = begin
    for end, entry in entries_of(source, begin, state.st_size):
        if entry is not None:
            entries.append(entry)
        if len(entries) == MOST_ROWS:
            yield _Batch(partial(packed, entries), begin, _Covers(source.name, end, end))
            entries, begin = [], end
    yield _Batch(partial(packed, entries), begin, _Covers(source.name, state.st_size, state.st_size, state.st_mtime_ns))


def _fits(task: TaskPaths, source: Path, covers: _Covers) -> bool:
    """Whether the index is one of this source, and can be gone on with."""
    if covers.name != source.name or not source.is_file():
        return covers.name == source.name
    state = source.stat()
    if source == task.journal:
        return covers.known <= state.st_size
    return (covers.known, covers.stamp) == (state.st_size, state.st_mtime_ns)


def _covers(task: TaskPaths) -> _Covers:
    """What the index says of itself; nothing when there is none, or a damaged one."""
    if task.index.is_file():
        with suppress(sqlite3.DatabaseError), _opened(task.index) as db:
            tables = db.execute("SELECT sql FROM sqlite_master WHERE type = 'table'").fetchall()
            if db.execute("PRAGMA user_version").fetchone() == (_VERSION,) and _TABLES == {sql for (sql,) in tables}:
                return _said(db)
    return _Covers()


def _said(db: sqlite3.Connection) -> _Covers:
    found = _Covers(*(db.execute("SELECT name, upto, known, stamp FROM source").fetchone() or ()))
    kinds = type(found.name), type(found.upto), type(found.known), type(found.stamp)
    return found if kinds == (str, int, int, int) else _Covers()


def _whole_lines(path: Path, start: int) -> Iterator[tuple[int, bytes]]:
    offset = start
    with path.open("rb", buffering=1 << 20) as file:
        file.seek(start)
        for line in file:
            if line.endswith(b"\n"):
                yield offset, line
            offset += len(line)
