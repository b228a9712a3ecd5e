"""The file of an index: pieces of rows by column in SQLite; each cell has a digest, and a seal covers everything."""

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
# Everything in the source before ``known`` is indexed; continue reading at ``upto``, where an answer may wait.
SCHEMA: Final = f"""
CREATE TABLE source (name TEXT, upto INTEGER, known INTEGER, stamp INTEGER, state TEXT, seal BLOB);
CREATE TABLE words (code INTEGER PRIMARY KEY, word TEXT);
CREATE TABLE pieces (piece INTEGER PRIMARY KEY, rows INTEGER, failed INTEGER, rewards INTEGER, sum REAL, cost REAL,
                     low INTEGER, high INTEGER);
CREATE TABLE cells (id INTEGER PRIMARY KEY, digest BLOB, data BLOB);
PRAGMA user_version = {VERSION};
"""
_EMPTY: Final = ("source", "words", "pieces", "cells")
# The schema as SQLite stores it: an index with any other schema is not ours.
_TABLES: Final = frozenset(
    part.strip() for part in SCHEMA.split(";") if part.strip().startswith("CREATE TABLE")
)
# The first bytes of a database, and the bytes that say that it uses no write-ahead log.
_MAGIC: Final = b"SQLite format 3\0"
_NO_LOG: Final = slice(18, 20), b"\x01\x01"
# How long the check of an untrusted index may take, in seconds, and how many SQLite steps pass between two checks.
_LOOK: Final = 10.0
_STEPS: Final = 10_000
# Far above the length of our texts and cells; longer ones are not loaded.
_LONGEST: Final = 32 << 20
# A cell's number has the column in the upper and the piece in the lower bits, so that a column is read in one go.
_PIECE_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Covers:
    """Which part of which source an index covers.

    Attributes:
        name: The file name of the source.
        upto: Where to continue reading, since an answer may wait for its outcome there.
        known: The number of bytes of the source that are indexed.
        stamp: The modification time of the rows that the index stands for.
        state: Which version of the file it was (see ``index.state_of``).
    """

    name: str = ""
    upto: int = 0
    known: int = 0
    stamp: int = 0
    state: str = ""


def begin_index(db: sqlite3.Connection, source: Path) -> None:
    """Create the tables of an empty index in an empty database."""
    db.executescript(f"BEGIN IMMEDIATE; {SCHEMA}")
    _begin(db, source)
    db.execute("COMMIT")


def empty_index(db: sqlite3.Connection, source: Path) -> None:
    """Remove all rows from an index in one transaction."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        for table in _EMPTY:
            db.execute(f"DELETE FROM {table}")
        _begin(db, source)


def _begin(db: sqlite3.Connection, source: Path) -> None:
    """Write the only row of ``source`` and the first seal."""
    db.execute("INSERT INTO source VALUES (?, 0, 0, 0, '', NULL)", (source.name,))
    write_seal(db)


def append_rows(
    db: sqlite3.Connection, begin: int, covers: Covers, make: Callable[[Codes], Piece]
) -> bool:
    """Add the rows of a stretch of the source if it continues what the index already has.

    Args:
        db: The index.
        begin: Where the stretch begins.
        covers: What the index covers after it.
        make: Makes the rows, with the codes of the index.

    Returns:
        Whether the stretch continues the index.
    """
    with db:
        db.execute("BEGIN IMMEDIATE")
        current = checked_covers(db)
        if current.name != covers.name or current.known < begin:
            return False
        if current.known < covers.known or covers.stamp:
            _put_rows(db, make)
            _put_covers(db, covers)
        elif current.known == covers.known and current.state != covers.state:
            _put_covers(db, covers)
        return True


def settle_rows(db: sqlite3.Connection, *, rows: int, stamp: int, state: str) -> None:
    """Note that the index stands for the rows of a finished run, if it has as many."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        current = checked_covers(db)
        indexed = db.execute("SELECT sum(rows) FROM pieces").fetchone()
        if current.name and indexed == (rows,):
            _put_covers(db, replace(current, stamp=stamp, state=state))


def _put_covers(db: sqlite3.Connection, covers: Covers) -> None:
    """Record what the index covers, and seal it."""
    values = (covers.upto, covers.known, covers.stamp, covers.state)
    db.execute("UPDATE source SET upto = ?, known = ?, stamp = ?, state = ?", values)
    write_seal(db)


