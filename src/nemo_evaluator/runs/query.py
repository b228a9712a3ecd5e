"""Queries for rows by their indexed fields: which rows match, in which order, and how many."""

from __future__ import annotations

import re
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
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
    # `nel eval status` does not need numpy.
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
# The index column for each order; a row's number contains its problem and its repeat.
_ORDERS: Final = {name: "number" if name == "problem_idx" else name for name in ORDERS}
_WORDS: Final = filter_names("word")
_RANGES: Final = filter_names("range")
_AT_ONCE: Final = 4_096
_CAUSE_COLUMN: Final = list(COLUMNS).index("cause")
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
    """A filter for rows; fields that are None do not filter. The fields are the filters of ``row_filters.json``."""

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
    # Only these rows, and none of those, by problem and repeat.
    among: frozenset[tuple[int, int]] | None = field(default=None, repr=False)
    beyond: frozenset[tuple[int, int]] | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        """Return whether the filter excludes anything."""
        return self != RowFilter()


@dataclass(frozen=True, slots=True)
class IndexedRow:
    """The indexed fields of a row, with its position in the file and, in a journal, that of its answer."""

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
        """The row's problem and repeat."""
        return self.number >> REPEAT_BITS, self.number & ((1 << REPEAT_BITS) - 1)


class IndexColumns:
    """The columns of an index, each of which is read when it is first used."""

    def __init__(self, db: sqlite3.Connection) -> None:
        """Query the index in ``db``."""
        self._db = db
        self._read: dict[str, np.ndarray] = {}
        self._found: dict[RowFilter, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a column for all rows."""
        if name not in self._read:
            self._read[name] = self._column(name)
        return self._read[name]

    def words(self) -> list[str | None]:
        """Return the words by their codes."""
        return list(read_words(self._db))

    def causes(self) -> dict[str, tuple[int, IndexedRow]]:
        """Return how often rows failed by cause, most frequent first, each with an example row.

        This avoids numpy, which takes longer to load than this function takes to run.
        """
        vocabulary = self.words()
        counts = Counter[int]()
        examples = dict[int, IndexedRow]()
        for (piece,) in self._db.execute(
            "SELECT piece FROM pieces WHERE failed > 0 ORDER BY piece"
        ).fetchall():
            data = b"".join(read_cells(self._db, _CAUSE_COLUMN, piece))
            codes = array("I", data)
            # Most rows did not fail, so only nonzero bytes are looked at.
            failed_positions = sorted(
                {match.start() // codes.itemsize for match in _NOT_ZERO.finditer(data)}
            )
            failed_codes = [codes[position] for position in failed_positions]
            counts.update(failed_codes)
            for code in set(failed_codes) - examples.keys():
                position = failed_positions[failed_codes.index(code)]
                examples[code] = self._row_of_piece(piece, position, vocabulary)
        causes: dict[str, tuple[int, IndexedRow]] = {}
        for code, row_count in counts.most_common():
            causes[str(vocabulary[code])] = (row_count, examples[code])
        return causes

    def _row_of_piece(self, piece: int, position: int, vocabulary: list[str | None]) -> IndexedRow:
        """Return the row at a position of a piece, without numpy."""
        values: list[Any] = []
        for column, type_code in enumerate(COLUMNS.values()):
            cell = array(type_code, b"".join(read_cells(self._db, column, piece)))
            values.append(cell[position])
        return _indexed_row(values, vocabulary)

    def chosen(self, which: RowFilter) -> np.ndarray:
        """Return the positions of the matching rows."""
        if which not in self._found:
            matches = np.full(len(self["number"]), True)
            for test in self._tests(which):
                matches &= test
            self._found[which] = np.flatnonzero(matches)
        return self._found[which]

    def walk(self, positions: np.ndarray) -> Iterator[IndexedRow]:
        """Yield the indexed fields of the rows at some positions; only the pieces that contain such a row are read."""
        for start in range(0, len(positions), _AT_ONCE):
            yield from self._places(positions[start : start + _AT_ONCE])

    def _places(self, positions: np.ndarray) -> list[IndexedRow]:
        """Return the indexed fields of the rows at some positions."""
        vocabulary = self.words()
        pieces = self._db.execute("SELECT piece, rows FROM pieces ORDER BY piece").fetchall()
        ends = np.cumsum([rows for _, rows in pieces])
        piece_indexes = np.searchsorted(ends, positions, side="right")
        rows_by_position: dict[int, IndexedRow] = {}
        for piece_index in np.unique(piece_indexes):
            piece, row_count = pieces[piece_index]
            piece_start = ends[piece_index] - row_count
            piece_positions = positions[piece_indexes == piece_index]
            offsets = piece_positions - piece_start
            columns = [self._column(name, piece)[offsets].tolist() for name in COLUMNS]
            rows = zip(*columns, strict=True)
            for position, values in zip(piece_positions.tolist(), rows, strict=True):
                rows_by_position[position] = _indexed_row(values, vocabulary)
        return [rows_by_position[position] for position in positions.tolist()]

    def _column(self, name: str, piece: int | None = None) -> np.ndarray:
        """Return a column of one piece or of all, copied cell by cell so that a long column is in memory only once."""
        count_query = "SELECT coalesce(sum(rows), 0) FROM pieces WHERE piece = ? OR ? IS NULL"
        column = np.empty(
            self._db.execute(count_query, (piece, piece)).fetchone()[0], COLUMNS[name]
        )
        end = 0
        for cell in read_cells(self._db, list(COLUMNS).index(name), piece):
            values = np.frombuffer(cell, COLUMNS[name])
            column[end : end + len(values)] = values
            end += len(values)
        return column

    def _tests(self, which: RowFilter) -> Iterator[np.ndarray]:
        """Yield one array per condition of a filter, which tells the matching rows."""
        if which.status is not None:
            yield (self["cause"] == 0) == (which.status == "scored")
        for name in _WORDS:
            wanted_word = getattr(which, name)
            if wanted_word is not None:
                yield self[name] == read_words(self._db).get(wanted_word, -1)
        for name, flag in FLAGS.items():
            value = getattr(which, name)
            if value is not None:
                yield (self["flags"] & flag != 0) == value
        for name in _RANGES:
            minimum = getattr(which, f"min_{name}")
            if minimum is not None:
                yield self[name] >= minimum
            maximum = getattr(which, f"max_{name}")
            if maximum is not None:
                yield self[name] <= maximum
        if which.among is not None:
            yield np.isin(self["number"], _row_numbers(which.among))
        if which.beyond is not None:
            yield ~np.isin(self["number"], _row_numbers(which.beyond))
        if which.problem_idx is not None:
            yield self["number"] >> REPEAT_BITS == which.problem_idx


def _row_numbers(keys: frozenset[tuple[int, int]]) -> np.ndarray:
    """Return the numbers of rows that are named by problem and repeat."""
    numbers = [(problem << REPEAT_BITS) | repeat for problem, repeat in keys]
    return np.array(numbers, np.int64)


def _indexed_row(values: Iterable[Any], vocabulary: list[str | None]) -> IndexedRow:
    """Return the values of a row as an IndexedRow, with words for codes and None for unknown values."""
    # Unknown numbers are NaN, which differs from itself.
    known_values: Iterator[Any] = (None if value != value else value for value in values)
    (
        number,
        at,
        length,
        answer,
        reward,
        cause,
        category,
        finish_reason,
        tokens,
        latency_ms,
        flags,
        cost_usd,
    ) = known_values
    return IndexedRow(
        number=number,
        at=at,
        length=length,
        answer=None if answer < 0 else answer,
        reward=reward,
        cause=vocabulary[cause],
        category=vocabulary[category],
        finish_reason=vocabulary[finish_reason],
        tokens=None if tokens is None else int(tokens),
        latency_ms=latency_ms,
        flags=flags,
        cost_usd=cost_usd,
    )


def places(
    columns: IndexColumns,
    which: RowFilter,
    order: Order | str,
    offset: int = 0,
    limit: int | None = None,
) -> Iterator[IndexedRow]:
    """Return the matching rows in order, with their indexed fields.

    Args:
        columns: The columns of the index.
        which: The filter.
        order: The field to sort by, with ``-`` in front for descending order.
        offset: How many matching rows to skip.
        limit: How many rows to return at most.

    Raises:
        UsageError: The order is unknown.
    """
    name = order.removeprefix("-")
    if name not in _ORDERS:
        hint = did_you_mean(
            name, _ORDERS, f"known: {', '.join(_ORDERS)}; with - before it, descending"
        )
        raise UsageError(f"rows cannot be ordered by {order!r}", hint=hint)
    positions = columns.chosen(which)
    if limit is None:
        end = len(positions)
    else:
        end = min(len(positions), offset + limit)
    if offset >= end:
        return iter(())
    sign = -1 if order.startswith("-") else 1
    numbers = columns["number"]
    if name == "problem_idx" and bool(np.all(numbers[1:] > numbers[:-1])):
        return columns.walk(positions[::sign][offset:end])
    # Rows without a value sort before the lowest value.
    keys = np.nan_to_num(
        columns[_ORDERS[name]][positions], nan=-np.inf, posinf=np.inf, neginf=-np.inf
    )
    ranks = _ranked(sign * keys, sign * numbers[positions], offset, end=end)
    return columns.walk(positions[ranks])


def _ranked(keys: np.ndarray, numbers: np.ndarray, start: int, end: int) -> np.ndarray:
    """Return the positions with ranks from ``start`` to ``end`` by key and then number, without sorting all of them."""
    if end - start == len(keys):
        return np.lexsort((numbers, keys))
    partitioned_keys = np.partition(keys, (start, end - 1))
    lowest_key = partitioned_keys[start]
    highest_key = partitioned_keys[end - 1]
    smaller_count = int(np.count_nonzero(keys < lowest_key))
    candidates = np.flatnonzero((keys >= lowest_key) & (keys <= highest_key))
    if lowest_key == highest_key:
        # All candidates have the same key, so their unique numbers decide.
        ranks = _ranked(
            numbers[candidates], numbers[candidates], start - smaller_count, end=end - smaller_count
        )
    else:
        sorted_candidates = np.lexsort((numbers[candidates], keys[candidates]))
        ranks = sorted_candidates[start - smaller_count : end - smaller_count]
    chosen: np.ndarray = candidates[ranks]
    return chosen


def count(columns: IndexColumns, which: RowFilter) -> int:
    """Return the number of matching rows."""
    return len(columns.chosen(which))


def tally(
    columns: IndexColumns, column: Literal["cause", "category", "finish_reason"]
) -> list[tuple[str, int, float]]:
    """Return the most frequent values of a column, each with its number of rows and their mean reward.

    The mean is 0 for rows without a reward.
    """
    codes = columns[column]
    rewards = columns["reward"]
    vocabulary = columns.words()
    size = len(vocabulary)
    row_counts = np.bincount(codes, minlength=size)
    reward_counts = np.bincount(codes[~np.isnan(rewards)], minlength=size)
    reward_sums = np.bincount(codes, np.nan_to_num(rewards), minlength=size)
    mean_rewards = np.divide(
        reward_sums, reward_counts, out=np.zeros(size), where=reward_counts > 0
    )
    entries: list[tuple[str, int, float]] = []
    for code in np.flatnonzero(row_counts):
        if code:
            entries.append(
                (str(vocabulary[code]), int(row_counts[code]), float(mean_rewards[code]))
            )
    return sorted(entries, key=lambda entry: (-entry[1], entry[0]))[:1000]


def outcomes(columns: IndexColumns) -> tuple[dict[str, int], bool]:
    """Count the rows by outcome.

    Returns:
        The counts by outcome, as reports name them, and whether every reward is 0 or 1.
    """
    rewards = columns["reward"]
    flags = columns["flags"]
    conditions = {
        "failed": columns["cause"] != 0,
        "unscored": np.isnan(rewards),
        "right": rewards >= 1,
        "unparsed": flags & UNPARSED_FLAG != 0,
        "truncated": flags & TRUNCATED_FLAG != 0,
        "wrong": np.full(len(rewards), True),
    }
    codes = [np.uint8(code) for code in range(len(conditions))]
    # Of several conditions that hold for a row the first counts.
    outcome_codes = np.select(list(conditions.values()), codes)
    row_counts = np.bincount(outcome_codes, minlength=len(conditions)).tolist()
    counts: dict[str, int] = {}
    for name, row_count in zip(conditions, row_counts, strict=True):
        if row_count:
            counts[name] = row_count
    binary = np.all(np.isnan(rewards) | (rewards == 0) | (rewards == 1))
    return counts, bool(binary)
