"""JSON lines on disk: nel keeps an index of line offsets in memory (12 bytes per row) and reads rows on request."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

import orjson

from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.core.files import file_sha256, write_atomic
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets.base import Rows
from nemo_evaluator.datasets.settings import cache_dir

_CHUNK: Final = 1 << 20
_BLOCK: Final = 1 << 15
_BOM: Final = b"\xef\xbb\xbf"
_WIDEST: Final = 1 << 31


class JsonlRows(Rows):
    """The rows of a JSON-lines file.

    The file is not memory-mapped: resident memory stays constant however many rows are read.

    Args:
        path: The file.
        source: Where the rows come from, for messages; by default the path.
    """

    _fd = -1

    def __init__(self, path: Path, source: str | None = None) -> None:
        self.path = path
        self.source = source or str(path)
        self._starts, self._sizes = _index(path)
        # The last bytes read and their offset; one tuple, because several threads may read.
        self._block = (b"", 0)
        # The row that a sequential reader requests next.
        self._next = 0
        self._expected: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def expect(self, numbers: Sequence[int]) -> None:
        """Read the announced rows in advance, if they are small enough together.

        Reading many rows together takes a fifth of the time of reading each between other work.
        """
        self._expected = {}
        if sum(self._sizes[number] for number in numbers) > _CHUNK:
            return
        # If a read fails, each row is read alone later, and reports its own error.
        with suppress(OSError):
            expected_lines: dict[int, bytes] = {}
            for number in numbers:
                expected_lines[number] = self._pread(number, self._sizes[number])
            self._expected = expected_lines

    def _pread(self, index: int, length: int) -> bytes:
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._fd, length, self._starts[index])

    def _read(self, index: int) -> JsonDict:
        line: bytes | memoryview | None = self._expected.get(index)
        if line is None:
            line = self._line(index)
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise SeedError(f"{self.source}: row {index} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise SeedError(f"{self.source}: row {index} is not a JSON object")
        return row

    def _line(self, index: int) -> bytes | memoryview:
        """Return the bytes of a row.

        Sequential readers read a block of rows at a time; others read only the requested row.
        """
        block, block_start = self._block
        size = self._sizes[index]
        offset = self._starts[index] - block_start
        if not 0 <= offset <= len(block) - size:
            read_size = size
            if index == self._next:
                read_size = max(size, _BLOCK)
            block = self._pread(index, read_size)
            offset = 0
            self._block = block, self._starts[index]
        self._next = index + 1
        return memoryview(block)[offset : offset + size]

    @cached_property
    def _sha256(self) -> str:
        """The SHA-256 of the file, stored next to it if nel derived the file."""
        if self.path.parent.parent != cache_dir() / "files":
            return file_sha256(self.path)
        # Files that nel derived never change under their name, so their digest is stored in a file next to them.
        digest_file = self.path.with_name(f"{self.path.name}.sha256")
        if not digest_file.exists():
            write_atomic(digest_file, file_sha256(self.path))
        return digest_file.read_text(encoding="ascii")

    def content_hash(self) -> str:
        """Return the SHA-256 of the file."""
        return self._sha256

    def close(self) -> None:
        """Close the file; reading a row opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()


def _index(path: Path) -> tuple[array[int], array[int]]:
    """Return the start and the size of every line that is not blank."""
    starts = array("q")
    sizes = array("i")
    with path.open("rb", buffering=_CHUNK) as file:
        has_bom = file.read(len(_BOM)) == _BOM
        position = len(_BOM) if has_bom else 0
        file.seek(position)
        for line in file:
            size = len(line) - line.endswith(b"\n")
            # A line of one byte cannot be a JSON object: it is blank, or the carriage return of a blank line.
            if size > 1:
                if size >= _WIDEST and sizes.typecode == "i":
                    sizes = array("q", sizes)
                starts.append(position)
                sizes.append(size)
            position += len(line)
    return starts, sizes
