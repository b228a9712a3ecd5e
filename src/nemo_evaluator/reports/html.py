"""The report as one self-contained page: no script, nothing loaded from elsewhere, every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from nemo_evaluator.reports import _format as fmt
from nemo_evaluator.reports import _svg as svg
from nemo_evaluator.reports._page import template
from nemo_evaluator.reports.model import BenchmarkReport, EvalReport
from nemo_evaluator.runs.scores import Group

_COLOURS: Final = 6
_MOST_GROUPS: Final = 40
_UNNAMED: Final = "unnamed model"
_KINDS: Final = {
    "failed": "Failed",
    "unparsed": "No answer found",
    "truncated": "Cut off",
    "wrong": "Wrong",
    "right": "Right",
}


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot with a heading; ``note`` says what was left out."""

    title: str
    plot: Markup
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark on the page."""

    anchor: str
    label: str
    bench: BenchmarkReport
    panels: list[Panel]


def render_html(report: EvalReport) -> str:
    """The whole page."""
    names = fmt.labels(report.benchmarks)
    sections = [Section(f"b{at}", names[at], bench, _panels(bench)) for at, bench in enumerate(report.benchmarks)]
    return template("report.html.j2").render(
        report=report,
        sections=sections,
        scores=_score_plots(report, names),
        many=len(report.models) > 1,
        invalid=[section for section in sections if section.bench.invalid],
        kinds=_KINDS,
        unnamed=_UNNAMED,
        shape=svg.shape,
        f=fmt,
        colour={model: at % _COLOURS for at, model in enumerate(report.models)},
        when=max((bench.timestamp for bench in report.benchmarks), default=""),
        total_tokens=_total([bench.runtime.total_tokens for bench in report.benchmarks]),
        distinct=len({bench.name for bench in report.benchmarks}),
        total_steps=sum(bench.n_results for bench in report.benchmarks),
        total_cost=_total([bench.runtime.cost_usd for bench in report.benchmarks]),
    )


def _score_plots(report: EvalReport, names: dict[int, str]) -> list[Panel]:
    """One plot of the shares between 0 and 1, and one for each metric on another scale."""
    colour = {model: at % _COLOURS for at, model in enumerate(report.models)}
    shares: list[svg.Mark] = []
    scaled: dict[str, list[svg.Mark]] = {}
    for at, bench in enumerate(report.benchmarks):
        head = bench.headline
        if head is None:
            continue
        text = f"{fmt.number(head.value)} {'INVALID' if bench.invalid else head.name}"
        label, group = (bench.model or _UNNAMED, names[at]) if len(report.models) > 1 else (names[at], "")
        bounds = head.ci_lower, head.ci_upper
        mark = svg.Mark(label, head.value, *bounds, text, colour[bench.model], bool(bench.invalid), group)
        known = [value for value in (head.value, head.ci_lower, head.ci_upper) if value is not None]
        (shares if min(known) >= 0 and max(known) <= 1 else scaled.setdefault(head.name, [])).append(mark)
    titled = {"Scores with 95% intervals": shares} if shares else {}
    titled |= {f"{name} with 95% intervals": marks for name, marks in scaled.items()}
    return [Panel(title, svg.forest(marks, title)) for title, marks in titled.items()]


def _panels(bench: BenchmarkReport) -> list[Panel]:
    panels = [_outcomes(bench)]
    if bench.categories:
        panels.append(_groups("Categories", bench.categories))
    panels += [_groups(f"By {field}", groups) for field, groups in bench.breakdowns.items()]
    details, run = bench.details, bench.runtime
    if details is not None and details.latency_ms is not None:
        lines = [("P50", run.p50_ms), ("P90", run.p90_ms), ("P99", run.p99_ms)]
        known = [(name, value) for name, value in lines if value is not None]
        panels.append(Panel("Latency of a step", svg.histogram(details.latency_ms, "ms", known)))
    if details is not None and details.completion_tokens is not None:
        panels.append(Panel("Length of an answer", svg.histogram(details.completion_tokens, "tokens")))
    return panels


def _outcomes(bench: BenchmarkReport) -> Panel:
    """What became of the planned steps: from the rows where there are any, else as far as the bundle tells."""
    cover, details = bench.coverage, bench.details
    if details is not None and details.rows:
        seen = details.outcomes
        whole = seen.get("right", 0), seen.get("wrong", 0)
        slices = [svg.Slice("right", whole[0], "ok"), svg.Slice("wrong", whole[1], "none")]
        if not details.binary:
            slices = [svg.Slice("scored", sum(whole), "ok")]
        slices += [svg.Slice("wrong, cut off" if details.binary else "cut off", seen.get("truncated", 0), "warn")]
        slices += [svg.Slice("no answer found", seen.get("unparsed", 0), "odd")]
        slices += [svg.Slice(f"failed: {cause}", count, "bad") for cause, count in details.causes.items()]
        slices += [svg.Slice("without a reward", seen.get("unscored", 0), "bad")]
    else:
        failed = cover.failed or 0
        scored = cover.scored if cover.scored is not None else max(0, bench.n_results - failed)
        slices = [svg.Slice("scored", scored, "ok"), svg.Slice("failed", failed, "bad")]
    counted = sum(part.count for part in slices)
    if cover.planned is not None and cover.planned > counted:
        slices.append(svg.Slice("not done", cover.planned - counted, "gone"))
    return Panel("Outcomes", svg.share_bar([part for part in slices if part.count]))


def _groups(title: str, groups: tuple[Group, ...]) -> Panel:
    shown = sorted(groups, key=lambda group: -group.n)[:_MOST_GROUPS]
    marks = [
        svg.Mark(group.name, group.mean_reward, group.ci_lower, group.ci_upper, _group_text(group)) for group in shown
    ]
    left_out = len(groups) - len(shown)
    note = f"The {left_out} smallest of {len(groups)} are only in the table below." if left_out else ""
    return Panel(title, svg.bars(marks, title), note)


def _group_text(group: Group) -> str:
    return f"{fmt.number(group.mean_reward)}  n = {fmt.count(group.n)}"


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
