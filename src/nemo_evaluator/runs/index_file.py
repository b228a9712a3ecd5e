"""The file of an index: pieces of rows by columns in SQLite, each cell with its digest, all of it under a seal."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.values import dataclass, replace
from nemo_evaluator.runs.index_piece import COLUMNS, MOST_ROWS, Codes, Piece, unpacked
from nemo_evaluator.runs.index_seal import cell_digest, is_sealed, write_seal

VERSION: Final = 4
_WAIT: Final = 10.0
# Of the source everything before ``known`` is in; whoever goes on reads from ``upto``, where an answer may wait.
SCHEMA: Final = f"""
CREATE TABLE source (name TEXT, upto INTEGER, known INTEGER, stamp INTEGER, state TEXT, seal BLOB);
CREATE TABLE words (code INTEGER PRIMARY KEY, word TEXT);
CREATE TABLE pieces (piece INTEGER PRIMARY KEY, rows INTEGER, failed INTEGER, rewards INTEGER, sum REAL, cost REAL,
                     low INTEGER, high INTEGER);
CREATE TABLE cells (id INTEGER PRIMARY KEY, digest BLOB, data BLOB);
PRAGMA user_version = {VERSION};
"""
_EMPTY: Final = ("source", "words", "pieces", "cells")
# As SQLite keeps them: an index that has anything else, or whose tables read otherwise, is not ours.
_TABLES: Final = frozenset(
    part.strip() for part in SCHEMA.split(";") if part.strip().startswith("CREATE TABLE")
)
# The first bytes of a database, and where it says that it uses no write-ahead log.
_MAGIC: Final = b"SQLite format 3\0"
_NO_LOG: Final = slice(18, 20), b"\x01\x01"
# How long a look at an index that may be anybody's can take, in seconds, and how often SQLite asks, in its steps.
_LOOK: Final = 10.0
_STEPS: Final = 10_000
# No text or cell of ours comes near this; others are not loaded.
_LONGEST: Final = 32 << 20
# A cell's number: its column above its piece, so that a column is read in one go.
_PIECE_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Covers:
    """What an index says of itself.

    ``name`` is that of its source, ``known`` how much of it is in, ``stamp`` of which time the rows are, and ``state``
    which file it was (see ``index.state_of``).
    """

    name: str = ""
    upto: int = 0
    known: int = 0
    stamp: int = 0
    state: str = ""


def begin_index(db: sqlite3.Connection, source: Path) -> None:
    """Write the tables of an empty index into an empty database."""
    db.executescript(f"BEGIN IMMEDIATE; {SCHEMA}")
    _begin(db, source)
    db.execute("COMMIT")


def empty_index(db: sqlite3.Connection, source: Path) -> None:
    """Take everything out of an index, in one transaction."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        for table in _EMPTY:
            db.execute(f"DELETE FROM {table}")
        _begin(db, source)


def _begin(db: sqlite3.Connection, source: Path) -> None:
    db.execute("INSERT INTO source VALUES (?, 0, 0, 0, '', NULL)", (source.name,))
    write_seal(db)


def append_rows(
    db: sqlite3.Connection, begin: int, covers: Covers, make: Callable[[Codes], Piece]
) -> bool:
    """Write the rows of a stretch of the source where they follow on what the index has; False where they do not."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        there = checked_covers(db)
        if there.name != covers.name or there.known < begin:
            return False
        if there.known < covers.known or covers.stamp:
            _put_rows(db, make)
            _put_covers(db, covers)
        elif there.known == covers.known and there.state != covers.state:
            _put_covers(db, covers)
        return True


def settle_rows(db: sqlite3.Connection, *, rows: int, stamp: int, state: str) -> None:
    """Note that the rows of an index stand for those of a finished run, where it holds as many."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        there = checked_covers(db)
        indexed = db.execute("SELECT sum(rows) FROM pieces").fetchone()
        if there.name and indexed == (rows,):
            _put_covers(db, replace(there, stamp=stamp, state=state))


def _put_covers(db: sqlite3.Connection, covers: Covers) -> None:
    new = (covers.upto, covers.known, covers.stamp, covers.state)
    db.execute("UPDATE source SET upto = ?, known = ?, stamp = ?, state = ?", new)
    write_seal(db)


