"""A local file as rows: jsonl, json, csv, tsv, parquet, each also gzipped.

Files that cannot be read at random (gzip, csv) are turned into JSON lines once, in the cache folder, while streaming.
"""

import csv
import gzip
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, replacing
from nemo_evaluator.core.hashing import digest_parts
from nemo_evaluator.datasets.base import ListRows, Rows
from nemo_evaluator.datasets.jsonl import JsonlRows
from nemo_evaluator.datasets.parquet import ParquetRows
from nemo_evaluator.datasets.settings import cache_dir

# Tables of picture benchmarks carry whole pictures in a field.
_LONGEST_FIELD = 1 << 30
SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".parquet")
_LIST_KEYS = ("data", "rows", "examples", "instances")


def open_file(path: Path, source: str | None = None) -> Rows:
    """The rows of a file, by its suffix; an unknown suffix is read as JSON lines."""
    if not path.is_file():
        raise UsageError(f"dataset file {path} does not exist", hint=f"looked in {path.absolute().parent}")
    source = source or str(path)
    name = path.name.lower()
    if name.endswith(".gz"):
        unpacked = cached(path, name.removesuffix(".gz"), lambda target: _gunzip(path, target))
        return _open_plain(unpacked, source)
    return _open_plain(path, source)


def _open_plain(path: Path, source: str) -> Rows:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _open_parquet(path, source)
    if suffix == ".json":
        return _open_json(path, source)
    if suffix in {".csv", ".tsv", ".tab"}:
        delimiter = "," if suffix == ".csv" else "\t"
        lines = cached(path, f"{path.name}.jsonl", lambda target: _csv_to_jsonl(path, target, delimiter, source))
        return JsonlRows(lines, source)
    return JsonlRows(path, source)


def _open_parquet(path: Path, source: str) -> Rows:
    rows = ParquetRows(path, source)
    if not rows.is_scattered:
        return rows
    lines = cached(path, f"{path.name}.jsonl", lambda target: _parquet_to_jsonl(rows, target))
    return JsonlRows(lines, source)


def _parquet_to_jsonl(rows: ParquetRows, target: IO[bytes]) -> None:
    for batch in rows.batches():
        target.writelines(dumps(row) + b"\n" for row in batch)


def _open_json(path: Path, source: str) -> Rows:
    """A JSON array, an object that holds one, or (as many files called .json are) JSON lines."""
    try:
        value = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        rows = JsonlRows(path, source)
        if len(rows) > 1:
            return rows
        raise UsageError(f"{source} is not valid JSON: {error}", hint="repair it, or save it as .jsonl") from error
    if isinstance(value, dict):
        listed = next((value[key] for key in _LIST_KEYS if isinstance(value.get(key), list)), None)
        value = [value] if listed is None else listed
    if not isinstance(value, list):
        raise UsageError(f"{source} holds a {type(value).__name__}", hint="a .json dataset is a list of objects")
    return ListRows(value, source)


def cached(path: Path, name: str, make: Callable[[IO[bytes]], None]) -> Path:
    """The file that ``make`` derives from ``path``, made once per state (size and time of change) of ``path``."""
    stat = path.stat()
    key = digest_parts(str(path.resolve()), stat.st_size, stat.st_mtime_ns)
    target = cache_dir() / "files" / key / name
    if not target.exists():
        with replacing(target) as file:
            make(file)
    return target


def _gunzip(path: Path, target: IO[bytes]) -> None:
    try:
        with gzip.open(path) as packed:
            shutil.copyfileobj(packed, target, 1 << 20)
    except (gzip.BadGzipFile, EOFError) as error:
        raise UsageError(f"{path} is not a whole gzip file: {error}", hint="fetch it again") from error


def _csv_to_jsonl(path: Path, target: IO[bytes], delimiter: str, source: str) -> None:
    csv.field_size_limit(_LONGEST_FIELD)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader: csv.DictReader[Any] = csv.DictReader(file, delimiter=delimiter, restkey="", restval="")
        for row in reader:
            if "" in row:
                raise UsageError(
                    f"{source}, line {reader.line_num}: more fields than the header has",
                    hint="quote fields that contain the delimiter",
                )
            target.write(dumps(row))
            target.write(b"\n")
