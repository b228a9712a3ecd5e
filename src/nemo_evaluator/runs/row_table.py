"""``results.jsonl`` as columns: one pass, only what decisions need, texts left on disk until they are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.runs.answers import Answers
from nemo_evaluator.runs.row_file import row_at, scan_rows
from nemo_evaluator.runs.row_parser import NO_CATEGORY, LineReader
from nemo_evaluator.store.view_rows import TRUNCATED

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Keys: TypeAlias = NDArray[np.uint64]
Flags: TypeAlias = NDArray[np.bool_]

_CHUNK: Final = 2_000


@dataclass(slots=True)
class RowTable:
    """The columns of a run.

    ``reward`` is NaN on a failed row; ``content``, ``prompt`` and ``expected`` are digests, 0 where a row has none.
    ``unanswered`` are empty or content-filtered answers that were not right to be so.
    ``tokens`` are those of the answer, ``total`` those of the whole exchange, 0 where a row does not say.
    """

    path: Path | None
    problem: Ints
    repeat: Ints
    reward: Floats
    content: Keys
    prompt: Ints
    expected: Ints
    category: Ints
    cause: Ints
    finish: Ints
    tokens: Floats
    total: Floats
    latency: Floats
    cost: Floats
    unparsed: Flags
    refusal: Flags
    unanswered: Flags
    offset: Ints
    categories: list[str]
    causes: list[str]
    finishes: list[str]
    malformed: int = 0
    # Rows of a (problem, repeat) that came again later; the later one counts.
    repeated: int = 0
    # Rows that came from memory rather than from a file; ``offset`` is then their place in it.
    held: Sequence[JsonDict] | None = None

    def __len__(self) -> int:
        return len(self.problem)

    @property
    def scored(self) -> Flags:
        """Which rows hold a measurement."""
        return ~np.isnan(self.reward)

    @property
    def truncated(self) -> Flags:
        """Which answers ended because they were too long."""
        codes = [code for code, name in enumerate(self.finishes) if name in TRUNCATED]
        return np.isin(self.finish, codes)

    @property
    def unanswered_share(self) -> float:
        """Empty or content-filtered answers as a share of the scored rows."""
        return float(self.unanswered[self.scored].mean()) if self.scored.any() else 0.0

    @property
    def has_categories(self) -> bool:
        """Whether any row names its category."""
        return any(name != NO_CATEGORY for name in self.categories)

    def full(self, index: int) -> JsonDict:
        """The whole row, read again from where it lies."""
        if self.held is not None:
            return dict(self.held[int(self.offset[index])])
        assert self.path is not None
        return row_at(self.path, int(self.offset[index]))

    def take(self, keep: Flags | Ints) -> Self:
        """The same columns, fewer rows."""
        columns: dict[str, Any] = {name: getattr(self, name)[keep] for name in _COLUMNS}
        return replace(self, **columns, repeated=0)


class WrittenRows(NamedTuple):
    """Rows as they were just written, for whoever would read them again at once to check them."""

    table: RowTable
    answers: Answers


# What is kept in memory per row; the narrow types are widened by numpy where a sum needs it.
_COLUMNS: Final = {
    "problem": np.int32,
    "repeat": np.int32,
    "reward": np.float64,
    "content": np.uint64,
    "prompt": np.int64,
    "expected": np.int64,
    "category": np.int32,
    "cause": np.int16,
    "finish": np.int16,
    "tokens": np.float32,
    "total": np.float32,
    "latency": np.float32,
    "cost": np.float32,
    "unparsed": np.bool_,
    "refusal": np.bool_,
    "unanswered": np.bool_,
    "offset": np.int64,
}


def read_table(path: Path, *, scorer: str | None = None, answers: Answers | None = None) -> RowTable:
    """The columns of a ``results.jsonl``, none where it is absent; ``scorer`` takes that scorer's reward instead.

    A line that is not JSON is counted and left out; a file in which most lines are not is refused. ``answers`` count
    every row in passing.
    """
    made = _Builder(path, scorer)
    for offset, row in scan_rows(path) if path.is_file() else ():
        if answers is not None and isinstance(row, dict):
            answers.add(row)
        made.add(offset, row)
    rows = made.table()
    if rows.malformed > len(rows):
        raise UsageError(
            f"{path}: {counted(rows.malformed, 'malformed line')}", hint="was the file cut or overwritten?"
        )
    return rows


def table_of(results: Sequence[JsonDict], *, scorer: str | None = None) -> RowTable:
    """The same columns from rows held in memory."""
    made = _Builder(None, scorer)
    for number, row in enumerate(results):
        made.add(number, row)
    rows = made.table()
    rows.held = results
    return rows


class _Builder:
    """Columns that grow row by row."""

    def __init__(self, path: Path | None, scorer: str | None = None) -> None:
        self._path, self._reader = path, LineReader(scorer)
        self._rows: list[tuple[Any, ...]] = []
        self._columns: dict[str, NDArray[Any]] = {name: np.zeros(_CHUNK, dtype) for name, dtype in _COLUMNS.items()}
        self._count = 0

    def add(self, offset: int, row: Any) -> None:
        """Take in a row; what is none is counted."""
        numbers = self._reader.numbers(offset, row)
        if numbers is not None:
            self._rows.append(numbers)
            if len(self._rows) >= _CHUNK:
                self._take()

    def table(self) -> RowTable:
        """The columns; nothing is added after that."""
        self._take()
        columns: dict[str, Any] = {name: column[: self._count] for name, column in self._columns.items()}
        reader = self._reader
        return _last_of_each(
            RowTable(
                self._path,
                **columns,
                categories=list(reader.categories),
                causes=list(reader.causes),
                finishes=list(reader.finishes),
                malformed=reader.malformed,
            )
        )

    def _take(self) -> None:
        end = self._count + len(self._rows)
        for (name, dtype), values in zip(_COLUMNS.items(), zip(*self._rows, strict=True), strict=False):
            column = old = self._columns[name]
            if len(column) < end:
                column = self._columns[name] = np.zeros(2 * end, dtype)
                column[: self._count] = old[: self._count]
            column[self._count : end] = np.array(values, dtype)
        self._rows, self._count = [], end


def _last_of_each(rows: RowTable) -> RowTable:
    """One row per (problem, repeat): of several the last one counts."""
    if not len(rows):
        return rows
    step = rows.problem.astype(np.int64) * (int(rows.repeat.max()) + 1) + rows.repeat
    if bool((step[1:] > step[:-1]).all()):
        return rows
    order = np.argsort(step, kind="stable")
    last = np.r_[step[order][1:] != step[order][:-1], True]
    kept = rows.take(order[last])
    kept.repeated = len(rows) - len(kept)
    return kept
