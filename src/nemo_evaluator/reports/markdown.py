"""The report as markdown: one table of headlines, then what stands behind each of them."""

from __future__ import annotations

from collections.abc import Sequence

from nemo_evaluator.reports import _format as fmt
from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports.model import BenchmarkReport, EvalReport
from nemo_evaluator.runs.scores import Group, Score


def render_markdown(report: EvalReport) -> str:
    """The whole report."""
    names = fmt.labels(report.benchmarks)
    many = len(report.models) > 1
    lines = [f"# {words.line(report.title)}", "", *_headlines(report, names, many)]
    lines += _warnings(report, names)
    for at, bench in enumerate(report.benchmarks):
        lines += _behind(bench, names[at], many)
    return "\n".join(lines).rstrip() + "\n"


def _headlines(report: EvalReport, names: dict[int, str], many: bool) -> list[str]:
    header = ["Benchmark", *(["Model"] if many else []), "Scorer", "Samples", "Score", "CI (95%)"]
    header += ["n", "Coverage", "Truncated", "Unparsed", "Status"]
    rows: list[list[str]] = []
    for at, bench in enumerate(report.benchmarks):
        model = [bench.model] if many else []
        tail = [fmt.coverage(bench), fmt.percent(bench.truncated_share), fmt.percent(bench.unparsed_share)]
        status = f"**{bench.status}**" if bench.invalid else bench.status
        head = bench.headline
        samples = f"{bench.samples} × {bench.repeats}" if bench.repeats > 1 else str(bench.samples)
        if head is None:
            rows.append([names[at], *model, fmt.NONE, samples, fmt.NONE, fmt.NONE, fmt.NONE, *tail, status])
            continue
        native = f"{head.name} (native)" if bench.scorers else head.name
        rows.append([names[at], *model, native, samples, *_cells(head), *tail, status])
        for score in bench.scorers:
            scorer = score.name.removeprefix("scorer:")
            rows.append(["", *["" for _ in model], scorer, "", *_cells(score), "", "", "", ""])
    return _table(header, rows)


def _cells(score: Score) -> list[str]:
    return [f"{fmt.number(score.value)}{fmt.right_of(score)}", fmt.interval(score), fmt.count(score.n)]


def _warnings(report: EvalReport, names: dict[int, str]) -> list[str]:
    invalid = [(names[at], bench) for at, bench in enumerate(report.benchmarks) if bench.invalid]
    lines = [
        f"- **{words.line(name)}** is INVALID: {words.line('; '.join(bench.reasons) or 'no reason given')}"
        for name, bench in invalid
    ]
    lines += [f"- **{words.line(one.name)}** did not finish: {words.line(one.reason)}" for one in report.unfinished]
    notes = [
        f"- **{words.line(names[at])}**: {words.line(note)}"
        for at, bench in enumerate(report.benchmarks)
        for note in bench.notes
    ]
    found = ["", "## Do not use these scores", "", *lines] if lines else []
    return [*found, "", "## Notes", "", *notes] if notes else found


def _behind(bench: BenchmarkReport, name: str, many: bool) -> list[str]:
    sections = ["", f"Stop rule: {words.line(bench.stop_rule)}"] if bench.stop_rule else []
    if bench.others:
        table = _table(["Metric", "Value", "CI (95%)", "n"], [[s.name, *_cells(s)] for s in bench.others])
        sections += ["", "### Other metrics", "", *table]
    if bench.categories:
        sections += ["", "### Categories", "", *_groups("Category", bench.categories)]
    for field, groups in bench.breakdowns.items():
        sections += ["", f"### By {words.line(field)}", "", *_groups(field, groups)]
    for title, what, lines in (
        ("Failures by cause", "Cause", bench.failures),
        ("Answer problems", "Flaw", bench.flaws),
    ):
        if lines:
            rows = [
                [line.cause, fmt.count(line.count), fmt.percent(line.share), line.examples[0] if line.examples else ""]
                for line in lines
            ]
            sections += ["", f"### {title}", "", *_table([what, "Steps", "Share", "Example"], rows)]
    sections += _runtime(bench)
    title = f"{name} · {bench.model}" if many else name
    return ["", f"## {words.line(title)}", *sections] if sections else []


def _groups(field: str, groups: Sequence[Group]) -> list[str]:
    rows = [[group.name, fmt.count(group.n), fmt.number(group.mean_reward), fmt.interval(group)] for group in groups]
    return _table([field, "n", "Mean reward", "CI (95%)"], rows)


def _runtime(bench: BenchmarkReport) -> list[str]:
    run = bench.runtime
    parts = [
        f"{fmt.count(run.total_tokens)} tokens" if run.total_tokens else "",
        f"{fmt.seconds(run.elapsed_seconds)}" if run.elapsed_seconds is not None else "",
        f"latency P50 {fmt.count(run.p50_ms)} ms, P99 {fmt.count(run.p99_ms)} ms" if run.p50_ms is not None else "",
        f"queue P50 {fmt.count(run.queue_p50_ms)} ms" if run.queue_p50_ms else "",
        f"{run.tokens_per_second:,.0f} tokens/s" if run.tokens_per_second else "",
        f"${run.cost_usd:.4f}" if run.cost_usd is not None else "",
    ]
    said = " · ".join(part for part in parts if part)
    return ["", f"Run: {said}"] if said else []


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(words.cell(cell) for cell in header)} |", f"|{'---|' * len(header)}"]
    return lines + [f"| {' | '.join(words.cell(cell) for cell in row)} |" for row in rows]
