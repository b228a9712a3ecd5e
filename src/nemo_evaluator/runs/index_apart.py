"""Reads a large ``results.jsonl`` with several processes, each of which takes every n-th stretch of the file.

``python -m nemo_evaluator.runs.index_apart FILE FIRST STEP START END`` prints the pieces of its stretches.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import orjson

from nemo_evaluator.core.files import lines_from
from nemo_evaluator.runs.index_entry import Entry, row_entry, unreadable_entry
from nemo_evaluator.runs.index_piece import Codes, Piece, packed, unpacked

# The file size from which several processes are faster than one.
LARGE: Final = 256 << 20
_STRETCH: Final = 32 << 20
_MOST_PROCESSES: Final = 8


def pieces_apart(
    path: Path, start: int, end: int
) -> Iterator[tuple[Callable[[Codes], Piece], int]]:
    """Yield the pieces in file order, each with the offset where it ends; stops early if a process is lost.

    Each piece comes as a function that takes the codes of the index.
    """
    process_count = min(os.cpu_count() or 1, _MOST_PROCESSES)
    with ExitStack() as processes:
        pipes: list[subprocess.Popen[bytes]] = []
        for position in range(process_count):
            pipes.append(
                processes.enter_context(
                    _process(path, position, process_count, start=start, end=end)
                )
            )
        words: list[list[str | None]] = [[None] for _ in pipes]
        stretches = range(start, end, _STRETCH)
        for position in range(len(stretches)):
            pipe = pipes[position % process_count].stdout
            assert pipe is not None
            try:
                header = orjson.loads(pipe.readline())
                piece = unpacked([pipe.read(size) for size in header["sizes"]])
            except ValueError:
                return  # The process was lost.
            words[position % process_count] += header["words"]
            yield partial(piece.recoded, words[position % process_count]), header["end"]


def _process(path: Path, first: int, step: int, start: int, end: int) -> subprocess.Popen[bytes]:
    """Start the process that reads every ``step``-th stretch, beginning with number ``first``."""
    arguments = [str(path), *map(str, (first, step, start, end))]
    command = [sys.executable, "-m", "nemo_evaluator.runs.index_apart", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )


def entries_of(path: Path, start: int, end: int) -> Iterator[tuple[int, Entry | None]]:
    """Yield the lines that begin within a stretch: the offset after the line, and the entry or None.

    A row that cannot be parsed, for instance because it is nested too deeply, gets an entry, for which readers show a
    placeholder. A line that is not a row has None.
    """
    lines = lines_from(path, max(0, start - 1))
    if start:
        # The rest of a line that began in an earlier stretch.
        next(lines, None)
    for offset, line in lines:
        if offset >= end:
            return
        try:
            data = orjson.loads(line)
        except orjson.JSONDecodeError:
            yield offset + len(line), unreadable_entry(offset, len(line), line)
            continue
        yield offset + len(line), row_entry(offset, len(line), data) if type(data) is dict else None


def main() -> None:
    """Print the pieces of the stretches that the command line names, each after a header line."""
    path = Path(sys.argv[1])
    first, step, start, end = map(int, sys.argv[2:])
    codes = Codes(None)
    for stretch_start in range(start + first * _STRETCH, end, step * _STRETCH):
        known_count = len(codes)
        stretch_end = stretch_start
        entries: list[Entry] = []
        for line_end, entry in entries_of(path, stretch_start, min(end, stretch_start + _STRETCH)):
            stretch_end = line_end
            if entry is not None:
                entries.append(entry)
        cells = packed(entries, codes).cells()
        header = {
            "words": list(codes)[known_count:],
            "sizes": [len(cell) for cell in cells],
            "end": stretch_end,
        }
        sys.stdout.buffer.write(b"".join([orjson.dumps(header), b"\n", *cells]))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
