"""Whether a run may be decided upon at all, from what its bundle says and what its rows show."""

from typing import Final

import numpy as np

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import Flags, RowTable, read_table

_FLOOR: Final = 0.95


def rows_of_run(run: Bundle, *, scorer: str | None = None, better: float = 1.0) -> RowTable:
    """The rows beside a bundle; none where the file is absent. Where more is ``better``, forged rows count as 0."""
    rows = read_table(run.results, scorer=scorer)
    if scorer is None and better > 0:
        rows.reward = np.where(tampered(rows), 0.0, rows.reward)
    return rows


def tampered(rows: RowTable) -> Flags:
    """Rows that failed because the answer reached for its own judge: no failure of the harness, and worth nothing."""
    return np.isin(rows.cause, [code for code, name in enumerate(rows.causes) if name == Cause.TAMPER])


def planned_rows(run: Bundle, rows: RowTable) -> int:
    """How many rows a run was to have."""
    return max(run.coverage.planned or 0, len(rows))


def unfit(run: Bundle, rows: RowTable, *, min_coverage: float | None = None) -> list[str]:
    """Why the numbers of a run must not be used, whatever they are. The rows are counted, too: a bundle knows nothing
    of a file that was cut afterwards. ``min_coverage`` is the run's own unless it is given."""
    found = [f"is INVALID: {reason}" for reason in run.invalid]
    if not len(rows):
        return [*found, "has no rows"]
    floor = min_coverage if min_coverage is not None else float(run.config.get("min_coverage") or _FLOOR)
    planned = planned_rows(run, rows)
    share = float(rows.scored.sum()) / planned
    if share < floor and (min_coverage is not None or not found):
        found.append(f"has scored {share:.1%} of its {planned:,} steps, at least {floor:.0%} is asked")
    return found
