"""``results.jsonl`` as columns: one pass, only what decisions need, texts left on disk until they are asked for."""

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
        if self.scored.any():
            return float(self.unanswered[self.scored].mean())
        return 0.0

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
        columns: dict[str, Any] = {name: getattr(self, name)[keep] for name in COLUMNS}
        return replace(self, **columns, repeated=0)


class WrittenRows(NamedTuple):
    """Rows as they were just written, for whoever would read them again at once to check them."""

    table: RowTable
    answers: Answers


def read_table(
    path: Path, *, scorer: str | None = None, answers: Answers | None = None
) -> RowTable:
    """The columns of a ``results.jsonl``, none where it is absent; ``scorer`` takes that scorer's reward instead.

    A line that is not JSON is counted and left out; a file in which most lines are not is refused. ``answers`` count
    every row in passing.
    """
    made = RowColumns(scorer)
    for offset, row in scan_rows(path) if path.is_file() else ():
        if answers is not None and isinstance(row, dict):
            answers.add(row)
        made.add(offset, row)
    rows = _table(path, made)
    if rows.malformed > len(rows):
        raise UsageError(
            f"{path}: {counted(rows.malformed, 'malformed line')}",
            hint="was the file cut or overwritten?",
        )
    return rows


def table_of(results: Sequence[JsonDict], *, scorer: str | None = None) -> RowTable:
    """The same columns from rows held in memory."""
    made = RowColumns(scorer)
    for number, row in enumerate(results):
        made.add(number, row)
    rows = _table(None, made)
    rows.held = results
    return rows


def _table(path: Path | None, made: RowColumns) -> RowTable:
    """One row per (problem, repeat): of several the last one counts."""
    rows = RowTable(
        path,
        **made.columns(),
        categories=list(made.categories),
        causes=list(made.causes),
        finishes=list(made.finishes),
        malformed=made.malformed,
    )
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