def _put_rows(db: sqlite3.Connection, make: Callable[[Codes], Piece]) -> None:
    """Write a piece: rows that are there already are taken out first, and a small last piece is filled up."""
    words = read_words(db)
    known = len(words)
    added = make(words)
    if not len(added):
        return
    db.executemany(
        "INSERT INTO words VALUES (?, ?)", list(zip(words.values(), words, strict=True))[known:]
    )
    numbers = set(added.columns[0])
    near = "SELECT piece FROM pieces WHERE low <= ? AND high >= ?"
    for (at,) in db.execute(near, (max(numbers), min(numbers))).fetchall():
        if not numbers.isdisjoint(array("q", b"".join(read_cells(db, 0, at)))):
            _write(db, at, _piece(db, at).without(numbers))
    last, rows = db.execute(
        "SELECT piece, rows FROM pieces ORDER BY piece DESC LIMIT 1"
    ).fetchone() or (-1, MOST_ROWS)
    if rows + len(added) <= MOST_ROWS:
        added = _piece(db, last) + added
        last -= 1
    for number, part in enumerate(added.parts(), last + 1):
        _write(db, number, part)


def _piece(db: sqlite3.Connection, at: int) -> Piece:
    return unpacked(data for column in range(len(COLUMNS)) for data in read_cells(db, column, at))


def _write(db: sqlite3.Connection, at: int, piece: Piece) -> None:
    ids = [column << _PIECE_BITS | at for column in range(len(COLUMNS))]
    if not len(piece):
        db.execute("DELETE FROM pieces WHERE piece = ?", (at,))
        db.executemany("DELETE FROM cells WHERE id = ?", [(cell,) for cell in ids])
        return
    db.execute("INSERT OR REPLACE INTO pieces VALUES (?,?,?,?,?,?,?,?)", (at, *piece.sums()))
    cells = [(cell, cell_digest(data), data) for cell, data in zip(ids, piece.cells(), strict=True)]
    db.executemany("INSERT OR REPLACE INTO cells VALUES (?, ?, ?)", cells)


def read_cells(db: sqlite3.Connection, column: int, piece: int | None = None) -> Iterator[bytes]:
    """A column of one piece, or of all. Raises sqlite3.DatabaseError for what is not as it was written."""
    first, last = (0, (1 << _PIECE_BITS) - 1) if piece is None else (piece, piece)
    bounds = column << _PIECE_BITS | first, column << _PIECE_BITS | last
    for data, digest in db.execute(
        "SELECT data, digest FROM cells WHERE id BETWEEN ? AND ? ORDER BY id", bounds
    ):
        if type(data) is not bytes or cell_digest(data) != digest:
            raise sqlite3.DatabaseError("a checksum does not fit")
        yield data


def read_words(db: sqlite3.Connection) -> Codes:
    """The words of all columns by their codes."""
    return Codes(None, *(word for (word,) in db.execute("SELECT word FROM words ORDER BY code")))


def connect(path: Path | str) -> sqlite3.Connection:
    """A connection to an index of ours, to write it; or to a database in memory or a temporary file."""
    return _prepared(sqlite3.connect(path, **_OPTIONS))


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, neither the file nor what lies beside it.

    Raises:
        sqlite3.DatabaseError: The file is none of ours: a link, no regular file, or one with a write-ahead log.
    """
    if not _is_plain_database(path):
        raise sqlite3.DatabaseError("it is not an index")
    db = _prepared(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, **_OPTIONS))
    db.execute("PRAGMA query_only = ON")
    return db


# A reader that hands out rows one by one may be driven by several threads, one after another.
_OPTIONS: Final[Any] = {"timeout": _WAIT, "check_same_thread": False, "isolation_level": None}


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    # What a schema says is not run: the file may be anybody's.
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    # Nothing is lost with the index: what a crash of the machine leaves half written is built anew.
    db.execute("PRAGMA synchronous = OFF")
    return db


def _is_plain_database(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        head = os.pread(descriptor, 100, 0)
    finally:
        os.close(descriptor)
    place, value = _NO_LOG
    return head.startswith(_MAGIC) and head[place] == value


def opened(path: Path) -> closing[sqlite3.Connection]:
    return closing(connect(path))


def checked_covers(db: sqlite3.Connection) -> Covers:
    """What an index says of itself; nothing where it is not exactly what this user's nel wrote.

    Raises:
        sqlite3.DatabaseError: The file is damaged, or the look at it takes too long.
    """
    with _limited(db):
        schema = db.execute("SELECT type, sql FROM sqlite_master LIMIT 100").fetchall()
        if sorted(schema) != sorted(("table", sql) for sql in _TABLES):
            return Covers()
        if db.execute("PRAGMA user_version").fetchone() != (VERSION,) or not is_sealed(db):
            return Covers()
        return Covers(*db.execute("SELECT name, upto, known, stamp, state FROM source").fetchone())


@contextmanager
def _limited(db: sqlite3.Connection) -> Iterator[None]:
    """End what takes too long: nobody has looked yet at what the file makes SQLite do."""
    deadline = time.monotonic() + _LOOK
    db.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    try:
        yield
    finally:
        db.set_progress_handler(None, 0)
