"""JSON lines on disk: an index of line offsets in memory (12 bytes a row), each row read with one ``pread``."""

import hashlib
import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets.base import Rows
from nemo_evaluator.datasets.settings import cache_dir

_CHUNK = 1 << 20
_BOM = b"\xef\xbb\xbf"


class JsonlRows(Rows):
    """The rows of a JSON-lines file. Nothing is mapped: resident memory stays flat however many rows are read."""

    def __init__(self, path: Path, source: str | None = None) -> None:
        self.path = path
        self.source = source or str(path)
        self._starts, self._sizes = _index(path)
        self._fd = -1

    def __len__(self) -> int:
        return len(self._starts)

    def _read(self, index: int) -> JsonDict:
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        line = os.pread(self._fd, int(self._sizes[index]), int(self._starts[index]))
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise SeedError(f"{self.source}: row {index} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise SeedError(f"{self.source}: row {index} is not a JSON object")
        return row

    @cached_property
    def _sha256(self) -> str:
        if self.path.parent.parent != cache_dir() / "files":
            return file_sha256(self.path)
        # Files that we derived never change under their name, so their digest is kept beside them.
        beside = self.path.with_name(f"{self.path.name}.sha256")
        if not beside.exists():
            write_atomic(beside, file_sha256(self.path))
        return beside.read_text(encoding="ascii")

    def content_hash(self) -> str:
        return self._sha256

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _index(path: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.signedinteger[Any]]]:
    """Start and size of every line that is not blank."""
    ends: list[npt.NDArray[np.int64]] = []
    position = 0
    with path.open("rb", buffering=0) as file:
        skip = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
        file.seek(0)
        while chunk := file.read(_CHUNK):
            ends.append(np.flatnonzero(np.frombuffer(chunk, dtype=np.uint8) == 10) + position)
            position += len(chunk)
    stops = np.concatenate([*ends, np.array([position])]) if ends else np.array([position])
    starts = np.concatenate([np.array([skip]), stops[:-1] + 1])
    sizes = stops - starts
    # A line of one byte cannot be a JSON object: it is blank, or the carriage return of a blank line.
    kept = sizes > 1
    narrow = np.int32 if len(sizes) and sizes.max() < 1 << 31 else np.int64
    return starts[kept].astype(np.int64), sizes[kept].astype(narrow)
