"""Gate decisions for people: text for the terminal, markdown for a pull request."""

from __future__ import annotations

from typing import Final

from nemo_evaluator.decisions.gate.report import BenchmarkGate, GateReport, Status
from nemo_evaluator.reports import _words as words

_MOST_WARNINGS: Final = 10


def gate_text(report: GateReport, *, verbose: bool = False, explain: bool = False, width: int | None = None) -> str:
    """The decision as plain text, in lines of ``width`` where one is given."""
    lines = [f"{report.verdict}  {report.candidate} against {report.baseline}"]
    lines += [line for reason in report.reasons for line in words.wrapped(reason, width=width)]
    if report.missing:
        lines += words.wrapped(f"missing: {', '.join(report.missing)}", width=width)
    if report.benchmarks:
        rows = [["benchmark", "tier", "status", "metric", "difference (pp)", "limit", "n"]]
        rows += [_row(entry) for entry in report.benchmarks]
        lines += ["", *words.columns(rows, width=width, spare=(3, 1, 5))]
    lines += [line for said in _open_ends(report, explain) for line in words.wrapped(said, width=width)]
    said = report.warnings if verbose else _gathered(report)
    if said:
        lines += ["", *(line for warning in said for line in words.wrapped(warning, mark="! ", width=width))]
    if verbose:
        lines += ["", *words.wrapped(_terms(report), width=width)]
    return words.printable("\n".join(lines).rstrip()) + "\n"


def _gathered(report: GateReport) -> list[str]:
    """The warnings, those that many benchmarks share said once."""
    known = {entry.benchmark for entry in report.benchmarks}
    shared: dict[str, list[str]] = {}
    for warning in report.warnings:
        name, _, note = warning.partition(": ")
        if name in known:
            shared.setdefault(note, []).append(name)
        else:
            shared[warning] = []
    lines = [f"{_listed(names)}: {note}" if names else note for note, names in shared.items()]
    if len(lines) <= _MOST_WARNINGS:
        return lines
    return [*lines[:_MOST_WARNINGS], f"{len(lines) - _MOST_WARNINGS:,} more: --verbose shows them"]


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _row(entry: BenchmarkGate) -> list[str]:
    status = "OPEN" if entry.status is Status.INSUFFICIENT else str(entry.status)
    metric = entry.metric or words.NONE
    return [entry.benchmark, entry.tier, status, metric, points(entry), limits(entry), f"{entry.n_paired:,}"]


def limits(entry: BenchmarkGate) -> str:
    """What may be lost: points or score units, and a share of the baseline."""
    sign = "-" if entry.direction == "higher_is_better" else "+"
    found = f"{sign}{_units(entry) * entry.max_drop_threshold:g}"
    if entry.max_relative_drop_threshold is not None:
        found += f", {sign}{100 * entry.max_relative_drop_threshold:g}%"
    return found


def points(entry: BenchmarkGate) -> str:
    """The difference with its bounds: in percentage points, or in score units where rewards lie beyond [0, 1]."""
    if entry.delta is None:
        return words.NONE
    units, tail = _units(entry), "" if entry.in_points else " score"
    if entry.delta_ci_lower is None or entry.delta_ci_upper is None:
        return f"{units * entry.delta:+.2f}{tail}"
    bounds = f"[{units * entry.delta_ci_lower:+.2f}, {units * entry.delta_ci_upper:+.2f}]"
    return f"{units * entry.delta:+.2f} {bounds}{tail}"


def _units(entry: BenchmarkGate) -> int:
    return 100 if entry.in_points else 1


def _open_ends(report: GateReport, explain: bool) -> list[str]:
    lines = []
    for entry in report.benchmarks:
        if entry.status is Status.PASS:
            continue
        lines += [f"{entry.benchmark}: {reason}" for reason in entry.reasons]
        if explain and entry.remedy is not None:
            lines.append(f"{entry.benchmark}: {entry.remedy.words}")
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
    return words.printable("\n".join(lines).rstrip()) + "\n"


def _cells(entry: BenchmarkGate) -> list[str]:
    return [
        words.cell(entry.benchmark),
        entry.tier,
        f"**{entry.status}**" if entry.status is not Status.PASS else "PASS",
        words.cell(entry.metric or words.NONE),
        words.plain(entry.baseline_score),
        words.plain(entry.candidate_score),
        points(entry),
        limits(entry),
        f"{entry.n_paired:,}",
    ]
