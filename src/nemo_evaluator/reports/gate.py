"""Gate decisions for people: text for the terminal, markdown for a pull request."""

from __future__ import annotations

from nemo_evaluator.decisions.gate_report import BenchmarkGate, GateReport, Status
from nemo_evaluator.reports import _words as words


def gate_text(report: GateReport, *, verbose: bool = False, explain: bool = False) -> str:
    """The decision as plain text."""
    lines = [f"{report.verdict}  {report.candidate} against {report.baseline}"]
    lines += [f"  {reason}" for reason in report.reasons]
    if report.missing:
        lines.append(f"  missing: {', '.join(report.missing)}")
    if report.benchmarks:
        rows = [["benchmark", "tier", "status", "metric", "difference (pp)", "limit", "n"]]
        rows += [_row(entry) for entry in report.benchmarks]
        lines += ["", *words.columns(rows)]
    lines += _open_ends(report, explain)
    if verbose:
        lines += ["", *(f"  ! {warning}" for warning in report.warnings)]
        lines.append(f"  {_terms(report)}")
    return words.printable("\n".join(lines).rstrip()) + "\n"


def _row(entry: BenchmarkGate) -> list[str]:
    limit = f"-{100 * entry.max_drop_threshold:g}"
    if entry.max_relative_drop_threshold is not None:
        limit += f", -{100 * entry.max_relative_drop_threshold:g}%"
    status = "OPEN" if entry.status is Status.INSUFFICIENT else str(entry.status)
    return [entry.benchmark, entry.tier, status, entry.metric or words.NONE, points(entry), limit, str(entry.n_paired)]


def points(entry: BenchmarkGate) -> str:
    """The difference in percentage points with its bounds."""
    if entry.delta is None:
        return words.NONE
    if entry.delta_ci_lower is None or entry.delta_ci_upper is None:
        return f"{100 * entry.delta:+.2f}"
    return f"{100 * entry.delta:+.2f} [{100 * entry.delta_ci_lower:+.2f}, {100 * entry.delta_ci_upper:+.2f}]"


def _open_ends(report: GateReport, explain: bool) -> list[str]:
    lines = []
    for entry in report.benchmarks:
        if entry.status is Status.PASS:
            continue
        lines += [f"  {entry.benchmark}: {reason}" for reason in entry.reasons]
        if explain and entry.remedy is not None:
            lines.append(f"  {entry.benchmark}: {entry.remedy.words}")
    return ["", *lines] if lines else []


def _terms(report: GateReport) -> str:
    kind = "anytime-valid intervals" if report.sequential else "intervals"
    return f"{kind} at {report.confidence:.0%} confidence; correction for several benchmarks: {report.correction}"


def gate_markdown(report: GateReport, *, explain: bool = False) -> str:
    """The decision as markdown."""
    icon = {"GO": "🟢", "NO-GO": "🔴", "INCONCLUSIVE": "⚪"}[report.verdict]
    lines = [f"# {icon} {report.verdict}", "", *(f"- {words.cell(reason)}" for reason in report.reasons), ""]
    lines += [f"Candidate {words.cell(report.candidate)} against {words.cell(report.baseline)}; {_terms(report)}.", ""]
    if report.warnings:
        lines += ["## Warnings", "", *(f"- {words.cell(warning)}" for warning in report.warnings), ""]
    if report.benchmarks:
        header = ["Benchmark", "Tier", "Status", "Metric", "Baseline", "Candidate", "Delta (pp)", "Limit (pp)", "N"]
        lines += ["## Benchmarks", "", *words.table(header, [_cells(entry) for entry in report.benchmarks])]
    unsettled = [entry for entry in report.benchmarks if entry.status is not Status.PASS]
    if unsettled:
        lines += ["## Details", ""]
        for entry in unsettled:
            lines += [f"- {words.cell(entry.benchmark)}: {words.cell(reason)}" for reason in entry.reasons]
            if explain and entry.remedy is not None:
                lines.append(f"- {words.cell(entry.benchmark)}: {words.cell(entry.remedy.words)}")
        lines.append("")
    if report.missing:
        lines += ["## Missing", "", *(f"- {words.cell(name)}" for name in report.missing)]
    return "\n".join(lines).rstrip() + "\n"


def _cells(entry: BenchmarkGate) -> list[str]:
    return [
        words.cell(entry.benchmark),
        entry.tier,
        f"**{entry.status}**" if entry.status is not Status.PASS else "PASS",
        words.cell(entry.metric or words.NONE),
        words.plain(entry.baseline_score),
        words.plain(entry.candidate_score),
        points(entry),
        f"-{100 * entry.max_drop_threshold:g}",
        str(entry.n_paired),
    ]
