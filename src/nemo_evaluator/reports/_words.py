"""Numbers, tables and sentences as people read them; and which fields files have, in their order."""

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
# Bundles keep four decimals.
_ROUNDING = 1e-3
_LEAST_NAME = 12
_WORDS: Final[dict[str, dict[str, str]]] = orjson.loads(
    Path(__file__).with_name("verdicts.json").read_bytes()
)
# Columns of the CSV, keys of the JSON, what a trajectory should hold.
FIELDS: Final[dict[str, list[str]]] = orjson.loads(
    Path(__file__).with_name("fields.json").read_bytes()
)
STATUSES: Final = _WORDS["statuses"]
VERDICTS: Final = _WORDS["verdicts"]
DECISIONS: Final = _WORDS["decisions"]
ICONS: Final = _WORDS["icons"]
ROWS: Final = _WORDS["rows"]


def _shown(form: str) -> Callable[[float | None], str]:
    """A way to show numbers; one that is not known is a dash."""
    return lambda value: NONE if value is None or value != value else form.format(value)


signed: Final = _shown("{:+.4f}")
plain: Final = _shown("{:.4f}")
percent: Final = _shown("{:.1%}")
# A whole number with thousands apart.
count: Final = _shown("{:,.0f}")


def with_bounds(interval: Interval, *, sign: bool = False) -> str:
    show = signed if sign else plain
    if interval.lower is None or interval.upper is None:
        if interval.n:
            return f"{show(interval.value)} (no interval)"
        return NONE
    return f"{show(interval.value)} [{show(interval.lower)}, {show(interval.upper)}]"


def quantity(value: float | None, unit: str) -> str:
    if value is None:
        return NONE
    if unit == "share":
        return percent(value)
    if unit == "usd":
        return f"${value:.6f}"
    return f"{value:,.0f} {unit}"


def change(shift: Shift) -> str:
    """How a quantity moved: shares in points, anything else in percent."""
    if shift.delta is None:
        return NONE
    if shift.unit == "share":
        return f"{100 * shift.delta:+.1f} pp" if shift.delta else NONE
    if shift.relative_pct is None:
        return NONE
    return f"{shift.relative_pct:+.0f}%"


def p_value(value: float) -> str:
    """A p-value, without a false row of digits."""
    return "p < 0.0001" if value < 0.0001 else f"p = {value:.4f}"


def size(group: GroupScore, repeats: int) -> str:
    """How many problems a group has, with the repeats beside them; rows where some of these failed."""
    problems, rest = divmod(group.n, repeats)
    if rest:
        return counted(group.n, "row")
    return f"{problems:,}" + (f" × {repeats}" if repeats > 1 else "")


def seconds(value: float | None) -> str:
    if value is None:
        return NONE
    if value < 120:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s"


def bounds(score: Score | GroupScore) -> str:
    known = score.ci_lower is not None and score.ci_upper is not None
    if known:
        return f"[{score.ci_lower:.4f}, {score.ci_upper:.4f}]"
    return NONE


def coverage(bench: BenchmarkReport) -> str:
    """How much of the plan was measured."""
    cover = bench.coverage
    known = None not in (cover.share, cover.planned, cover.scored)
    return percent(cover.share) + (f" ({cover.scored:,}/{cover.planned:,})" if known else "")


def right_of(score: Score) -> str:
    """``(correct/total)`` of a scorer; nothing for graded rewards, whose mean is not a share of right answers."""
    if (
        score.correct is None
        or not score.total
        or abs(score.value - score.correct / score.total) > _ROUNDING
    ):
        return ""
    return f" ({score.correct:g}/{score.total})"


def labels(benchmarks: tuple[BenchmarkReport, ...]) -> dict[int, str]:
    """A name for each benchmark (by position): its own, with the folder added where two would be called the same."""
    keys = [(bench.name, bench.model) for bench in benchmarks]
    mapping: dict[int, str] = {}
    for at, bench in enumerate(benchmarks):
        if keys.count(keys[at]) == 1:
            mapping[at] = bench.name
        else:
            mapping[at] = f"{bench.name} ({bench.path.parent})"
    return mapping


def unfinished_names(report: EvalReport) -> list[str]:
    """A name for each benchmark that did not finish, with its run where two runs have one of that name."""
    names = [one.name for one in report.unfinished]
    results: list[str] = []
    for name, one in zip(names, report.unfinished, strict=True):
        results.append(name if names.count(name) == 1 else f"{name} ({one.folder.parent.name})")
    return results


def runtime(bench: BenchmarkReport) -> str:
    run = bench.runtime
    parts = [
        f"{count(run.total_tokens)} tokens" if run.total_tokens else "",
        seconds(run.elapsed_seconds) if run.elapsed_seconds is not None else "",
        f"latency P50 {count(run.p50_ms)} ms, P99 {count(run.p99_ms)} ms"
        if run.p50_ms is not None
        else "",
        f"queue P50 {count(run.queue_p50_ms)} ms" if run.queue_p50_ms else "",
        f"{run.tokens_per_second:,.0f} tokens/s" if run.tokens_per_second else "",
        f"${run.cost_usd:.4f}" if run.cost_usd is not None else "",
    ]
    return " · ".join(part for part in parts if part)


def cell(text: object) -> str:
    """Any text as one cell of a markdown table: nothing in it can end the cell or start markup."""
    flat = html.escape(re.sub(r"\s+", " ", str(text)), quote=False)
    return flat.replace("`", "&#96;").replace("](", "]&#40;").replace("|", "\\|")


def printable(text: str) -> str:
    """Text that cannot move the cursor of a terminal: names and answers come from elsewhere."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def columns(
    rows: list[list[str]],
    indent: str = "  ",
    *,
    width: int | None = None,
    spare: tuple[int, ...] = (),
) -> list[str]:
    """Rows as aligned columns: the first to the left, the others to the right. Where they are wider than ``width``, the
    ``spare`` columns go, one after the other; then names are shortened."""
    if not rows:
        return []
    widths = [max(cells(row[at]) for row in rows) for at in range(len(rows[0]))]
    if width is None:
        over = 0
    else:
        over = len(indent) + sum(widths) + 2 * (len(widths) - 1) - width
    if over > 0 and spare:
        at = spare[0]
        rest = tuple(one - (one > spare[0]) for one in spare[1:])
        return columns([row[:at] + row[at + 1 :] for row in rows], indent, width=width, spare=rest)
    if over > 0:
        names = shortened([row[0] for row in rows], max(widths[0] - over, _LEAST_NAME))
        rows = [[name, *row[1:]] for name, row in zip(names, rows, strict=True)]
        widths[0] = max(map(cells, names))
    named = [row[0] + " " * (widths[0] - cells(row[0])) for row in rows]
    others: list[list[str]] = []
    for row in rows:
        others.append([text.rjust(size) for text, size in zip(row[1:], widths[1:], strict=True)])
    results: list[str] = []
    for name, padded in zip(named, others, strict=True):
        results.append((indent + "  ".join([name, *padded])).rstrip())
    return results


def explained(words: dict[str, str]) -> str:
    """The words with their meanings, as one sentence."""
    return "; ".join(f"{word}: {meaning}" for word, meaning in words.items()) + "."
