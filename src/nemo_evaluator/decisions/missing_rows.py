"""What failed rows could hide: the range of the difference over everything they could have been."""

from dataclasses import replace

import numpy as np

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.pairing import Pairing, Side, pair
from nemo_evaluator.metrics import MissingBounds, missing_bounds
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import RowTable


def missing_range(runs: tuple[Bundle, Bundle], rows: tuple[RowTable, RowTable]) -> JsonDict:
    """The range of each mean and of their difference; empty when nothing failed or rewards lie beyond [0, 1]."""
    left, right = (_bounds(run, side) for run, side in zip(runs, rows, strict=True))
    if left is None or right is None or not (left.missing or right.missing):
        return {}
    return {
        "baseline": {"lower": left.lower, "upper": left.upper, "missing": left.missing},
        "candidate": {"lower": right.lower, "upper": right.upper, "missing": right.missing},
        "difference": {"lower": right.lower - left.upper, "upper": right.upper - left.lower},
    }


def hidden_loss(found: JsonDict, max_drop: float, better: float) -> list[str]:
    """The warning that failed rows could hide more than may be lost."""
    if not found:
        return []
    worst = found["difference"]["lower" if better > 0 else "upper"]
    if better * worst >= -max_drop:
        return []
    failed = found["baseline"]["missing"], found["candidate"]["missing"]
    where = f"{failed[0]:,} in the baseline, {failed[1]:,} in the candidate"
    return [f"rows that failed ({where}) could hide more than the limit: at worst the difference is {worst:+.4f}"]


def missing_rows(runs: tuple[Bundle, Bundle], rows: tuple[RowTable, RowTable]) -> tuple[int, int]:
    """How many planned rows of each side have no score."""
    left, right = (_planned(run, side) - int(side.scored.sum()) for run, side in zip(runs, rows, strict=True))
    return left, right


def imagined(runs: tuple[Bundle, Bundle], rows: tuple[RowTable, RowTable], pairing: Pairing, better: float) -> Pairing:
    """The pairing if every missing row spoke for the side that ``better`` is against.

    1 makes the candidate's missing rows 0 and the baseline's 1, -1 the other way round. Only for rewards in [0, 1].
    """
    best, worst = (1.0, 0.0) if better > 0 else (0.0, 1.0)
    kept = [_placed(side, pairing.by) for side in rows]
    # Rows that are absent, or do not say what they were about, are problems that nothing is known of.
    unknown = sum(
        -(-(_planned(run, side) - len(some)) // (int(side.repeat.max(initial=0)) + 1))
        for run, side, some in zip(runs, rows, kept, strict=True)
    )
    filled = [
        replace(side, reward=np.where(side.scored, side.reward, value))
        for side, value in zip(kept, (best, worst), strict=True)
    ]
    found = pair(filled[0], filled[1], pairing.by)
    return replace(
        found, baseline=_more(found.baseline, unknown, best), candidate=_more(found.candidate, unknown, worst)
    )


def _placed(rows: RowTable, by: str) -> RowTable:
    return rows.take(rows.scored | (rows.content != 0)) if by == "content" else rows


def _more(side: Side, count: int, reward: float) -> Side:
    """The side with so many further problems of one reward."""
    zeros = np.zeros(count, dtype=np.int64)
    return replace(
        side,
        keys=np.r_[side.keys, zeros],
        rewards=np.r_[side.rewards, np.full(count, reward)],
        answers=np.r_[side.answers, zeros + 1],
        first=np.r_[side.first, zeros],
    )


def _planned(run: Bundle, rows: RowTable) -> int:
    return max(run.coverage.planned or 0, len(rows))


def _bounds(run: Bundle, rows: RowTable) -> MissingBounds | None:
    scored = rows.reward[rows.scored]
    if len(scored) and (scored.min() < 0 or scored.max() > 1):
        return None
    return missing_bounds(float(scored.sum()), len(scored), _planned(run, rows))
