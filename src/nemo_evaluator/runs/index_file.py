"""The file of an index: pieces of rows by columns in SQLite, each cell with its checksum."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from zlib import crc32

from nemo_evaluator.core.values import dataclass
from nemo_evaluator.runs.index_piece import COLUMNS, MOST_ROWS, Codes, Piece, unpacked

VERSION: Final = 3
_WAIT: Final = 10.0
# Of the source everything before ``known`` is in; whoever goes on reads from ``upto``, where an answer may wait.
SCHEMA: Final = f"""
CREATE TABLE source (name TEXT, upto INTEGER, known INTEGER, stamp INTEGER);
CREATE TABLE words (code INTEGER PRIMARY KEY, word TEXT);
CREATE TABLE pieces (piece INTEGER PRIMARY KEY, rows INTEGER, failed INTEGER, rewards INTEGER, sum REAL, cost REAL,
                     low INTEGER, high INTEGER);
CREATE TABLE cells (id INTEGER PRIMARY KEY, crc INTEGER, data BLOB);
PRAGMA user_version = {VERSION};
"""
BEGIN: Final = "INSERT INTO source VALUES ('{}', 0, 0, 0);"
EMPTY: Final = "DELETE FROM source; DELETE FROM words; DELETE FROM pieces; DELETE FROM cells;"
# As SQLite keeps them: an index whose tables read otherwise is damaged.
TABLES: Final = frozenset(part.strip() for part in SCHEMA.split(";") if part.strip().startswith("CREATE TABLE"))
# A cell's number: its column above its piece, so that a column is read in one go.
_PIECE_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Covers:
    """What an index says of itself: the name of its source, how much of it is in, and of which time the rows are."""

    name: str = ""
    upto: int = 0
    known: int = 0
    stamp: int = 0


def append_rows(db: sqlite3.Connection, begin: int, covers: Covers, make: Callable[[Codes], Piece]) -> bool:
    """Write the rows of a stretch of the source where they follow on what the index has; False where they do not."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        there = said_of(db)
        if there.name != covers.name or there.known < begin:
            return False
        if there.known < covers.known or covers.stamp:
            _put_rows(db, make)
            new = covers.upto, covers.known, covers.stamp
            db.execute("UPDATE source SET upto = ?, known = ?, stamp = ?", new)
        return True


def _put_rows(db: sqlite3.Connection, make: Callable[[Codes], Piece]) -> None:
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
        if not numbers.isdisjoint(array("q", b"".join(read_cells(db, 0, at)))):
            _write(db, at, _piece(db, at).without(numbers))
    last, rows = db.execute("SELECT piece, rows FROM pieces ORDER BY piece DESC LIMIT 1").fetchone() or (-1, MOST_ROWS)
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
        db.executemany("DELETE FROM cells WHERE id = ?", [(one,) for one in ids])
        return
    db.execute("INSERT OR REPLACE INTO pieces VALUES (?,?,?,?,?,?,?,?)", (at, *piece.sums()))
    cells = [(one, crc32(data), data) for one, data in zip(ids, piece.cells(), strict=True)]
    db.executemany("INSERT OR REPLACE INTO cells VALUES (?, ?, ?)", cells)


def read_cells(db: sqlite3.Connection, column: int, piece: int | None = None) -> Iterator[bytes]:
    """A column of one piece, or of all. Raises sqlite3.DatabaseError for what is not as it was written."""
    first, last = (0, (1 << _PIECE_BITS) - 1) if piece is None else (piece, piece)
    bounds = column << _PIECE_BITS | first, column << _PIECE_BITS | last
    for data, crc in db.execute("SELECT data, crc FROM cells WHERE id BETWEEN ? AND ? ORDER BY id", bounds):
        if type(data) is not bytes or crc32(data) != crc:
            raise sqlite3.DatabaseError("a checksum does not fit")
        yield data


def read_words(db: sqlite3.Connection) -> Codes:
    """The words of all columns by their codes."""
    return Codes(None, *(word for (word,) in db.execute("SELECT word FROM words ORDER BY code")))


def connect(path: Path | str) -> sqlite3.Connection:
    # A reader that hands out rows one by one may be driven by several threads, one after another.
    db = sqlite3.connect(path, timeout=_WAIT, check_same_thread=False, isolation_level=None)
    # Nothing is lost with the index: what a crash of the machine leaves half written is built anew.
    db.execute("PRAGMA synchronous = OFF")
    return db


def opened(path: Path) -> closing[sqlite3.Connection]:
    return closing(connect(path))


def said_of(db: sqlite3.Connection) -> Covers:
    found = Covers(*(db.execute("SELECT name, upto, known, stamp FROM source").fetchone() or ()))
    kinds = type(found.name), type(found.upto), type(found.known), type(found.stamp)
    return found if kinds == (str, int, int, int) else Covers()
