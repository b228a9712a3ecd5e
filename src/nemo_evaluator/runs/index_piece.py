"""A piece of the index: up to several thousand rows, stored by column as bytes, with their totals."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from nemo_evaluator.core.values import dataclass
from nemo_evaluator.runs.index_entry import Entry

# Each column with its type code, which ``array`` and numpy share. Words are stored as codes, with 0 for
# none; a missing answer has offset -1; any other unknown number is NaN.
COLUMNS: Final = {
    "number": "q",
    "at": "q",
    "length": "q",
    "answer": "q",
    "reward": "d",
    "cause": "I",
    "category": "I",
    "finish_reason": "I",
    "tokens": "d",
    "latency_ms": "d",
    "flags": "B",
    "cost": "d",
}
WORDS: Final = ("cause", "category", "finish_reason")
MOST_ROWS: Final = 8_192
_REWARD: Final = list(COLUMNS).index("reward")
_CAUSE: Final = list(COLUMNS).index("cause")
_COST: Final = list(COLUMNS).index("cost")


class Codes(dict[Any, int]):
    """Maps words to small numbers, assigned in the order of first use."""

    def __init__(self, *words: str | None) -> None:
        """Assign the first codes to ``words``."""
        super().__init__({word: code for code, word in enumerate(words)})

    def __missing__(self, word: Any) -> int:
        """Assign the next code to a new word."""
        self[word] = code = len(self)
        return code


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of the index, stored by column."""

    columns: Sequence[array[Any]]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.columns[0])

    def sums(self) -> tuple[int, int, int, float, float, int, int]:
        """Return the totals for the index.

        Returns:
            The number of rows, of failed rows and of rewards, the sum of rewards, the cost, and the range of numbers.
        """
        numbers = self.columns[0]
        causes = self.columns[_CAUSE]
        rewards = [reward for reward in self.columns[_REWARD] if reward == reward]
        cost = math.fsum(cost for cost in self.columns[_COST] if cost == cost)
        failed = len(causes) - causes.count(0)
        return (
            len(numbers),
            failed,
            len(rewards),
            math.fsum(rewards),
            cost,
            min(numbers),
            max(numbers),
        )

    def cells(self) -> list[bytes]:
        """Return the columns as bytes."""
        return [column.tobytes() for column in self.columns]

    def __add__(self, other: Piece) -> Piece:
        """Return the rows of both pieces."""
        columns: list[array[Any]] = []
        for column, other_column in zip(self.columns, other.columns, strict=True):
            columns.append(column + other_column)
        return Piece(columns)

    def without(self, numbers: Collection[int]) -> Piece:
        """Return the rows whose numbers are not in ``numbers``."""
        remaining_positions: list[int] = []
        for position, number in enumerate(self.columns[0]):
            if number not in numbers:
                remaining_positions.append(position)
        columns: list[array[Any]] = []
        for column in self.columns:
            columns.append(array(column.typecode, map(column.__getitem__, remaining_positions)))
        return Piece(columns)

    def recoded(self, old: Sequence[str | None], words: Codes) -> Piece:
        """Return the same rows with the codes of ``words`` for their words.

        Args:
            old: The words by their old codes.
            words: The new codes; missing words are added.
        """
        codes = [words[word] for word in old]
        columns: list[array[Any]] = []
        for name, column in zip(COLUMNS, self.columns, strict=True):
            if name in WORDS:
                columns.append(array("I", map(codes.__getitem__, column)))
            else:
                columns.append(column)
        return Piece(columns)

    def parts(self) -> Iterator[Piece]:
        """Yield pieces of the usual size."""
        for start in range(0, len(self), MOST_ROWS):
            yield Piece([column[start : start + MOST_ROWS] for column in self.columns])


def packed(entries: Iterable[Entry], words: Codes) -> Piece:
    """Return entries as a piece; of several entries with the same number the last one counts."""
    entries_by_number = {entry[0]: entry for entry in entries}
    fields = list(zip(*entries_by_number.values(), strict=True))
    if not fields:
        fields = [()] * len(COLUMNS)
    columns: list[array[Any]] = []
    for (name, kind), values in zip(COLUMNS.items(), fields, strict=True):
        columns.append(_column(name, kind, values, words=words))
    return Piece(columns)


def unpacked(cells: Iterable[bytes]) -> Piece:
    """Return the piece that ``cells`` contain."""
    return Piece([array(kind, data) for kind, data in zip(COLUMNS.values(), cells, strict=True)])


def _column(name: str, kind: str, values: Sequence[Any], words: Codes) -> array[Any]:
    """Return one field of all entries as an array; None becomes -1 or NaN."""
    if name in WORDS:
        return array(kind, [words[value] for value in values])
    if None in values:
        missing = -1 if kind == "q" else math.nan
        return array(kind, [missing if value is None else value for value in values])
    return array(kind, values)
