"""Whether a run may be decided upon at all, from what its bundle says and what its rows show."""

from typing import Final

import numpy as np

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import Flags, RowTable, read_table
from nemo_evaluator.runs.tampering import TAMPER_MARK, Tampering
from nemo_evaluator.statistics import by_problem

_FLOOR: Final = 0.95


def rows_of_run(run: Bundle, *, scorer: str | None = None, better: float = 1.0) -> RowTable:
    """The rows beside a bundle; none where the file is absent. Where more is ``better``, forged rows count as 0."""
    rows = read_table(run.results, scorer=scorer)
    if scorer is None and better > 0:
        rows.reward = np.where(tampered(rows), 0.0, rows.reward)
    return rows


def tampered(rows: RowTable) -> Flags:
    """Rows that failed because the answer reached for its own judge: no failure of the harness, and worth nothing."""
    return np.isin(
        rows.cause, [code for code, name in enumerate(rows.causes) if name == Cause.TAMPER]
    )


def tampering_of(rows: RowTable) -> Tampering | None:
    """How many rows tampered with their own judging, and the score with them as 0; None where there are none."""
    forged = tampered(rows)
    if not forged.any():
        return None
    judged = rows.scored | forged
    rewards = np.where(forged, 0.0, rows.reward)[judged]
    score = float(by_problem(rows.problem[judged], rewards).means.mean())
    return Tampering(tampered=int(forged.sum()), judged=int(judged.sum()), score=score)


def planned_rows(run: Bundle, rows: RowTable) -> int:
    """How many rows a run was to have."""
    return max(run.coverage.planned or 0, len(rows))


def unfit(run: Bundle, rows: RowTable, *, min_coverage: float | None = None) -> list[str]:
    """Why the numbers of a run must not be used, whatever they are. The rows are counted, too: a bundle knows nothing
    of a file that was cut afterwards. ``min_coverage`` is the run's own unless it is given."""
    reasons = [f"is INVALID: {reason}" for reason in run.invalid if TAMPER_MARK not in reason]
    if not len(rows):
        return [*reasons, "has no rows"]
    if min_coverage is not None:
        floor = min_coverage
    else:
        floor = float(run.config.get("min_coverage") or _FLOOR)
    planned = planned_rows(run, rows)
    share = float(rows.scored.sum()) / planned
    if share < floor and (min_coverage is not None or not reasons):
        reasons.append(
            f"has scored {share:.1%} of its {planned:,} steps, at least {floor:.0%} is asked"
        )
    return reasons


def tampered_too_much(run: Bundle, rows: RowTable) -> list[str]:
    """Why a run cannot pass because of what its programs did to their own judging; a drop that is proved still holds,
    since tampered rows count as 0. The bundle and the rows are both asked: either may know nothing of it."""
    tampering = tampering_of(rows) or run.tampering
    if tampering is not None and tampering.too_much:
        return [f"is INVALID: {tampering.words}"]
    return [f"is INVALID: {reason}" for reason in run.invalid if TAMPER_MARK in reason]
