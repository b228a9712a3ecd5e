"""Entries of a large ``results.jsonl``, read by several processes: each takes every n-th stretch of the file.

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

# From this size on, processes are worth their start.
LARGE: Final = 256 << 20
_STRETCH: Final = 32 << 20
_MOST_PROCESSES: Final = 8


def pieces_apart(
    path: Path, start: int, end: int
) -> Iterator[tuple[Callable[[Codes], Piece], int]]:
    """The pieces in the order of the file, given the words, each with where it ends; fewer if a process is lost."""
    number = min(os.cpu_count() or 1, _MOST_PROCESSES)
    with ExitStack() as open_ones:
        pipes: list[subprocess.Popen[bytes]] = []
        for at in range(number):
            pipes.append(open_ones.enter_context(_process(path, at, number, start=start, end=end)))
        words: list[list[str | None]] = [[None] for _ in pipes]
        stretches = range(start, end, _STRETCH)
        for at in range(len(stretches)):
            pipe = pipes[at % number].stdout
            assert pipe is not None
            try:
                said = orjson.loads(pipe.readline())
                piece = unpacked([pipe.read(size) for size in said["sizes"]])
            except ValueError:
                return  # The process was lost.
            words[at % number] += said["words"]
            yield partial(piece.recoded, words[at % number]), said["end"]


def _process(path: Path, first: int, step: int, start: int, end: int) -> subprocess.Popen[bytes]:
    arguments = [str(path), *map(str, (first, step, start, end))]
    command = [sys.executable, "-m", "nemo_evaluator.runs.index_apart", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )


def entries_of(path: Path, start: int, end: int) -> Iterator[tuple[int, Entry | None]]:
    """Each line that begins within a stretch, as where it ends and its entry; None for a line that is no row.

    A row that cannot be parsed, because it is nested too deep for instance, has an entry: readers show a placeholder.
    """
    lines = lines_from(path, max(0, start - 1))
    if start:
        # What is left of the line that a stretch before this one began.
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
    """Print the pieces of the stretches that the command line names, each after a line about it."""
    path = Path(sys.argv[1])
    first, step, start, end = map(int, sys.argv[2:])
    words = Codes(None)
    for begin in range(start + first * _STRETCH, end, step * _STRETCH):
        known = len(words)
        found = list(entries_of(path, begin, min(end, begin + _STRETCH)))
        cells = packed((entry for _, entry in found if entry is not None), words).cells()
        upto = found[-1][0] if found else begin
        said = {"words": list(words)[known:], "sizes": list(map(len, cells)), "end": upto}
        sys.stdout.buffer.write(b"".join([orjson.dumps(said), b"\n", *cells]))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
