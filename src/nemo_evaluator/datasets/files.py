"""Local files as rows: jsonl, json, csv, tsv and parquet, each also gzipped.

Files without random access (gzip, csv, parquet with many row groups) are converted to JSON lines once, in the cache
folder, while streaming.
"""

import csv
import gzip
import shutil
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, file_sha256, replacing
from nemo_evaluator.core.hashing import digest_parts
from nemo_evaluator.core.lazy import optional
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets.base import ListRows, Rows
from nemo_evaluator.datasets.jsonl import JsonlRows
from nemo_evaluator.datasets.settings import cache_dir

# Tables of image benchmarks contain whole images in a field.
_LONGEST_FIELD = 1 << 30
SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".parquet")
_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_LIST_KEYS = ("data", "rows", "examples", "instances")
# The number of row groups of a parquet file that stay in memory.
_KEPT = 4


def open_file(path: Path, source: str | None = None) -> Rows:
    """Open a file.

    Args:
        path: The file; its suffix decides the format, and an unknown suffix means JSON lines.
        source: The name of the dataset in messages; by default the path.

    Raises:
        UsageError: The file does not exist, or does not have the format.
    """
    if not path.is_file():
        raise UsageError(
            f"dataset file {path} does not exist", hint=f"looked in {path.absolute().parent}"
        )
    source = source or str(path)
    file_name = path.name.lower()
    if file_name.endswith(".gz"):
        path = cached(path, file_name.removesuffix(".gz"), partial(_gunzip, path))
    suffix = path.suffix.lower()
    if suffix == ".json":
        return _open_json(path, source)
    if suffix == ".parquet":
        return _open_parquet(path, source)
    if suffix in _DELIMITERS:
        convert = partial(_csv_to_jsonl, path, _DELIMITERS[suffix], source)
        path = cached(path, f"{path.name}.jsonl", convert)
    return JsonlRows(path, source)


def _open_parquet(path: Path, source: str) -> Rows:
    rows = ParquetRows(path, source)
    if rows.is_scattered:
        return JsonlRows(cached(path, f"{path.name}.jsonl", rows.write_jsonl), source)
    return rows


def _open_json(path: Path, source: str) -> Rows:
    """Open a JSON array, an object that contains one, or (as many files called .json are) JSON lines."""
    try:
        document = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        rows = JsonlRows(path, source)
        if len(rows) > 1:
            return rows
        raise UsageError(
            f"{source} is not valid JSON: {error}", hint="repair it, or save it as .jsonl"
        ) from error
    if isinstance(document, dict):
        document = _list_in(document)
    if not isinstance(document, list):
        raise UsageError(
            f"{source} holds a {type(document).__name__}",
            hint="a .json dataset is a list of objects",
        )
    return ListRows(document, source)


def _list_in(document: JsonDict) -> list[Any]:
    """Return the rows that an object contains under one of the usual keys; else the object is the only row."""
    for key in _LIST_KEYS:
        rows = document.get(key)
        if isinstance(rows, list):
            return rows
    return [document]


def cached(path: Path, name: str, make: Callable[[IO[bytes]], None]) -> Path:
    """Return a file derived from another; it is created once per state (size and time of change) of the other.

    Args:
        path: The original file.
        name: The name of the derived file.
        make: Writes the derived file.
    """
    stat = path.stat()
    key = digest_parts(str(path.resolve()), stat.st_size, stat.st_mtime_ns)
    target = cache_dir() / "files" / key / name
    if not target.exists():
        with replacing(target) as file:
            make(file)
    return target


def _gunzip(path: Path, target: IO[bytes]) -> None:
    """Decompress a gzip file; raise UsageError if it is incomplete or not gzip."""
    try:
        with gzip.open(path) as packed:
            shutil.copyfileobj(packed, target, 1 << 20)
    except (gzip.BadGzipFile, EOFError) as error:
        raise UsageError(
            f"{path} is not a whole gzip file: {error}", hint="fetch it again"
        ) from error


def _csv_to_jsonl(path: Path, delimiter: str, source: str, target: IO[bytes]) -> None:
    """Convert a CSV file to JSON lines; raise UsageError for a row with more fields than the header."""
    csv.field_size_limit(_LONGEST_FIELD)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader: csv.DictReader[Any] = csv.DictReader(
            file, delimiter=delimiter, restkey="", restval=""
        )
        for row in reader:
            if "" in row:
                hint = "quote fields that contain the delimiter"
                raise UsageError(
                    f"{source}, line {reader.line_num}: more fields than the header has", hint=hint
                )
            target.write(dumps(row) + b"\n")


class ParquetRows(Rows):
    """The rows of a parquet file; the most recently read row groups stay in memory.

    Reading more groups than that in random order would decode a group for almost every row; see `is_scattered`.

    Args:
        path: The file.
        source: Where the rows come from, for messages.
    """

    def __init__(self, path: Path, source: str) -> None:
        self.path = path
        self.source = source
        self._file: Any = optional("pyarrow.parquet", extra="all", what="pyarrow").ParquetFile(path)
        metadata = self._file.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._ends = list(accumulate(sizes))
        self._table = lru_cache(_KEPT)(self._file.read_row_group)

    @property
    def is_scattered(self) -> bool:
        """Whether converting the file to JSON lines is better: it has many row groups, and JSON can hold its values."""
        return len(self._ends) > _KEPT and "binary" not in str(self._file.schema_arrow)

    def write_jsonl(self, target: IO[bytes]) -> None:
        """Write all rows in order as JSON lines."""
        for batch in self._file.iter_batches(512):
            target.writelines(dumps(row) + b"\n" for row in batch.to_pylist())

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _read(self, index: int) -> JsonDict:
        group = bisect_right(self._ends, index)
        group_start = self._ends[group - 1] if group else 0
        table = self._table(group).slice(index - group_start, 1)
        row: JsonDict = table.to_pylist()[0]
        return row

    def content_hash(self) -> str:
        """Return the SHA-256 of the file."""
        return file_sha256(self.path)

    def close(self) -> None:
        """Drop the row groups in memory."""
        self._table.cache_clear()
