"""Reads ``results.jsonl`` and ``trajectories.jsonl`` row by row, after checking their digests."""

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
    """Reads indexed rows: lines of ``results.jsonl``, or pairs of records of a journal."""

    def __init__(self, file: BinaryIO, *, journal: bool) -> None:
        """Read from an open file, which is a journal or a ``results.jsonl``."""
        self._file = file
        self._journal = journal

    def raw(self, place: IndexedRow, most: int = -1) -> bytes | None:
        """Return the bytes of a row without parsing them, or None if it is longer than ``most`` bytes."""
        starts = [place.at, *([] if place.answer is None else [place.answer])]
        lines = [self._line(start, most) for start in starts]
        complete = most < 0 or all(
            line.endswith(b"\n") or len(line) == place.length for line in lines
        )
        if complete:
            return b"".join(lines)
        return None

    def records(self, place: IndexedRow) -> tuple[JsonDict | None, JsonDict | None]:
        """Return the answer and the outcome of a journal's row; both are None for a row of ``results.jsonl``."""
        if not self._journal:
            return None, None
        descriptor = self._file.fileno()
        if place.answer is None:
            answer: dict[str, Any] | None = None
        else:
            answer = read_record(descriptor, place.answer)
        return answer, read_record(descriptor, place.at)

    def row(self, place: IndexedRow) -> Row:
        """Return the row.

        Raises:
            sqlite3.DatabaseError: The row differs from its index entry, so the index does not belong to the file.
        """
        if place.cause == UNREADABLE and not self._journal:
            return self._placeholder(place)
        answer, outcome = self.records(place)
        if outcome is None:
            row = Row(orjson.loads(self._line(place.at, -1)))
        else:
            row = Row(result_row(answer, outcome))
        if row.key != place.key or (not row.failed and row.reward != place.reward):
            # Reports read rows without an index and should not load sqlite3.
            import sqlite3  # noqa: PLC0415

            raise sqlite3.DatabaseError("it is not of these rows")
        return row

    def _placeholder(self, place: IndexedRow) -> Row:
        """Return a failed row in place of one that cannot be parsed, with the reason as its error."""
        try:
            orjson.loads(self._line(place.at, -1))
            reason = "it was changed"
        except orjson.JSONDecodeError as error:
            if "depth limit" in str(error):
                reason = f"it is nested too deep ({error})"
            else:
                reason = f"it is not JSON ({error})"
        if place.length >= 1 << 20:
            size = f"{place.length / 2**20:,.1f} MB"
        else:
            size = f"{place.length:,} bytes"
        problem, repeat = place.key
        failure = {"cause": UNREADABLE, "message": f"a row of {size} that cannot be read: {reason}"}
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
        """Return the line at an offset, or its first ``most`` bytes."""
        self._file.seek(start)
        return self._file.readline(most)


def scan_rows(path: Path, start: int = 0) -> Iterator[tuple[int, Any]]:
    """Yield every line that is not blank, parsed, with its offset; None for a line that is not JSON.

    Raises:
        UsageError: The file differs from its recorded digest.
    """
    loads = orjson.loads
    for offset, line in lines_from(verified(path), start):
        try:
            yield offset, loads(line)
        except orjson.JSONDecodeError:
            if line.strip():
                yield offset, None


def read_rows(path: Path, *, lenient: bool = False) -> Iterator[Row]:
    """Yield the rows of a file; none if it does not exist. A torn last line is skipped.

    Args:
        path: The file.
        lenient: Skip lines that are not rows.

    Raises:
        UsageError: A line is not a row, or the file differs from its recorded digest.
    """
    for offset, row in scan_rows(path) if path.is_file() else ():
        if isinstance(row, dict):
            yield Row(row)
        elif not lenient and _line(path, offset).endswith(b"\n"):
            raise UsageError(
                f"{path} holds no row at byte {offset}", hint="was the file cut or overwritten?"
            )


def answer_of(journal: Path, key: tuple[int, int]) -> JsonDict | None:
    """Return the last answer of a sample in a journal, or None. It needs no index and parses no other line."""
    line_start = b'{"kind":"answer","problem_idx":%d,"repeat":%d,' % key
    answer = None
    for _, line in lines_from(journal):
        if line.startswith(line_start):
            answer = open_line(line) or answer
    return answer


def row_at(path: Path, offset: int) -> JsonDict:
    """Return the row that starts at an offset."""
    row: JsonDict = orjson.loads(_line(path, offset))
    return row


def _line(path: Path, offset: int) -> bytes:
    """Return the line at an offset of a file."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.readline()


def read_trajectories(path: Path) -> Iterator[JsonDict]:
    """Return the rows of ``trajectories.jsonl``; empty if the file does not exist."""
    if path.is_file():
        return iter_jsonl(verified(path))
    return iter(())


def trajectories_of(path: Path, wanted: set[tuple[int, int]]) -> Iterator[Row]:
    """Yield the rows of ``trajectories.jsonl`` for some samples; other lines, which may be long, are not parsed."""
    remaining_keys = set(wanted)
    if not remaining_keys or not path.is_file():
        return
    for _, line in lines_from(verified(path)):
        step_match = STEP_OF_LINE.search(line, 0, STEP_WITHIN)
        if step_match is not None:
            key: tuple[int, int] | None = (int(step_match[1]), int(step_match[2]))
        else:
            key = None
        if key is None or key not in remaining_keys:
            continue
        remaining_keys.remove(key)
        row = _parsed(line)
        if row is not None:
            yield Row(row)
        if not remaining_keys:
            return


def _parsed(line: bytes) -> JsonDict | None:
    """Return the row in a line, or None if it cannot be parsed."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if isinstance(row, dict):
        return row
    return None


def _readable_trajectories(path: Path) -> Iterator[JsonDict]:
    """Yield the rows of ``trajectories.jsonl`` that can be parsed."""
    for _, line in lines_from(verified(path)) if path.is_file() else ():
        row = _parsed(line)
        if row is not None:
            yield row


def with_trajectories(rows: Iterator[Row], path: Path) -> Iterator[Row]:
    """Yield the rows, each with its conversation if ``trajectories.jsonl`` has a readable one."""
    trajectory_lines = _readable_trajectories(path)
    waiting = dict[tuple[Any, Any], list[JsonDict]]()
    for row in rows:
        if row.trajectory:
            yield row
            continue
        # Both files have the same order, so there is hardly ever more than one waiting conversation.
        while (
            row.key not in waiting and (trajectory_line := next(trajectory_lines, None)) is not None
        ):
            waiting[trajectory_line.get("problem_idx"), trajectory_line.get("repeat", 0)] = (
                trajectory_line.get("trajectory") or []
            )
        yield Row(row.data | {"trajectory": waiting.pop(row.key, [])})
