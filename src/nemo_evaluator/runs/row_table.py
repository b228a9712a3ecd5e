"""``results.jsonl`` as columns for decisions, read in one pass; texts stay on disk until they are needed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.runs.answers import Answers
from nemo_evaluator.runs.row_file import row_at, scan_rows
from nemo_evaluator.runs.row_parser import COLUMNS, NO_CATEGORY, RowColumns
from nemo_evaluator.store.view_rows import TRUNCATED

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Keys: TypeAlias = NDArray[np.uint64]
Flags: TypeAlias = NDArray[np.bool_]


@dataclass(slots=True)
class RowTable:
    """The columns of a run.

    ``reward`` is NaN on a failed row; ``content``, ``prompt`` and ``expected`` are digests, 0 if a row has none.
    ``cluster`` is a digest of what its problem shares with others, 0 for a problem of its own.
    ``unanswered`` marks answers that are empty or content-filtered without being right.
    ``tokens`` are those of the answer, ``total`` those of the whole exchange, 0 if a row does not record them.
    """

    path: Path | None
    problem: Ints
    repeat: Ints
    reward: Floats
    content: Keys
    cluster: Ints
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
    # Rows whose (problem, repeat) occurs again later; the later row counts.
    repeated: int = 0
    # The rows if they come from memory rather than a file; ``offset`` is then their position in it.
    held: Sequence[JsonDict] | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.problem)

    @property
    def scored(self) -> Flags:
        """Which rows have a reward."""
        return ~np.isnan(self.reward)

    @property
    def truncated(self) -> Flags:
        """Which answers were cut off because they were too long."""
        codes = [code for code, name in enumerate(self.finishes) if name in TRUNCATED]
        return np.isin(self.finish, codes)

    @property
    def unanswered_share(self) -> float:
        """Empty or content-filtered answers as a share of the scored rows."""
        if self.scored.any():
            return float(self.unanswered[self.scored].mean())
        return 0.0

    @property
    def has_categories(self) -> bool:
        """Whether any row names its category."""
        return any(name != NO_CATEGORY for name in self.categories)

    def full(self, index: int) -> JsonDict:
        """Return the whole row at a position, read again from its file."""
        if self.held is not None:
            return dict(self.held[int(self.offset[index])])
        assert self.path is not None
        return row_at(self.path, int(self.offset[index]))

    def take(self, keep: Flags | Ints) -> Self:
        """Return a table with only some of the rows."""
        columns: dict[str, Any] = {name: getattr(self, name)[keep] for name in COLUMNS}
        return replace(self, **columns, repeated=0)


class WrittenRows(NamedTuple):
    """Rows that were just written, so that checks need not read them again."""

    table: RowTable
    answers: Answers


def read_table(
    path: Path, *, scorer: str | None = None, answers: Answers | None = None
) -> RowTable:
    """Read the columns of a ``results.jsonl``; a missing file gives an empty table.

    Args:
        path: The file.
        scorer: Take the reward of this extra scorer instead.
        answers: Counts every row in passing.

    Raises:
        UsageError: Most lines are not JSON. Fewer malformed lines are counted and left out.
    """
    row_columns = RowColumns(scorer)
    for offset, row in scan_rows(path) if path.is_file() else ():
        if answers is not None and isinstance(row, dict):
            answers.add(row)
        row_columns.add(offset, row)
    table = _table(path, row_columns)
    if table.malformed > len(table):
        raise UsageError(
            f"{path}: {counted(table.malformed, 'malformed line')}",
            hint="was the file cut or overwritten?",
        )
    return table


def table_of(results: Sequence[JsonDict], *, scorer: str | None = None) -> RowTable:
    """Return the columns of rows that are in memory."""
    row_columns = RowColumns(scorer)
    for number, row in enumerate(results):
        row_columns.add(number, row)
    table = _table(None, row_columns)
    table.held = results
    return table


def _table(path: Path | None, made: RowColumns) -> RowTable:
    """Build the table with one row per (problem, repeat); of several rows the last one counts."""
    table = RowTable(
        path,
        **made.columns(),
        categories=list(made.categories),
        causes=list(made.causes),
        finishes=list(made.finishes),
        malformed=made.malformed,
    )
    if not len(table):
        return table
    sample_numbers = table.problem.astype(np.int64) * (int(table.repeat.max()) + 1) + table.repeat
    if bool((sample_numbers[1:] > sample_numbers[:-1]).all()):
        return table
    order = np.argsort(sample_numbers, kind="stable")
    is_last = np.r_[sample_numbers[order][1:] != sample_numbers[order][:-1], True]
    deduplicated = table.take(order[is_last])
    deduplicated.repeated = len(table) - len(deduplicated)
    return deduplicated
