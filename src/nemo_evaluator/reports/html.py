"""The report as one self-contained page: no script, no external resources, every text escaped."""

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
    """The whole report as HTML."""
    names = words.labels(report.benchmarks)
    colour_of_model = {model: position % _COLOURS for position, model in enumerate(report.models)}
    sections: list[dict[str, object]] = []
    for position, bench in enumerate(report.benchmarks):
        sections.append(
            {
                "anchor": f"b{position}",
                "label": names[position],
                "bench": bench,
                "figures": figures_of(bench),
            }
        )
    return template("report.html.j2").render(
        report=report,
        sections=sections,
        scores=_score_figures(report, names, colour_of_model),
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
        colour=colour_of_model,
        meanings=explained(STATUSES),
        when=max((bench.timestamp for bench in report.benchmarks), default=""),
        total_tokens=_total([bench.runtime.total_tokens for bench in report.benchmarks]),
        distinct=len(
            {
                *(bench.name for bench in report.benchmarks),
                *(unfinished.name for unfinished in report.unfinished),
            }
        ),
        total_steps=sum(bench.n_results for bench in report.benchmarks),
        total_cost=_total([bench.runtime.cost_usd for bench in report.benchmarks]),
    )


def _score_figures(
    report: EvalReport, names: dict[int, str], colour: dict[str, int]
) -> list[Figure]:
    """One plot of the scores between 0 and 1, and one for each metric on another scale."""
    shares: list[PlotMark] = []
    scaled: dict[str, list[PlotMark]] = {}
    for position, bench in enumerate(report.benchmarks):
        headline = bench.headline
        if headline is None:
            continue
        text = f"{words.plain(headline.value)} {'INVALID' if bench.invalid else headline.name}"
        if len(report.models) > 1:
            label = bench.model or _UNNAMED
            group = names[position]
        else:
            label = names[position]
            group = ""
        shape = colour[bench.model]
        doubtful = " doubtful" if bench.invalid else ""
        mark = PlotMark(
            label,
            headline.value,
            headline.ci_lower,
            upper=headline.ci_upper,
            text=text,
            style=f"c{shape}{doubtful}",
            shape=shape,
            group=group,
        )
        fits = min(mark.known) >= 0 and max(mark.known) <= 1
        (shares if fits else scaled.setdefault(headline.name, [])).append(mark)
    marks_of_title = {"Scores with 95% intervals": shares} if shares else {}
    marks_of_title |= {f"{name} with 95% intervals": marks for name, marks in scaled.items()}
    return [rows_figure(title, marks) for title, marks in marks_of_title.items()]


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
    runtime = bench.runtime
    if details is not None and details.latency_ms is not None:
        percentile_values = [
            ("P50", runtime.p50_ms),
            ("P90", runtime.p90_ms),
            ("P99", runtime.p99_ms),
        ]
        percentiles = [(name, value) for name, value in percentile_values if value is not None]
        figures.append(Figure("Latency of a step", [Bins(details.latency_ms, "ms", percentiles)]))
    if details is not None and details.completion_tokens is not None:
        figures.append(Figure("Length of an answer", [Bins(details.completion_tokens, "tokens")]))
    return figures


def _outcomes(bench: BenchmarkReport) -> Figure:
    """The outcomes of the planned rows: from the rows if they were read, otherwise from the bundle."""
    run_coverage = bench.coverage
    details = bench.details
    if details is not None and details.rows:
        counts = details.outcomes
        right_count = counts.get("right", 0)
        wrong_count = counts.get("wrong", 0)
        if details.binary:
            parts = [("right", right_count, "ok"), ("wrong", wrong_count, "none")]
        else:
            parts = [("scored", right_count + wrong_count, "ok")]
        parts.append(
            ("wrong, cut off" if details.binary else "cut off", counts.get("truncated", 0), "warn")
        )
        parts.append(("no answer found", counts.get("unparsed", 0), "odd"))
        parts += [(f"failed: {cause}", count, "bad") for cause, count in details.causes.items()]
        parts.append(("without a reward", counts.get("unscored", 0), "bad"))
    else:
        failed = run_coverage.failed or 0
        if run_coverage.scored is not None:
            scored = run_coverage.scored
        else:
            scored = max(0, bench.n_results - failed)
        parts = [("scored", scored, "ok"), ("failed", failed, "bad")]
    parts.append(
        (
            "not done",
            max(0, (run_coverage.planned or 0) - sum(count for _, count, _ in parts)),
            "gone",
        )
    )
    return Figure("Outcomes", [Shares(parts)])


def _groups(title: str, groups: Sequence[GroupScore], repeats: int) -> Figure:
    """The plot of the mean rewards of groups, the lowest first."""
    marks = []
    for group in sorted(groups, key=lambda group: group.mean_reward):
        text = f"{words.plain(group.mean_reward)} · n = {words.size(group, repeats)}"
        marks.append(
            PlotMark(group.name, group.mean_reward, group.ci_lower, upper=group.ci_upper, text=text)
        )
    return rows_figure(f"{title}, the lowest first", marks, bars=True)


def _total(values: Sequence[float | None]) -> float | None:
    """The sum of the known values; None if all are unknown."""
    known_values = [value for value in values if value is not None]
    if known_values:
        return sum(known_values)
    return None
