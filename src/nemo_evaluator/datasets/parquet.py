"""Parquet on disk: one row group in memory at a time."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from nemo_evaluator.core.files import file_sha256
from nemo_evaluator.core.lazy import optional
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets.base import Rows


class ParquetRows(Rows):
    """The rows of a parquet file; the last four row groups are kept.

    Reading more groups than that in shuffled order would decode a group for almost every row: ``is_scattered`` says so.
    """

    _KEPT = 4

    def __init__(self, path: Path, source: str | None = None) -> None:
        self.path = path
        self.source = source or str(path)
        library = optional("pyarrow.parquet", extra="all", what="pyarrow")
        self._file: Any = library.ParquetFile(path)
        groups = range(self._file.metadata.num_row_groups)
        self._ends = list(accumulate(self._file.metadata.row_group(group).num_rows for group in groups))
        self._tables: dict[int, Any] = {}

    @property
    def is_scattered(self) -> bool:
        """True for many row groups of values that JSON can hold: such a file is better turned into JSON lines."""
        return len(self._ends) > self._KEPT and "binary" not in str(self._file.schema_arrow)

    def batches(self) -> Iterator[list[JsonDict]]:
        """All rows in order, some hundreds at a time."""
        for batch in self._file.iter_batches(512):
            yield batch.to_pylist()

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _read(self, index: int) -> JsonDict:
        group = bisect_right(self._ends, index)
        offset = index - (self._ends[group - 1] if group else 0)
        row: JsonDict = self._table(group).slice(offset, 1).to_pylist()[0]
        return row

    def _table(self, group: int) -> Any:
        table = self._tables.get(group)
        if table is None:
            if len(self._tables) >= self._KEPT:
                del self._tables[next(iter(self._tables))]
            table = self._tables[group] = self._file.read_row_group(group)
        return table

    def content_hash(self) -> str:
        return file_sha256(self.path)

    def close(self) -> None:
        self._tables.clear()