def _put_rows(db: sqlite3.Connection, make: Callable[[Codes], Piece]) -> None:
    """Write a piece; older versions of its rows are removed first, and a small last piece is filled up."""
    codes = read_words(db)
    known_count = len(codes)
    added = make(codes)
    if not len(added):
        return
    db.executemany(
        "INSERT INTO words VALUES (?, ?)",
        list(zip(codes.values(), codes, strict=True))[known_count:],
    )
    numbers = set(added.columns[0])
    overlapping_query = "SELECT piece FROM pieces WHERE low <= ? AND high >= ?"
    for (piece_number,) in db.execute(overlapping_query, (max(numbers), min(numbers))).fetchall():
        if not numbers.isdisjoint(array("q", b"".join(read_cells(db, 0, piece_number)))):
            _write(db, piece_number, _piece(db, piece_number).without(numbers))
    last_piece, last_row_count = db.execute(
        "SELECT piece, rows FROM pieces ORDER BY piece DESC LIMIT 1"
    ).fetchone() or (-1, MOST_ROWS)
    if last_row_count + len(added) <= MOST_ROWS:
        added = _piece(db, last_piece) + added
        last_piece -= 1
    for new_number, new_piece in enumerate(added.parts(), last_piece + 1):
        _write(db, new_number, new_piece)


def _piece(db: sqlite3.Connection, at: int) -> Piece:
    """Read one piece of the index."""
    return unpacked(data for column in range(len(COLUMNS)) for data in read_cells(db, column, at))


def _write(db: sqlite3.Connection, at: int, piece: Piece) -> None:
    """Replace a piece and its cells, or delete it if it is empty."""
    cell_ids = [column << _PIECE_BITS | at for column in range(len(COLUMNS))]
    if not len(piece):
        db.execute("DELETE FROM pieces WHERE piece = ?", (at,))
        db.executemany("DELETE FROM cells WHERE id = ?", [(cell_id,) for cell_id in cell_ids])
        return
    db.execute("INSERT OR REPLACE INTO pieces VALUES (?,?,?,?,?,?,?,?)", (at, *piece.sums()))
    cells = [
        (cell_id, cell_digest(data), data)
        for cell_id, data in zip(cell_ids, piece.cells(), strict=True)
    ]
    db.executemany("INSERT OR REPLACE INTO cells VALUES (?, ?, ?)", cells)


def read_cells(db: sqlite3.Connection, column: int, piece: int | None = None) -> Iterator[bytes]:
    """Yield a column of one piece, or of all pieces.

    Raises:
        sqlite3.DatabaseError: A cell differs from its digest.
    """
    first, last = (0, (1 << _PIECE_BITS) - 1) if piece is None else (piece, piece)
    bounds = column << _PIECE_BITS | first, column << _PIECE_BITS | last
    for data, digest in db.execute(
        "SELECT data, digest FROM cells WHERE id BETWEEN ? AND ? ORDER BY id", bounds
    ):
        if type(data) is not bytes or cell_digest(data) != digest:
            raise sqlite3.DatabaseError("a checksum does not fit")
        yield data


def read_words(db: sqlite3.Connection) -> Codes:
    """Return the words of all columns by their codes."""
    return Codes(None, *(word for (word,) in db.execute("SELECT word FROM words ORDER BY code")))


def connect(path: Path | str) -> sqlite3.Connection:
    """Connect to an index of ours for writing, or to a database in memory or a temporary file."""
    return _prepared(sqlite3.connect(path, **_OPTIONS))


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Connect to an index without changing it or the files beside it.

    Raises:
        sqlite3.DatabaseError: The file is not an index: a link, not a regular file, or one with a write-ahead log.
    """
    if not _is_plain_database(path):
        raise sqlite3.DatabaseError("it is not an index")
    db = _prepared(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, **_OPTIONS))
    db.execute("PRAGMA query_only = ON")
    return db


# Several threads, one after another, may use a reader that yields rows one by one.
_OPTIONS: Final[Any] = {"timeout": _WAIT, "check_same_thread": False, "isolation_level": None}


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    """Set the limits and options for a database that may come from anybody."""
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    # Code in the schema must not run: the file may come from anybody.
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    # A crash of the machine may leave the index half written; it is then rebuilt.
    db.execute("PRAGMA synchronous = OFF")
    return db


def _is_plain_database(path: Path) -> bool:
    """Return whether a file is a regular SQLite database without a write-ahead log."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        header = os.pread(descriptor, 100, 0)
    finally:
        os.close(descriptor)
    position, value = _NO_LOG
    return header.startswith(_MAGIC) and header[position] == value


def opened(path: Path) -> closing[sqlite3.Connection]:
    """Connect to an index for writing, for use in a ``with`` statement."""
    return closing(connect(path))


def checked_covers(db: sqlite3.Connection) -> Covers:
    """Return what an index covers; empty unless this user's nel wrote the index exactly as it is.

    Raises:
        sqlite3.DatabaseError: The file is damaged, or the check takes too long.
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
    """Interrupt queries that take too long, because the file may make SQLite do anything."""
    deadline = time.monotonic() + _LOOK
    db.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    try:
        yield
    finally:
        db.set_progress_handler(None, 0)
