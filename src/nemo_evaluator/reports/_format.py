"""Numbers as people read them."""

from __future__ import annotations

from nemo_evaluator.reports.model import BenchmarkReport
from nemo_evaluator.runs.scores import Group, Score

NONE = "–"
# Bundles keep four decimals.
_ROUNDING = 1e-3


def number(value: float | None, digits: int = 4) -> str:
    """A score: four decimals, or a dash when it is not known."""
    return NONE if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    """A share as percent."""
    return NONE if value is None else f"{100 * value:.1f}%"


def count(value: float | None) -> str:
    """A whole number with thousands apart."""
    return NONE if value is None else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    """A duration."""
    if value is None:
        return NONE
    if value < 120:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def interval(score: Score | Group) -> str:
    """An interval, or a dash."""
    if score.ci_lower is None or score.ci_upper is None:
        return NONE
    return f"[{score.ci_lower:.4f}, {score.ci_upper:.4f}]"


def coverage(bench: BenchmarkReport) -> str:
    """How much of the plan was measured."""
    cover = bench.coverage
    if cover.share is None:
        return NONE
    known = cover.planned is not None and cover.scored is not None
    counts = f" ({cover.scored:,}/{cover.planned:,})" if known else ""
    return f"{percent(cover.share)}{counts}"


def right_of(score: Score) -> str:
    """``(correct/total)`` of a scorer; nothing for graded rewards, whose mean is no share of right answers."""
    if score.correct is None or not score.total or abs(score.value - score.correct / score.total) > _ROUNDING:
        return ""
    return f" ({score.correct:g}/{score.total})"


def labels(benchmarks: tuple[BenchmarkReport, ...]) -> dict[int, str]:
    """A name for each benchmark (by position): its own, with the folder added where two would be called the same."""
    keys = [(bench.name, bench.model) for bench in benchmarks]
    return {
        at: bench.name if keys.count(keys[at]) == 1 else f"{bench.name} ({bench.path.parent})"
        for at, bench in enumerate(benchmarks)
    }
