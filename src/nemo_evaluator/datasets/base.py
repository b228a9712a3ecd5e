"""Rows: a dataset as a sequence that reads each row on request and keeps none."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, overload

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted


class Rows(Sequence[JsonDict]):
    """A sequence of rows; a slice is again a sequence of rows.

    Subclasses implement `_read` and ``__len__``. A returned row belongs to the caller, who may change it.
    """

    # A description of where the rows come from, for messages.
    source: str = ""

    @abstractmethod
    def _read(self, index: int) -> JsonDict:
        """Read the row at an index that is within bounds."""

    @overload
    def __getitem__(self, index: int) -> JsonDict: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> JsonDict | Rows:
        """Return a row, or the rows of a slice; a negative index counts from the end."""
        size = len(self)
        if isinstance(index, slice):
            numbers = range(size)[index]
            if numbers == range(size):
                return self
            return PickedRows(self, numbers)
        if index < 0:
            index += size
        if not 0 <= index < size:
            raise IndexError(
                f"{self.source or 'dataset'} has {counted(size, 'row')}, there is no row {index}"
            )
        return self._read(index)

    def expect(self, numbers: Sequence[int]) -> None:
        """Announce the rows that will be read next, in case reading them together is cheaper."""

    def content_hash(self) -> str:
        """Return a digest of the content.

        Equal rows in the same order have the same digest within one kind of source.
        """
        return digest([digest(row) for row in self])

    def close(self) -> None:
        """Close open files; reading a row opens them again."""


class ListRows(Rows):
    """Rows that are already in memory.

    Args:
        rows: The rows.
        source: Where the rows come from, for messages.

    Raises:
        UsageError: A row is not a dict.
    """

    def __init__(self, rows: Iterable[Any], source: str = "") -> None:
        row_list: list[Any] = list(rows)
        for number, row in enumerate(row_list):
            if not isinstance(row, dict):
                message = f"row {number} of {source or 'the dataset'} is a {type(row).__name__}"
                raise UsageError(
                    f"{message}, not a mapping of columns",
                    hint="a dataset yields one dict per problem",
                )
        self._rows: list[JsonDict] = row_list
        self.source = source

    def __len__(self) -> int:
        return len(self._rows)

    def _read(self, index: int) -> JsonDict:
        return dict(self._rows[index])


class PickedRows(Rows):
    """Selected rows of another sequence.

    Args:
        rows: The other sequence.
        numbers: The row numbers to select, in order.
    """

    def __init__(self, rows: Rows, numbers: Sequence[int]) -> None:
        self._rows = rows
        self._numbers = numbers
        self.source = rows.source

    def __len__(self) -> int:
        return len(self._numbers)

    def _read(self, index: int) -> JsonDict:
        return self._rows[int(self._numbers[index])]

    def expect(self, numbers: Sequence[int]) -> None:
        """Announce the corresponding rows of the other sequence."""
        self._rows.expect([int(self._numbers[number]) for number in numbers])

    def close(self) -> None:
        """Close the other sequence."""
        self._rows.close()


class MappedRows(Rows):
    """Rows that a function transforms when they are read.

    Args:
        rows: The original rows.
        function: Takes a row and its index, and returns the new row.
    """

    def __init__(self, rows: Rows, function: Callable[[JsonDict, int], JsonDict]) -> None:
        self._rows = rows
        self._function = function
        self.source = rows.source

    def __len__(self) -> int:
        return len(self._rows)

    def _read(self, index: int) -> JsonDict:
        return self._function(self._rows[index], index)

    def expect(self, numbers: Sequence[int]) -> None:
        """Announce the rows to the original sequence."""
        self._rows.expect(numbers)

    def content_hash(self) -> str:
        """Return the digest of the original rows."""
        return self._rows.content_hash()

    def close(self) -> None:
        """Close the original rows."""
        self._rows.close()


class ChainedRows(Rows):
    """Several sequences of rows, one after another."""

    def __init__(self, parts: Iterable[Rows]) -> None:
        self._parts = list(parts)
        self._ends = list(accumulate(map(len, self._parts)))
        sources = dict.fromkeys(part.source for part in self._parts)
        self.source = " + ".join(sources)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _read(self, index: int) -> JsonDict:
        part_number = bisect_right(self._ends, index)
        start = self._ends[part_number - 1] if part_number else 0
        return self._parts[part_number][index - start]

    def content_hash(self) -> str:
        """Return a digest of the digests of all parts."""
        return digest([part.content_hash() for part in self._parts])

    def close(self) -> None:
        """Close all parts."""
        for part in self._parts:
            part.close()
