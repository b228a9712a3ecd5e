"""What failed rows could hide: the range of the difference over everything they could have been."""

from __future__ import annotations

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.bundles import Run
from nemo_evaluator.decisions.rows import Rows
from nemo_evaluator.metrics import missing_bounds
from nemo_evaluator.metrics.missing import MissingBounds


def missing_range(runs: tuple[Run, Run], rows: tuple[Rows, Rows]) -> JsonDict:
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


def _bounds(run: Run, rows: Rows) -> MissingBounds | None:
    scored = rows.reward[rows.scored]
    if len(scored) and (scored.min() < 0 or scored.max() > 1):
        return None
    coverage = run.benchmark.get("coverage") or {}
    planned = max(int(coverage.get("planned") or 0), len(rows))
    return missing_bounds(float(scored.sum()), len(scored), planned)
