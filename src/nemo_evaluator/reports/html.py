"""The report as one self-contained page: no script, nothing loaded from elsewhere, every text escaped."""

from collections.abc import Sequence
from typing import Final

from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports._page import template
from nemo_evaluator.reports._plots import Bins, Figure, PlotMark, Shares, rows_figure
from nemo_evaluator.reports._words import STATUSES, explained
from nemo_evaluator.reports.model import BenchmarkReport, EvalReport
from nemo_evaluator.runs.scores import GroupScore

_COLOURS: Final = 6
_UNNAMED: Final = "unnamed model"


def render_html(report: EvalReport) -> str:
    names = words.labels(report.benchmarks)
    colour = {model: at % _COLOURS for at, model in enumerate(report.models)}
    sections: list[dict[str, object]] = []
    for at, bench in enumerate(report.benchmarks):
        sections.append(
            {"anchor": f"b{at}", "label": names[at], "bench": bench, "figures": figures_of(bench)}
        )
    return template("report.html.j2").render(
        report=report,
        sections=sections,
        scores=_score_figures(report, names, colour),
        many=len(report.models) > 1,
        invalid=[
            section
            for section, bench in zip(sections, report.benchmarks, strict=True)
            if bench.invalid
        ],
        kinds=words.ROWS,
        unnamed=_UNNAMED,
        unfinished=words.unfinished_names(report),
        w=words,
        colour=colour,
        meanings=explained(STATUSES),
        when=max((bench.timestamp for bench in report.benchmarks), default=""),
        total_tokens=_total([bench.runtime.total_tokens for bench in report.benchmarks]),
        distinct=len(
            {*(bench.name for bench in report.benchmarks), *(one.name for one in report.unfinished)}
        ),
        total_steps=sum(bench.n_results for bench in report.benchmarks),
        total_cost=_total([bench.runtime.cost_usd for bench in report.benchmarks]),
    )


def _score_figures(
    report: EvalReport, names: dict[int, str], colour: dict[str, int]
) -> list[Figure]:
    """One plot of the shares between 0 and 1, and one for each metric on another scale."""
    shares: list[PlotMark] = []
    scaled: dict[str, list[PlotMark]] = {}
    for at, bench in enumerate(report.benchmarks):
        head = bench.headline
        if head is None:
            continue
        text = f"{words.plain(head.value)} {'INVALID' if bench.invalid else head.name}"
        if len(report.models) > 1:
            label = bench.model or _UNNAMED
            group = names[at]
        else:
            label = names[at]
            group = ""
        shape = colour[bench.model]
        doubtful = " doubtful" if bench.invalid else ""
        mark = PlotMark(
            label,
            head.value,
            head.ci_lower,
            upper=head.ci_upper,
            text=text,
            style=f"c{shape}{doubtful}",
            shape=shape,
            group=group,
        )
        fits = min(mark.known) >= 0 and max(mark.known) <= 1
        (shares if fits else scaled.setdefault(head.name, [])).append(mark)
    titled = {"Scores with 95% intervals": shares} if shares else {}
    titled |= {f"{name} with 95% intervals": marks for name, marks in scaled.items()}
    return [rows_figure(title, marks) for title, marks in titled.items()]


def figures_html(figures: Sequence[Figure]) -> str:
    """Plots alone, for a page that has the style of reports."""
    return template("figures.html.j2").render(figures=figures)


def figures_of(bench: BenchmarkReport) -> list[Figure]:
    """The plots of a benchmark, as far as its details are known."""
    figures = [_outcomes(bench)]
    if bench.categories:
        figures.append(_groups("Categories", bench.categories, bench.repeats))
    for field, groups in bench.breakdowns.items():
        figures.append(_groups(f"By {field}", groups, bench.repeats))
    details = bench.details
    run = bench.runtime
    if details is not None and details.latency_ms is not None:
        lines = [("P50", run.p50_ms), ("P90", run.p90_ms), ("P99", run.p99_ms)]
        known = [(name, value) for name, value in lines if value is not None]
        figures.append(Figure("Latency of a step", [Bins(details.latency_ms, "ms", known)]))
    if details is not None and details.completion_tokens is not None:
        figures.append(Figure("Length of an answer", [Bins(details.completion_tokens, "tokens")]))
    return figures


def _outcomes(bench: BenchmarkReport) -> Figure:
    """The outcomes of the planned rows: from the rows if they exist, else from the bundle."""
    cover = bench.coverage
    details = bench.details
    if details is not None and details.rows:
        seen = details.outcomes
        right = seen.get("right", 0)
        wrong = seen.get("wrong", 0)
        if details.binary:
            parts = [("right", right, "ok"), ("wrong", wrong, "none")]
        else:
            parts = [("scored", right + wrong, "ok")]
        parts.append(
            ("wrong, cut off" if details.binary else "cut off", seen.get("truncated", 0), "warn")
        )
        parts.append(("no answer found", seen.get("unparsed", 0), "odd"))
        parts += [(f"failed: {cause}", count, "bad") for cause, count in details.causes.items()]
        parts.append(("without a reward", seen.get("unscored", 0), "bad"))
    else:
        failed = cover.failed or 0
        if cover.scored is not None:
            scored = cover.scored
        else:
            scored = max(0, bench.n_results - failed)
        parts = [("scored", scored, "ok"), ("failed", failed, "bad")]
    parts.append(
        ("not done", max(0, (cover.planned or 0) - sum(count for _, count, _ in parts)), "gone")
    )
    return Figure("Outcomes", [Shares(parts)])


def _groups(title: str, groups: Sequence[GroupScore], repeats: int) -> Figure:
    marks = []
    for group in sorted(groups, key=lambda group: group.mean_reward):
        text = f"{words.plain(group.mean_reward)} · n = {words.size(group, repeats)}"
        marks.append(
            PlotMark(group.name, group.mean_reward, group.ci_lower, upper=group.ci_upper, text=text)
        )
    return rows_figure(f"{title}, the lowest first", marks, bars=True)


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if known:
        return sum(known)
    return None
