"""Whether the scores of a run may be used at all, by its bundle and its rows."""

from typing import Final

import numpy as np

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import Flags, RowTable, read_table
from nemo_evaluator.runs.tampering import TAMPER_MARK, Tampering
from nemo_evaluator.statistics import by_problem

_DEFAULT_MIN_COVERAGE: Final = 0.95


def rows_of_run(run: Bundle, *, scorer: str | None = None, better: float = 1.0) -> RowTable:
    """Read the rows of a run; empty when the file does not exist.

    Args:
        run: The run's bundle.
        scorer: Read the rewards of this additional scorer.
        better: 1 when a higher reward is better: then tampered rows count as 0.
    """
    rows = read_table(run.results, scorer=scorer)
    if scorer is None and better > 0:
        rows.reward = np.where(tampered(rows), 0.0, rows.reward)
    return rows


def tampered(rows: RowTable) -> Flags:
    """Which rows failed because the answer tampered with its own grading; such a row is worth 0."""
    tamper_codes = [code for code, name in enumerate(rows.causes) if name == Cause.TAMPER]
    return np.isin(rows.cause, tamper_codes)


def tampering_of(rows: RowTable) -> Tampering | None:
    """Count the tampered rows and compute the score with them as 0; None when no row tampered."""
    is_tampered = tampered(rows)
    if not is_tampered.any():
        return None
    is_judged = rows.scored | is_tampered
    rewards = np.where(is_tampered, 0.0, rows.reward)[is_judged]
    problems = by_problem(rows.problem[is_judged], rewards)
    return Tampering(
        tampered=int(is_tampered.sum()),
        judged=int(is_judged.sum()),
        score=float(problems.means.mean()),
    )


def planned_rows(run: Bundle, rows: RowTable) -> int:
    """The number of rows that the run planned."""
    return max(run.coverage.planned or 0, len(rows))


def unfit(run: Bundle, rows: RowTable, *, min_coverage: float | None = None) -> list[str]:
    """Why the scores of a run must not be used, whatever they are.

    The rows are counted as well, because a bundle does not show that its file was truncated afterwards.

    Args:
        run: The run's bundle.
        rows: Its rows.
        min_coverage: The smallest share of scored rows; None uses the run's own setting.
    """
    reasons = [f"is INVALID: {reason}" for reason in run.invalid if TAMPER_MARK not in reason]
    if not len(rows):
        return [*reasons, "has no rows"]
    if min_coverage is not None:
        minimum = min_coverage
    else:
        minimum = float(run.config.get("min_coverage") or _DEFAULT_MIN_COVERAGE)
    planned = planned_rows(run, rows)
    coverage = float(rows.scored.sum()) / planned
    # The run's own minimum is one of the reasons in the bundle already.
    own_minimum_checked = min_coverage is None and bool(reasons)
    if coverage < minimum and not own_minimum_checked:
        reasons.append(
            f"has scored {coverage:.1%} of its {planned:,} rows, the minimum is {minimum:.0%}"
        )
    return reasons


def tampered_too_much(run: Bundle, rows: RowTable) -> list[str]:
    """Why a run cannot pass because its answers tampered with their grading.

    A proved drop still holds, because tampered rows count as 0. Bundle and rows are both checked: either may lack it.
    """
    tampering = tampering_of(rows) or run.tampering
    if tampering is not None and tampering.too_much:
        return [f"is INVALID: {tampering.words}"]
    return [f"is INVALID: {reason}" for reason in run.invalid if TAMPER_MARK in reason]
