"""``results.jsonl`` and ``trajectories.jsonl``, row by row: checked against their digests first, never held whole."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import iter_jsonl, lines_from
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.row import Row
from nemo_evaluator.store.sealed import open_line, read_record
from nemo_evaluator.store.sums import verified
from nemo_evaluator.store.view_rows import result_row

if TYPE_CHECKING:
    from nemo_evaluator.runs.query import Place

# Where a line says which step it is of, and how near its beginning.
_PLACE: Final = re.compile(rb'"problem_idx":\s?(\d+),\s?"repeat":\s?(\d+)')
_PLACE_WITHIN: Final = 200


class RowReader:
    """Reads rows where the index found them: lines of ``results.jsonl``, or the two records of a journal."""

    def __init__(self, file: BinaryIO, *, journal: bool) -> None:
        self._file, self._journal = file, journal

    def raw(self, place: Place, most: int = -1) -> bytes | None:
        """What was written of a row, not parsed; None where that is longer than ``most`` bytes."""
        starts = [place.at, *([] if place.answer is None else [place.answer])]
        lines = [self._line(start, most) for start in starts]
        whole = most < 0 or all(line.endswith(b"\n") or len(line) == place.length for line in lines)
        return b"".join(lines) if whole else None

    def records(self, place: Place) -> tuple[JsonDict | None, JsonDict | None]:
        """The answer and the outcome of the journal, None where there is none; of ``results.jsonl`` neither."""
        if not self._journal:
            return None, None
        descriptor = self._file.fileno()
        answer = None if place.answer is None else read_record(descriptor, place.answer)
        return answer, read_record(descriptor, place.at)

    def row(self, place: Place) -> Row:
        """The row.

        Raises:
            sqlite3.DatabaseError: The index has another reward for it than the file: it is not the index of this file.
        """
        answer, outcome = self.records(place)
        if outcome is None:
            row = Row(orjson.loads(self._line(place.at, -1)))
        else:
            row = Row(result_row(answer, outcome))
        if row.key != place.key or (not row.failed and row.reward != place.reward):
            raise sqlite3.DatabaseError("it is not of these rows")
        return row

    def _line(self, start: int, most: int) -> bytes:
        self._file.seek(start)
        return self._file.readline(most)


def scan_rows(path: Path, start: int = 0) -> Iterator[tuple[int, Any]]:
    """Every line that is not blank with its offset; None where it is not JSON. Raises UsageError for a changed file."""
    loads = orjson.loads
    for offset, line in lines_from(verified(path), start):
        try:
            yield offset, loads(line)
        except orjson.JSONDecodeError:
            if line.strip():
                yield offset, None


def read_rows(path: Path, *, lenient: bool = False) -> Iterator[Row]:
    """The rows of a file; none where it is absent. Raises UsageError for a line that is not a row, or skips it.

    A torn last line is skipped.
    """
    for offset, row in scan_rows(path) if path.is_file() else ():
        if isinstance(row, dict):
            yield Row(row)
        elif not lenient and _line(path, offset).endswith(b"\n"):
            raise UsageError(f"{path} holds no row at byte {offset}", hint="was the file cut or overwritten?")


def answer_of(journal: Path, key: tuple[int, int]) -> JsonDict | None:
    """The last answer of a step in a journal, found without the index: no other line is parsed."""
    begins, found = b'{"kind":"answer","problem_idx":%d,"repeat":%d,' % key, None
    for _, line in lines_from(journal):
        if line.startswith(begins):
            found = open_line(line) or found
    return found


def row_at(path: Path, offset: int) -> JsonDict:
    """The row that starts at an offset."""
    row: JsonDict = orjson.loads(_line(path, offset))
    return row


def _line(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.readline()


def read_trajectories(path: Path) -> Iterator[JsonDict]:
    """The rows of ``trajectories.jsonl``; none where the file is absent."""
    return iter_jsonl(verified(path)) if path.is_file() else iter(())


def trajectories_of(path: Path, wanted: set[tuple[int, int]]) -> Iterator[Row]:
    """The rows of ``trajectories.jsonl`` of some steps. Conversations can be long and many: no other line is parsed."""
    left = set(wanted)
    if not left or not path.is_file():
        return
    for _, line in lines_from(verified(path)):
        place = _PLACE.search(line, 0, _PLACE_WITHIN)
        if place is not None and (key := (int(place[1]), int(place[2]))) in left:
            left.remove(key)
            yield Row(orjson.loads(line))
            if not left:
                return


def with_trajectories(rows: Iterator[Row], path: Path) -> Iterator[Row]:
    """The rows, each with its conversation where one was kept in ``trajectories.jsonl``."""
    rest, passed = read_trajectories(path), dict[tuple[Any, Any], list[JsonDict]]()
    for row in rows:
        if row.trajectory:
            yield row
            continue
        # Both files are in the same order, so hardly more than one conversation is held at a time.
        while row.key not in passed and (line := next(rest, None)) is not None:
            passed[line.get("problem_idx"), line.get("repeat", 0)] = line.get("trajectory") or []
        yield Row(row.data | {"trajectory": passed.pop(row.key, [])})
