"""The report as one self-contained page: no script, no external resources, every text escaped."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports._page import template
from nemo_evaluator.reports._plots import Bins, Figure, PlotMark, Shares, rows_figure
from nemo_evaluator.reports._words import STATUSES, explained
from nemo_evaluator.reports.model import BenchmarkReport, EvalReport
from nemo_evaluator.reports.row_details import RowDetails
from nemo_evaluator.runs.bundle import INVALID
from nemo_evaluator.runs.scores import GroupScore, Score

_COLOURS: Final = 6
_UNNAMED: Final = "unnamed model"


@dataclass(frozen=True, slots=True)
class _ReportSection:
    """One benchmark of the page.

    Attributes:
        anchor: The id of its part of the page.
        label: Its name, distinct from those of other benchmarks.
        bench: The benchmark.
        figures: Its plots.
    """

    anchor: str
    label: str
    bench: BenchmarkReport
    figures: list[Figure]


def render_html(report: EvalReport) -> str:
    """The whole report as HTML."""
    names = words.labels(report.benchmarks)
    colour_of_model: dict[str, int] = {}
    for position, model in enumerate(report.models):
        colour_of_model[model] = position % _COLOURS
    sections: list[_ReportSection] = []
    for position, bench in enumerate(report.benchmarks):
        sections.append(_ReportSection(f"b{position}", names[position], bench, figures_of(bench)))
    newest = max((bench.timestamp for bench in report.benchmarks), default="")
    total_steps = sum(bench.n_results for bench in report.benchmarks)
    total_tokens = _total(bench.runtime.total_tokens for bench in report.benchmarks)
    total_cost = _total(bench.runtime.cost_usd for bench in report.benchmarks)
    return template("report.html.j2").render(
        report=report,
        sections=sections,
        scores=_score_figures(report, names, colour_of_model),
        many=len(report.models) > 1,
        invalid=[section for section in sections if section.bench.invalid],
        kinds=words.ROWS,
        unnamed=_UNNAMED,
        unfinished=words.unfinished_names(report),
        w=words,
        colour=colour_of_model,
        meanings=explained(STATUSES),
        when=newest,
        total_tokens=total_tokens,
        distinct=_number_of_names(report),
        total_steps=total_steps,
        total_cost=total_cost,
    )


def _number_of_names(report: EvalReport) -> int:
    """How many benchmarks of different names the report is on."""
    names = {bench.name for bench in report.benchmarks}
    names.update(unfinished.name for unfinished in report.unfinished)
    return len(names)


def _score_figures(
    report: EvalReport, names: dict[int, str], colour: dict[str, int]
) -> list[Figure]:
    """One plot of the scores between 0 and 1, and one for each metric on another scale."""
    several_models = len(report.models) > 1
    shares: list[PlotMark] = []
    marks_of_metric: dict[str, list[PlotMark]] = {}
    for position, bench in enumerate(report.benchmarks):
        if bench.headline is None:
            continue
        shape = colour[bench.model]
        mark = _score_mark(bench, bench.headline, shape)
        if several_models:
            mark = replace(mark, label=bench.model or _UNNAMED, group=names[position])
        else:
            mark = replace(mark, label=names[position])
        if min(mark.known) >= 0 and max(mark.known) <= 1:
            shares.append(mark)
        else:
            marks_of_metric.setdefault(bench.headline.name, []).append(mark)
    figures: list[Figure] = []
    if shares:
        figures.append(rows_figure("Scores with 95% intervals", shares))
    for metric, marks in marks_of_metric.items():
        figures.append(rows_figure(f"{metric} with 95% intervals", marks))
    return figures


def _score_mark(bench: BenchmarkReport, headline: Score, shape: int) -> PlotMark:
    """The mark of a benchmark's headline, labelled with the benchmark's name."""
    style = f"c{shape}"
    remark = headline.name
    if bench.invalid:
        style = f"{style} doubtful"
        remark = INVALID
    return PlotMark(
        bench.name,
        headline.value,
        headline.ci_lower,
        upper=headline.ci_upper,
        text=f"{words.plain(headline.value)} {remark}",
        style=style,
        shape=shape,
    )


def figures_html(figures: Sequence[Figure]) -> str:
    """Plots without a page around them, for a page that has the style sheet of reports."""
    return template("figures.html.j2").render(figures=figures)


def figures_of(bench: BenchmarkReport) -> list[Figure]:
    """The plots of a benchmark; those of latency and length only if its rows were read."""
    figures = [_outcomes(bench)]
    if bench.categories:
        figures.append(_groups("Categories", bench.categories, bench.repeats))
    for field, groups in bench.breakdowns.items():
        figures.append(_groups(f"By {field}", groups, bench.repeats))
    details = bench.details
    if details is not None and details.latency_ms is not None:
        latencies = Bins(details.latency_ms, "ms", _latency_percentiles(bench))
        figures.append(Figure("Latency of a step", [latencies]))
    if details is not None and details.completion_tokens is not None:
        lengths = Bins(details.completion_tokens, "tokens")
        figures.append(Figure("Length of an answer", [lengths]))
    return figures


def _latency_percentiles(bench: BenchmarkReport) -> list[tuple[str, float]]:
    """The names and values of the latency percentiles that are known."""
    value_of_name = {
        "P50": bench.runtime.p50_ms,
        "P90": bench.runtime.p90_ms,
        "P99": bench.runtime.p99_ms,
    }
    percentiles: list[tuple[str, float]] = []
    for name, value in value_of_name.items():
        if value is not None:
            percentiles.append((name, value))
    return percentiles


def _outcomes(bench: BenchmarkReport) -> Figure:
    """The outcomes of the planned rows: from the rows if they were read, otherwise from the bundle."""
    if bench.details is not None and bench.details.rows:
        parts = _outcomes_of_rows(bench.details)
    else:
        failed = bench.coverage.failed or 0
        scored = bench.coverage.scored
        if scored is None:
            scored = max(0, bench.n_results - failed)
        parts = [("scored", scored, "ok"), ("failed", failed, "bad")]
    rows_done = sum(count for _, count, _ in parts)
    rows_planned = bench.coverage.planned or 0
    parts.append(("not done", max(0, rows_planned - rows_done), "gone"))
    return Figure("Outcomes", [Shares(parts)])


def _outcomes_of_rows(details: RowDetails) -> list[tuple[str, int, str]]:
    """The parts of a plot of outcomes, as far as the rows show them."""
    counts = details.outcomes
    right = counts.get("right", 0)
    wrong = counts.get("wrong", 0)
    truncated = counts.get("truncated", 0)
    parts: list[tuple[str, int, str]] = []
    if details.binary:
        parts.append(("right", right, "ok"))
        parts.append(("wrong", wrong, "none"))
        parts.append(("wrong, cut off", truncated, "warn"))
    else:
        parts.append(("scored", right + wrong, "ok"))
        parts.append(("cut off", truncated, "warn"))
    parts.append(("no answer found", counts.get("unparsed", 0), "odd"))
    for cause, count in details.causes.items():
        parts.append((f"failed: {cause}", count, "bad"))
    parts.append(("without a reward", counts.get("unscored", 0), "bad"))
    return parts


def _groups(title: str, groups: Sequence[GroupScore], repeats: int) -> Figure:
    """The plot of the mean rewards of groups, the lowest first."""
    marks: list[PlotMark] = []
    for group in sorted(groups, key=lambda group: group.mean_reward):
        text = f"{words.plain(group.mean_reward)} · n = {words.size(group, repeats)}"
        mark = PlotMark(
            group.name, group.mean_reward, group.ci_lower, upper=group.ci_upper, text=text
        )
        marks.append(mark)
    return rows_figure(f"{title}, the lowest first", marks, bars=True)


def _total(values: Iterable[float | None]) -> float | None:
    """The sum of the known values; None if all are unknown."""
    known_values = [value for value in values if value is not None]
    if known_values:
        return sum(known_values)
    return None
