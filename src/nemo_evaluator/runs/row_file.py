"""``results.jsonl`` and ``trajectories.jsonl``, row by row: checked against their digests first, never held whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import iter_jsonl, lines_from
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.index_entry import STEP_OF_LINE, STEP_WITHIN, UNREADABLE
from nemo_evaluator.runs.row import Row
from nemo_evaluator.store.sealed import open_line, read_record
from nemo_evaluator.store.sums import verified
from nemo_evaluator.store.view_rows import result_row

if TYPE_CHECKING:
    from nemo_evaluator.runs.query import IndexedRow


class RowReader:
    """Reads rows where the index found them: lines of ``results.jsonl``, or the two records of a journal."""

    def __init__(self, file: BinaryIO, *, journal: bool) -> None:
        self._file = file
        self._journal = journal

    def raw(self, place: IndexedRow, most: int = -1) -> bytes | None:
        """What was written of a row, not parsed; None where that is longer than ``most`` bytes."""
        starts = [place.at, *([] if place.answer is None else [place.answer])]
        lines = [self._line(start, most) for start in starts]
        whole = most < 0 or all(line.endswith(b"\n") or len(line) == place.length for line in lines)
        if whole:
            return b"".join(lines)
        return None

    def records(self, place: IndexedRow) -> tuple[JsonDict | None, JsonDict | None]:
        """The answer and the outcome of the journal, None where there is none; of ``results.jsonl`` neither."""
        if not self._journal:
            return None, None
        descriptor = self._file.fileno()
        if place.answer is None:
            answer: dict[str, Any] | None = None
        else:
            answer = read_record(descriptor, place.answer)
        return answer, read_record(descriptor, place.at)

    def row(self, place: IndexedRow) -> Row:
        """The row.

        Raises:
            sqlite3.DatabaseError: The index has another reward for it than the file: it is not the index of this file.
        """
        if place.cause == UNREADABLE and not self._journal:
            return self._placeholder(place)
        answer, outcome = self.records(place)
        if outcome is None:
            row = Row(orjson.loads(self._line(place.at, -1)))
        else:
            row = Row(result_row(answer, outcome))
        if row.key != place.key or (not row.failed and row.reward != place.reward):
            # Reports read rows without an index, and load no database for it.
            import sqlite3  # noqa: PLC0415

            raise sqlite3.DatabaseError("it is not of these rows")
        return row

    def _placeholder(self, place: IndexedRow) -> Row:
        """A failed row in the place of one that cannot be parsed; it says why."""
        try:
            orjson.loads(self._line(place.at, -1))
            why = "it was changed"
        except orjson.JSONDecodeError as error:
            if "depth limit" in str(error):
                why = f"it is nested too deep ({error})"
            else:
                why = f"it is not JSON ({error})"
        if place.length >= 1 << 20:
            size = f"{place.length / 2**20:,.1f} MB"
        else:
            size = f"{place.length:,} bytes"
        problem, repeat = place.key
        failure = {"cause": UNREADABLE, "message": f"a row of {size} that cannot be read: {why}"}
        return Row(
            {
                "problem_idx": problem,
                "repeat": repeat,
                "status": "failed",
                "reward": None,
                "failure": failure,
            }
        )

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
            raise UsageError(
                f"{path} holds no row at byte {offset}", hint="was the file cut or overwritten?"
            )


def answer_of(journal: Path, key: tuple[int, int]) -> JsonDict | None:
    """The last answer of a step in a journal, found without the index: no other line is parsed."""
    begins = b'{"kind":"answer","problem_idx":%d,"repeat":%d,' % key
    found = None
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
    if path.is_file():
        return iter_jsonl(verified(path))
    return iter(())


def trajectories_of(path: Path, wanted: set[tuple[int, int]]) -> Iterator[Row]:
    """The rows of ``trajectories.jsonl`` of some steps. Conversations can be long and many: no other line is parsed."""
    left = set(wanted)
    if not left or not path.is_file():
        return
    for _, line in lines_from(verified(path)):
        place = STEP_OF_LINE.search(line, 0, STEP_WITHIN)
        if place is not None:
            key: tuple[int, int] | None = (int(place[1]), int(place[2]))
        else:
            key = None
        if key is None or key not in left:
            continue
        left.remove(key)
        row = _parsed(line)
        if row is not None:
            yield Row(row)
        if not left:
            return


def _parsed(line: bytes) -> JsonDict | None:
    """The row in a line; None where nothing can be read."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if isinstance(row, dict):
        return row
    return None


def _readable_trajectories(path: Path) -> Iterator[JsonDict]:
    for _, line in lines_from(verified(path)) if path.is_file() else ():
        row = _parsed(line)
        if row is not None:
            yield row


def with_trajectories(rows: Iterator[Row], path: Path) -> Iterator[Row]:
    """The rows, each with its conversation where one was kept in ``trajectories.jsonl`` and can be read."""
    rest = _readable_trajectories(path)
    passed = dict[tuple[Any, Any], list[JsonDict]]()
    for row in rows:
        if row.trajectory:
            yield row
            continue
        # Both files are in the same order, so hardly more than one conversation is held at a time.
        while row.key not in passed and (line := next(rest, None)) is not None:
            passed[line.get("problem_idx"), line.get("repeat", 0)] = line.get("trajectory") or []
        yield Row(row.data | {"trajectory": passed.pop(row.key, [])})
