"""Numbers, tables and sentences as reports show them, and the fields of files in their order."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from nemo_evaluator.core.terminal import cells, shortened
from nemo_evaluator.core.wording import counted as counted
from nemo_evaluator.core.wording import wrapped as wrapped

if TYPE_CHECKING:
    from nemo_evaluator.decisions.compare.changes import Shift
    from nemo_evaluator.reports.model import BenchmarkReport, EvalReport
    from nemo_evaluator.runs.scores import GroupScore, Score
    from nemo_evaluator.statistics import Interval

NONE = "–"
# Bundles store four decimals.
_ROUNDING = 1e-3
_LEAST_NAME = 12
_WORDS: Final[dict[str, dict[str, str]]] = orjson.loads(
    Path(__file__).with_name("verdicts.json").read_bytes()
)
# The columns of the CSV, the keys of the JSON, and the fields that a trajectory should have.
FIELDS: Final[dict[str, list[str]]] = orjson.loads(
    Path(__file__).with_name("fields.json").read_bytes()
)
STATUSES: Final = _WORDS["statuses"]
VERDICTS: Final = _WORDS["verdicts"]
DECISIONS: Final = _WORDS["decisions"]
ICONS: Final = _WORDS["icons"]
ROWS: Final = _WORDS["rows"]


def _shown(form: str) -> Callable[[float | None], str]:
    """A function that formats a number, or a dash for an unknown one."""
    return lambda value: NONE if value is None or value != value else form.format(value)


signed: Final = _shown("{:+.4f}")
plain: Final = _shown("{:.4f}")
percent: Final = _shown("{:.1%}")
# A whole number with thousands separators.
count: Final = _shown("{:,.0f}")


def with_bounds(interval: Interval, *, sign: bool = False) -> str:
    """The value of an interval with its bounds.

    Args:
        interval: The interval.
        sign: Show the signs of positive numbers.
    """
    show = signed if sign else plain
    if interval.lower is None or interval.upper is None:
        if interval.n:
            return f"{show(interval.value)} (no interval)"
        return NONE
    return f"{show(interval.value)} [{show(interval.lower)}, {show(interval.upper)}]"


def quantity(value: float | None, unit: str) -> str:
    """A value with its unit ("share", "usd" or the text after the number); a dash when unknown."""
    if value is None:
        return NONE
    if unit == "share":
        return percent(value)
    if unit == "usd":
        return f"${value:.6f}"
    return f"{value:,.0f} {unit}"


def change(shift: Shift) -> str:
    """The change of a quantity: shares in percentage points, others in percent."""
    if shift.delta is None:
        return NONE
    if shift.unit == "share":
        return f"{100 * shift.delta:+.1f} pp" if shift.delta else NONE
    if shift.relative_pct is None:
        return NONE
    return f"{shift.relative_pct:+.0f}%"


def p_value(value: float) -> str:
    """A p-value with four decimals, and the smallest ones as a bound."""
    return "p < 0.0001" if value < 0.0001 else f"p = {value:.4f}"


def size(group: GroupScore, repeats: int) -> str:
    """How many problems a group has, and how many repeats; the number of rows if some of them failed."""
    problems, partial_rows = divmod(group.n, repeats)
    if partial_rows:
        return counted(group.n, "row")
    return f"{problems:,}" + (f" × {repeats}" if repeats > 1 else "")


def seconds(value: float | None) -> str:
    """A duration in seconds, minutes or hours; a dash when unknown."""
    if value is None:
        return NONE
    if value < 120:
        return f"{value:.1f} s"
    minutes, rest_seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest_seconds:02d} s"


def bounds(score: Score | GroupScore) -> str:
    """The confidence interval of a score; a dash without one."""
    both_known = score.ci_lower is not None and score.ci_upper is not None
    if both_known:
        return f"[{score.ci_lower:.4f}, {score.ci_upper:.4f}]"
    return NONE


def coverage(bench: BenchmarkReport) -> str:
    """The share of planned rows that are scored, with the counts if they are known."""
    run_coverage = bench.coverage
    counts_known = None not in (run_coverage.share, run_coverage.planned, run_coverage.scored)
    return percent(run_coverage.share) + (
        f" ({run_coverage.scored:,}/{run_coverage.planned:,})" if counts_known else ""
    )


def right_of(score: Score) -> str:
    """``(correct/total)`` of a scorer; empty for graded rewards, whose mean is not a share of right answers."""
    if (
        score.correct is None
        or not score.total
        or abs(score.value - score.correct / score.total) > _ROUNDING
    ):
        return ""
    return f" ({score.correct:g}/{score.total})"


def labels(benchmarks: tuple[BenchmarkReport, ...]) -> dict[int, str]:
    """A name for each benchmark, by position: its own, with its folder if two have the same name and model."""
    keys = [(bench.name, bench.model) for bench in benchmarks]
    label_of_position: dict[int, str] = {}
    for position, bench in enumerate(benchmarks):
        if keys.count(keys[position]) == 1:
            label_of_position[position] = bench.name
        else:
            label_of_position[position] = f"{bench.name} ({bench.path.parent})"
    return label_of_position


def unfinished_names(report: EvalReport) -> list[str]:
    """A name for each benchmark that did not finish, with its run if two runs have one of that name."""
    names = [unfinished.name for unfinished in report.unfinished]
    labelled_names: list[str] = []
    for name, unfinished in zip(names, report.unfinished, strict=True):
        labelled_names.append(
            name if names.count(name) == 1 else f"{name} ({unfinished.folder.parent.name})"
        )
    return labelled_names


def runtime(bench: BenchmarkReport) -> str:
    """The tokens, duration, latency, speed and cost of a benchmark, as far as they are known."""
    figures = bench.runtime
    parts = [
        f"{count(figures.total_tokens)} tokens" if figures.total_tokens else "",
        seconds(figures.elapsed_seconds) if figures.elapsed_seconds is not None else "",
        f"latency P50 {count(figures.p50_ms)} ms, P99 {count(figures.p99_ms)} ms"
        if figures.p50_ms is not None
        else "",
        f"queue P50 {count(figures.queue_p50_ms)} ms" if figures.queue_p50_ms else "",
        f"{figures.tokens_per_second:,.0f} tokens/s" if figures.tokens_per_second else "",
        f"${figures.cost_usd:.4f}" if figures.cost_usd is not None else "",
    ]
    return " · ".join(part for part in parts if part)


def cell(text: object) -> str:
    """A text as one cell of a markdown table: nothing in it can end the cell or start markup."""
    flat = html.escape(re.sub(r"\s+", " ", str(text)), quote=False)
    return flat.replace("`", "&#96;").replace("](", "]&#40;").replace("|", "\\|")


def printable(text: str) -> str:
    """A text that cannot move the cursor of a terminal. Names and answers are not under our control."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def columns(
    rows: list[list[str]],
    indent: str = "  ",
    *,
    width: int | None = None,
    spare: tuple[int, ...] = (),
) -> list[str]:
    """Align rows in columns, the first to the left, the others to the right.

    Args:
        rows: The cells of each row.
        indent: The text in front of each line.
        width: The largest width of a line; None for any.
        spare: Columns to drop one by one if lines are too wide, by their position in ``rows``; a repeated position
            drops the column after it. If that is not enough, names are shortened.

    Returns:
        The lines.
    """
    if not rows:
        return []
    widths = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    if width is None:
        excess = 0
    else:
        excess = len(indent) + sum(widths) + 2 * (len(widths) - 1) - width
    if excess > 0 and spare:
        column = spare[0]
        spare_after = tuple(spare_column - (spare_column > spare[0]) for spare_column in spare[1:])
        return columns(
            [row[:column] + row[column + 1 :] for row in rows],
            indent,
            width=width,
            spare=spare_after,
        )
    if excess > 0:
        names = shortened([row[0] for row in rows], max(widths[0] - excess, _LEAST_NAME))
        rows = [[name, *row[1:]] for name, row in zip(names, rows, strict=True)]
        widths[0] = max(map(cells, names))
    first_cells = [row[0] + " " * (widths[0] - cells(row[0])) for row in rows]
    other_cells: list[list[str]] = []
    for row in rows:
        other_cells.append(
            [text.rjust(size) for text, size in zip(row[1:], widths[1:], strict=True)]
        )
    lines: list[str] = []
    for name, padded in zip(first_cells, other_cells, strict=True):
        lines.append((indent + "  ".join([name, *padded])).rstrip())
    return lines


def explained(words: dict[str, str]) -> str:
    """The terms with their meanings, as one sentence."""
    return "; ".join(f"{term}: {meaning}" for term, meaning in words.items()) + "."
