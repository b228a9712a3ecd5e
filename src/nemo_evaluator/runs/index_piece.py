"""A piece of the index: some thousand rows, column by column, as bytes; and what can be said of them in sum."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from nemo_evaluator.core.values import dataclass
from nemo_evaluator.runs.index_entry import Entry

# Each column with the kind of its numbers, as ``array`` and numpy both name them. Words are kept by their codes, 0 is
# none; an answer that is nowhere is at -1; any other number that is not known is NaN.
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
_REWARD, _CAUSE, _COST = (list(COLUMNS).index(name) for name in ("reward", "cause", "cost"))


class Codes(dict[Any, int]):
    """Words as small numbers, in the order in which they came."""

    def __init__(self, *words: str | None) -> None:
        super().__init__({word: code for code, word in enumerate(words)})

    def __missing__(self, word: Any) -> int:
        self[word] = code = len(self)
        return code


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows as columns."""

    columns: Sequence[array[Any]]

    def __len__(self) -> int:
        return len(self.columns[0])

    def sums(self) -> tuple[int, int, int, float, float, int, int]:
        """Rows, failed ones, rewards, their sum, the cost, the lowest and the highest number."""
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
        """The columns as bytes."""
        return [column.tobytes() for column in self.columns]

    def __add__(self, other: Piece) -> Piece:
        return Piece([one + two for one, two in zip(self.columns, other.columns, strict=True)])

    def without(self, numbers: Collection[int]) -> Piece:
        """Those rows that have other numbers."""
        keep = [at for at, number in enumerate(self.columns[0]) if number not in numbers]
        return Piece(
            [array(column.typecode, [column[at] for at in keep]) for column in self.columns]
        )

    def recoded(self, old: Sequence[str | None], words: Codes) -> Piece:
        """The same with other codes for its words, which are given by their old ones."""
        codes = [words[word] for word in old]
        named = zip(COLUMNS, self.columns, strict=True)
        return Piece(
            [
                array("I", map(codes.__getitem__, one)) if name in WORDS else one
                for name, one in named
            ]
        )

    def parts(self) -> Iterator[Piece]:
        """Pieces of the usual size."""
        for at in range(0, len(self), MOST_ROWS):
            yield Piece([column[at : at + MOST_ROWS] for column in self.columns])


def packed(entries: Iterable[Entry], words: Codes) -> Piece:
    """Entries as a piece; the last one of a number counts."""
    columns = list(zip(*{entry[0]: entry for entry in entries}.values(), strict=True)) or [
        ()
    ] * len(COLUMNS)
    return Piece(
        [
            _column(name, kind, values, words=words)
            for (name, kind), values in zip(COLUMNS.items(), columns, strict=True)
        ]
    )


def unpacked(cells: Iterable[bytes]) -> Piece:
    """A piece from its bytes."""
    return Piece([array(kind, data) for kind, data in zip(COLUMNS.values(), cells, strict=True)])


def _column(name: str, kind: str, values: Sequence[Any], words: Codes) -> array[Any]:
    if name in WORDS:
        return array(kind, [words[value] for value in values])
    if None in values:
        nothing = -1 if kind == "q" else math.nan
        return array(kind, [nothing if value is None else value for value in values])
    return array(kind, values)
