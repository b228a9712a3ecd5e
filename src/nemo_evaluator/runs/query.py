"""Rows by what is known of them: which, in which order, and how many; from the columns of the index."""

from __future__ import annotations

import re
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.lazy import Lazy
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.runs.index_entry import (
    REFUSED_FLAG,
    REPEAT_BITS,
    TRIPPED_FLAG,
    TRUNCATED_FLAG,
    UNPARSED_FLAG,
)
from nemo_evaluator.runs.index_file import read_cells, read_words
from nemo_evaluator.runs.index_piece import COLUMNS
from nemo_evaluator.runs.row_filters import ORDERS, filter_names

if TYPE_CHECKING:
    import numpy as np
else:
    # The status of a run needs none of it.
    np = Lazy("numpy")

Order = Literal[
    "problem_idx",
    "-problem_idx",
    "reward",
    "-reward",
    "tokens",
    "-tokens",
    "latency_ms",
    "-latency_ms",
]
# The columns of the index by which rows are put in order: a row's number has its problem and its repeat.
_ORDERS: Final = {name: "number" if name == "problem_idx" else name for name in ORDERS}
_WORDS: Final = filter_names("word")
_RANGES: Final = filter_names("range")
_AT_ONCE: Final = 4_096
_NOT_ZERO: Final = re.compile(rb"[^\0]")
_FLAG_BITS: Final = {
    "truncated": TRUNCATED_FLAG,
    "unparsed": UNPARSED_FLAG,
    "refused": REFUSED_FLAG,
    "tripped": TRIPPED_FLAG,
}
FLAGS: Final = {name: _FLAG_BITS[name] for name in filter_names("flag")}


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows are meant; what is None is not asked about. The fields are the filters of ``row_filters.json``."""

    status: Literal["scored", "failed"] | None = None
    cause: str | None = None
    category: str | None = None
    finish_reason: str | None = None
    truncated: bool | None = None
    unparsed: bool | None = None
    refused: bool | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    problem_idx: int | None = None
    tripped: bool | None = None
    min_tokens: float | None = None
    max_tokens: float | None = None
    min_latency_ms: float | None = None
    max_latency_ms: float | None = None
    # Only these rows, or none of these, by problem and repeat.
    among: frozenset[tuple[int, int]] | None = field(default=None, repr=False)
    beyond: frozenset[tuple[int, int]] | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return self != RowFilter()


@dataclass(frozen=True, slots=True)
class IndexedRow:
    """What the index knows of a row: where it lies (its answer elsewhere in a journal), and its columns."""

    number: int
    at: int
    length: int
    answer: int | None
    reward: float | None
    cause: str | None
    category: str | None
    finish_reason: str | None
    tokens: int | None
    latency_ms: float | None
    flags: int
    cost_usd: float | None

    @property
    def key(self) -> tuple[int, int]:
        """Problem and repeat."""
        return self.number >> REPEAT_BITS, self.number & ((1 << REPEAT_BITS) - 1)


class IndexColumns:
    """The columns of an index, each read when it is asked for."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._read: dict[str, np.ndarray] = {}
        self._found: dict[RowFilter, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._read:
            self._read[name] = self._column(name)
        return self._read[name]

    def words(self) -> list[str | None]:
        """The words by their codes."""
        return list(read_words(self._db))

    def causes(self) -> dict[str, tuple[int, IndexedRow]]:
        """How often rows failed by which cause, the most frequent first, each with a row; without numpy, whose loading
        would take longer than this does."""
        words = self.words()
        counts = Counter[int]()
        rows = dict[int, IndexedRow]()
        kinds = list(enumerate(COLUMNS.values()))
        for (piece,) in self._db.execute(
            "SELECT piece FROM pieces WHERE failed > 0 ORDER BY piece"
        ).fetchall():
            data = b"".join(read_cells(self._db, list(COLUMNS).index("cause"), piece))
            codes = array("I", data)
            # Most rows did not fail: only what is not 0 is looked at.
            failed = sorted({match.start() // codes.itemsize for match in _NOT_ZERO.finditer(data)})
            found = Counter(codes[at] for at in failed)
            for code in found.keys() - rows.keys():
                at = next(at for at in failed if codes[at] == code)
                cells = (
                    array(kind, b"".join(read_cells(self._db, column, piece)))
                    for column, kind in kinds
                )
                rows[code] = _place(tuple(cell[at] for cell in cells), words)
            counts += found
        return {str(words[code]): (count, rows[code]) for code, count in counts.most_common()}

    def chosen(self, which: RowFilter) -> np.ndarray:
        """The positions of the rows that are meant."""
        if which not in self._found:
            fits = np.full(len(self["number"]), True)
            for test in self._tests(which):
                fits &= test
            self._found[which] = np.flatnonzero(fits)
        return self._found[which]

    def walk(self, positions: np.ndarray) -> Iterator[IndexedRow]:
        """What the index knows of rows at some positions; of all pieces only those are read where one lies."""
        for at in range(0, len(positions), _AT_ONCE):
            yield from self._places(positions[at : at + _AT_ONCE])

    def _places(self, positions: np.ndarray) -> list[IndexedRow]:
        words = self.words()
        pieces = self._db.execute("SELECT piece, rows FROM pieces ORDER BY piece").fetchall()
        ends = np.cumsum([rows for _, rows in pieces])
        homes = np.searchsorted(ends, positions, side="right")
        found: dict[int, IndexedRow] = {}
        for home in np.unique(homes):
            inside = positions[homes == home]
            offsets = inside - (ends[home - 1] if home else 0)
            values = [self._column(name, pieces[home][0])[offsets].tolist() for name in COLUMNS]
            found |= zip(
                inside.tolist(),
                (_place(row, words) for row in zip(*values, strict=True)),
                strict=True,
            )
        return [found[position] for position in positions.tolist()]

    def _column(self, name: str, piece: int | None = None) -> np.ndarray:
        """All of a column, or a piece of it, filled in cell by cell: a column of many rows is in memory only once."""
        which = "SELECT coalesce(sum(rows), 0) FROM pieces WHERE piece = ? OR ? IS NULL"
        column = np.empty(self._db.execute(which, (piece, piece)).fetchone()[0], COLUMNS[name])
        end = 0
        for cell in read_cells(self._db, list(COLUMNS).index(name), piece):
            values = np.frombuffer(cell, COLUMNS[name])
            column[end : end + len(values)] = values
            end += len(values)
        return column

    def _tests(self, which: RowFilter) -> Iterator[np.ndarray]:
        if which.status is not None:
            yield (self["cause"] == 0) == (which.status == "scored")
        for name in _WORDS:
            word = getattr(which, name)
            if word is not None:
                yield self[name] == read_words(self._db).get(word, -1)
        for name, flag in FLAGS.items():
            value = getattr(which, name)
            if value is not None:
                yield (self["flags"] & flag != 0) == value
        for name in _RANGES:
            low = getattr(which, f"min_{name}")
            if low is not None:
                yield self[name] >= low
            high = getattr(which, f"max_{name}")
            if high is not None:
                yield self[name] <= high
        for keys, within in ((which.among, True), (which.beyond, False)):
            if keys is not None:
                known = [(problem << REPEAT_BITS) | repeat for problem, repeat in keys]
                yield np.isin(self["number"], np.array(known, np.int64)) == within
        if which.problem_idx is not None:
            yield self["number"] >> REPEAT_BITS == which.problem_idx


def _place(row: tuple[Any, ...], words: list[str | None]) -> IndexedRow:
    known: Iterator[Any] = (None if value != value else value for value in row)
    number, at, length, answer, reward, cause, category, finish, tokens, latency, flags, cost = (
        known
    )
    said = words[cause], words[category], words[finish], None if tokens is None else int(tokens)
    return IndexedRow(
        number, at, length, None if answer < 0 else answer, reward, *said, latency, flags, cost
    )


def places(
    columns: IndexColumns,
    which: RowFilter,
    order: Order | str,
    offset: int = 0,
    limit: int | None = None,
) -> Iterator[IndexedRow]:
    """The rows asked for, as the index knows them."""
    name = order.removeprefix("-")
    if name not in _ORDERS:
        hint = did_you_mean(
            name, _ORDERS, f"known: {', '.join(_ORDERS)}; with - before it, descending"
        )
        raise UsageError(f"rows cannot be ordered by {order!r}", hint=hint)
    found = columns.chosen(which)
    if limit is None:
        end = len(found)
    else:
        end = min(len(found), offset + limit)
    if offset >= end:
        return iter(())
    if order.startswith("-"):
        sign = -1
    else:
        sign = 1
    numbers = columns["number"]
    if name == "problem_idx" and bool(np.all(numbers[1:] > numbers[:-1])):
        return columns.walk(found[::sign][offset:end])
    # Rows without a value come before those with the lowest one.
    keys = np.nan_to_num(columns[_ORDERS[name]][found], nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    return columns.walk(found[_ranked(sign * keys, sign * numbers[found], offset, end=end)])


def _ranked(keys: np.ndarray, numbers: np.ndarray, start: int, end: int) -> np.ndarray:
    """The positions with some ranks by key and then number; no more is put in order than has to be."""
    if end - start == len(keys):
        return np.lexsort((numbers, keys))
    edges = np.partition(keys, (start, end - 1))
    low = edges[start]
    high = edges[end - 1]
    before = int(np.count_nonzero(keys < low))
    inside = np.flatnonzero((keys >= low) & (keys <= high))
    if low == high:
        # One value, many rows: by number, of which there are no two alike.
        ranks = _ranked(numbers[inside], numbers[inside], start - before, end=end - before)
    else:
        ranks = np.lexsort((numbers[inside], keys[inside]))[start - before : end - before]
    chosen: np.ndarray = inside[ranks]
    return chosen


def count(columns: IndexColumns, which: RowFilter) -> int:
    """How many rows there are."""
    return len(columns.chosen(which))


def tally(
    columns: IndexColumns, column: Literal["cause", "category", "finish_reason"]
) -> list[tuple[str, int, float]]:
    """The values of a column, the most frequent first, each with its rows and their mean reward (0 without any)."""
    codes = columns[column]
    rewards = columns["reward"]
    words = columns.words()
    rows = np.bincount(codes, minlength=len(words))
    scores = np.bincount(codes[~np.isnan(rewards)], minlength=len(words))
    sums = np.bincount(codes, np.nan_to_num(rewards), minlength=len(words))
    means = np.divide(sums, scores, out=np.zeros(len(words)), where=scores > 0)
    found: list[tuple[str, int, float]] = []
    for code in np.flatnonzero(rows):
        if code:
            found.append((str(words[code]), int(rows[code]), float(means[code])))
    return sorted(found, key=lambda one: (-one[1], one[0]))[:1000]


def outcomes(columns: IndexColumns) -> tuple[dict[str, int], bool]:
    """Rows by what became of them, in the words of reports; and whether every reward is 0 or 1."""
    reward = columns["reward"]
    flags = columns["flags"]
    kinds = {
        "failed": columns["cause"] != 0,
        "unscored": np.isnan(reward),
        "right": reward >= 1,
        "unparsed": flags & UNPARSED_FLAG != 0,
        "truncated": flags & TRUNCATED_FLAG != 0,
        "wrong": np.full(len(reward), True),
    }
    kind = np.select(list(kinds.values()), [np.uint8(at) for at in range(len(kinds))])
    counts = np.bincount(kind, minlength=len(kinds)).tolist()
    return {name: n for name, n in zip(kinds, counts, strict=True) if n}, bool(
        np.all(np.isnan(reward) | (reward == 0) | (reward == 1))
    )
