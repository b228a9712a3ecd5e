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
from nemo_evaluator.store.sealed import open_answer, read_answer, read_outcome
from nemo_evaluator.store.sums import verified
from nemo_evaluator.store.view_rows import result_row

if TYPE_CHECKING:
    from nemo_evaluator.runs.query import IndexedRow
    from nemo_evaluator.store.journal_record import AnswerRecord, OutcomeRecord


class RowReader:
    """Reads indexed rows: lines of ``results.jsonl``, or pairs of records of a journal."""

    def __init__(self, file: BinaryIO, *, journal: bool) -> None:
        """Read from an open file, which is a journal or a ``results.jsonl``."""
        self._file = file
        self._journal = journal

    def raw(self, place: IndexedRow, most: int = -1) -> bytes | None:
        """Return the bytes of a row without parsing them, or None if it is longer than ``most`` bytes."""
        outcome_line = self._line(place.at, most)
        answer_line = b"" if place.answer is None else self._line(place.answer, most)
        if most >= 0:
            for line in (outcome_line, answer_line):
                is_whole = not line or line.endswith(b"\n") or len(line) == place.length
                if not is_whole:
                    return None
        return outcome_line + answer_line

    def records(self, place: IndexedRow) -> tuple[AnswerRecord | None, OutcomeRecord | None]:
        """Return the answer and the outcome of a journal's row; both are None for a row of ``results.jsonl``."""
        if not self._journal:
            return None, None
        descriptor = self._file.fileno()
        outcome = read_outcome(descriptor, place.at)
        if place.answer is None:
            return None, outcome
        return read_answer(descriptor, place.answer), outcome

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
    if not path.is_file():
        return
    for offset, line in lines_from(verified(path)):
        row = _parsed(line)
        # A line without its end is still being written, or was torn.
        is_whole = bool(line.strip()) and line.endswith(b"\n")
        if row is not None:
            yield Row(row)
        elif is_whole and not lenient:
            raise UsageError(
                f"{path} holds no row at byte {offset}", hint="was the file cut or overwritten?"
            )


def answer_of(journal: Path, key: tuple[int, int]) -> AnswerRecord | None:
    """Return the last answer of a sample in a journal, or None. It needs no index and parses no other line."""
    line_start = b'{"kind":"answer","problem_idx":%d,"repeat":%d,' % key
    answer = None
    for _, line in lines_from(journal):
        if line.startswith(line_start):
            answer = open_answer(line) or answer
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
        if step_match is None:
            continue
        key = (int(step_match[1]), int(step_match[2]))
        if key not in remaining_keys:
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


def with_trajectories(rows: Iterator[Row], path: Path) -> Iterator[Row]:
    """Yield the rows, each with its conversation if ``trajectories.jsonl`` has a readable one."""
    trajectories = TrajectoryReader(path)
    for row in rows:
        yield trajectories.complete(row)


class TrajectoryReader:
    """Adds their conversations to rows, in one pass through ``trajectories.jsonl``.

    Rows come in the order of that file, or nearly so: conversations of rows that come later are kept in memory.
    """

    def __init__(self, path: Path) -> None:
        """Read from a file, which need not exist."""
        self._lines = _readable_trajectories(path)
        # Conversations that were read before their rows, by problem and repeat.
        self._waiting: dict[tuple[Any, Any], list[JsonDict]] = {}

    def complete(self, row: Row) -> Row:
        """Return a row with its conversation, which is empty if there is none."""
        if row.trajectory:
            return row
        self._read_until(row.key)
        conversation = self._waiting.pop(row.key, [])
        return Row({**row.data, "trajectory": conversation})

    def _read_until(self, key: tuple[int, int]) -> None:
        """Read lines until the conversation of a row is known, or the file ends."""
        while key not in self._waiting:
            line = next(self._lines, None)
            if line is None:
                return
            line_key = (line.get("problem_idx"), line.get("repeat", 0))
            self._waiting[line_key] = line.get("trajectory") or []


def _readable_trajectories(path: Path) -> Iterator[JsonDict]:
    """Yield the rows of ``trajectories.jsonl`` that can be parsed."""
    if not path.is_file():
        return
    for _, line in lines_from(verified(path)):
        row = _parsed(line)
        if row is not None:
            yield row
