"""Numbers, tables and sentences as reports show them, and the fields of files in their order."""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from nemo_evaluator.core.terminal import cells, shortened
from nemo_evaluator.core.wording import counted as counted
from nemo_evaluator.core.wording import wrapped as wrapped

if TYPE_CHECKING:
    from nemo_evaluator.decisions.compare.shifts import Shift
    from nemo_evaluator.reports.model import BenchmarkReport, EvalReport
    from nemo_evaluator.runs.scores import GroupScore, Score
    from nemo_evaluator.statistics import Interval

NONE = "–"
# Bundles store four decimals.
_ROUNDING = 1e-3
_LEAST_NAME = 12
_COLUMN_GAP: Final = "  "
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

    def format_number(value: float | None) -> str:
        """The number in the form, or a dash."""
        if value is None or math.isnan(value):
            return NONE
        return form.format(value)

    return format_number


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
    value = show(interval.value)
    if interval.lower is not None and interval.upper is not None:
        return f"{value} [{show(interval.lower)}, {show(interval.upper)}]"
    if interval.n:
        return f"{value} (no interval)"
    return NONE


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
        if shift.delta == 0:
            return NONE
        return f"{100 * shift.delta:+.1f} pp"
    if shift.relative_pct is None:
        return NONE
    return f"{shift.relative_pct:+.0f}%"


def p_value(value: float) -> str:
    """A p-value with four decimals, and the smallest ones as a bound."""
    if value < 0.0001:
        return "p < 0.0001"
    return f"p = {value:.4f}"


def size(group: GroupScore, repeats: int) -> str:
    """How many problems a group has, and how many repeats; the number of rows if some of them failed."""
    problems, partial_rows = divmod(group.n, repeats)
    if partial_rows:
        return counted(group.n, "row")
    if repeats > 1:
        return f"{problems:,} × {repeats}"
    return f"{problems:,}"


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
    if score.ci_lower is None or score.ci_upper is None:
        return NONE
    return f"[{score.ci_lower:.4f}, {score.ci_upper:.4f}]"


def coverage(bench: BenchmarkReport) -> str:
    """The share of planned rows that are scored, with the counts if they are known."""
    run_coverage = bench.coverage
    share = percent(run_coverage.share)
    if None in (run_coverage.share, run_coverage.planned, run_coverage.scored):
        return share
    return f"{share} ({run_coverage.scored:,}/{run_coverage.planned:,})"


def right_of(score: Score) -> str:
    """``(correct/total)`` of a scorer; empty for graded rewards, whose mean is not a share of right answers."""
    if score.correct is None or not score.total:
        return ""
    share_of_right_answers = score.correct / score.total
    if abs(score.value - share_of_right_answers) > _ROUNDING:
        return ""
    return f" ({score.correct:g}/{score.total})"


def labels(benchmarks: tuple[BenchmarkReport, ...]) -> dict[int, str]:
    """A name for each benchmark, by position: its own, with its folder if two have the same name and model."""
    uses_of_key = Counter((bench.name, bench.model) for bench in benchmarks)
    label_of_position: dict[int, str] = {}
    for position, bench in enumerate(benchmarks):
        label = bench.name
        if uses_of_key[bench.name, bench.model] > 1:
            label = f"{label} ({bench.path.parent})"
        label_of_position[position] = label
    return label_of_position


def unfinished_names(report: EvalReport) -> list[str]:
    """A name for each benchmark that did not finish, with its run if two runs have one of that name."""
    uses_of_name = Counter(unfinished.name for unfinished in report.unfinished)
    labels_of_unfinished: list[str] = []
    for unfinished in report.unfinished:
        label = unfinished.name
        if uses_of_name[label] > 1:
            label = f"{label} ({unfinished.folder.parent.name})"
        labels_of_unfinished.append(label)
    return labels_of_unfinished


def runtime(bench: BenchmarkReport) -> str:
    """The tokens, duration, latency, speed and cost of a benchmark, as far as they are known."""
    figures = bench.runtime
    parts: list[str] = []
    if figures.total_tokens:
        parts.append(f"{count(figures.total_tokens)} tokens")
    if figures.elapsed_seconds is not None:
        parts.append(seconds(figures.elapsed_seconds))
    if figures.p50_ms is not None:
        parts.append(f"latency P50 {count(figures.p50_ms)} ms, P99 {count(figures.p99_ms)} ms")
    if figures.queue_p50_ms:
        parts.append(f"queue P50 {count(figures.queue_p50_ms)} ms")
    if figures.tokens_per_second:
        parts.append(f"{figures.tokens_per_second:,.0f} tokens/s")
    if figures.cost_usd is not None:
        parts.append(f"${figures.cost_usd:.4f}")
    return " · ".join(parts)


def cell(text: object) -> str:
    """A text as one cell of a markdown table: nothing in it can end the cell or start markup."""
    flat = html.escape(re.sub(r"\s+", " ", str(text)), quote=False)
    return flat.replace("`", "&#96;").replace("](", "]&#40;").replace("|", "\\|")


def printable(text: str) -> str:
    """A text that cannot move the cursor of a terminal. Names and answers are not under our control."""
    characters: list[str] = []
    for char in text:
        if char.isprintable() or char == "\n":
            characters.append(char)
        else:
            characters.append(" ")
    return "".join(characters)


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
    table = [list(row) for row in rows]
    widths = _column_widths(table)
    if width is not None:
        columns_to_drop = list(spare)
        while columns_to_drop and _line_width(indent, widths) > width:
            dropped_column = columns_to_drop.pop(0)
            for row in table:
                del row[dropped_column]
            # Columns to the right of the dropped one have moved to the left.
            columns_to_drop = [column - (column > dropped_column) for column in columns_to_drop]
            widths = _column_widths(table)
        excess = _line_width(indent, widths) - width
        if excess > 0:
            _shorten_names(table, max(widths[0] - excess, _LEAST_NAME))
            widths = _column_widths(table)
    lines: list[str] = []
    for row in table:
        lines.append(_aligned_line(row, widths, indent))
    return lines


def _column_widths(table: list[list[str]]) -> list[int]:
    """The width of the widest cell of each column."""
    widths: list[int] = []
    for column in zip(*table, strict=True):
        widths.append(max(map(cells, column)))
    return widths


def _line_width(indent: str, widths: list[int]) -> int:
    """The width of a line with columns of the given widths."""
    space_between = len(_COLUMN_GAP) * (len(widths) - 1)
    return len(indent) + sum(widths) + space_between


def _shorten_names(table: list[list[str]], width: int) -> None:
    """Shorten the first column of a table to ``width``, so that names stay distinct."""
    names = shortened([row[0] for row in table], width)
    for row, name in zip(table, names, strict=True):
        row[0] = name


def _aligned_line(row: list[str], widths: list[int], indent: str) -> str:
    """One line of a table: the first cell to the left, the others to the right."""
    name = row[0]
    padded_cells = [name + " " * (widths[0] - cells(name))]
    for text, width in zip(row[1:], widths[1:], strict=True):
        padded_cells.append(text.rjust(width))
    line = indent + _COLUMN_GAP.join(padded_cells)
    return line.rstrip()


def explained(words: dict[str, str]) -> str:
    """The terms with their meanings, as one sentence."""
    return "; ".join(f"{term}: {meaning}" for term, meaning in words.items()) + "."
