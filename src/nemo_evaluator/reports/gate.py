"""Gate decisions as text for the terminal, markdown for a pull request, JUnit XML for CI, and an HTML page."""

from collections.abc import Sequence
from typing import Any, Final

from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.decisions.gate.report import BenchmarkGate, GateReport, GateVerdict, Status
from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports._page import plain_text, template
from nemo_evaluator.reports._plots import PlotMark, rows_figure
from nemo_evaluator.reports._words import DECISIONS, ICONS, VERDICTS, explained

_MOST_WARNINGS: Final = 10
# The outcomes of test cases; others are errors.
_JUNIT_OUTCOMES: Final[dict[str, str]] = {
    Status.PASS: "",
    Status.BREACH: "failure",
    Status.MISSING: "failure",
    GateVerdict.GO: "",
    GateVerdict.NO_GO: "failure",
}


def gate_text(
    report: GateReport, *, verbose: bool = False, explain: bool = False, width: int | None = None
) -> str:
    """The decision as plain text.

    Args:
        report: The decision.
        verbose: Show all warnings, the method and the meanings of verdicts as well.
        explain: Show what would settle open benchmarks.
        width: The largest width of a line; None for any.
    """
    rows = [["benchmark", "tier", "verdict", "metric", "difference (pp)", "limit", "n"]]
    for entry in report.benchmarks:
        row = [
            entry.benchmark,
            entry.tier,
            entry.word,
            entry.metric or words.NONE,
            points(entry),
            limits(entry),
            f"{entry.n_paired:,}",
        ]
        rows.append(row)
    warnings = report.warnings
    if not verbose:
        warnings = _gathered(warnings, [entry.benchmark for entry in report.benchmarks])
    return plain_text(
        "gate.txt.j2",
        width,
        table=words.columns(rows, width=width, spare=(3, 1, 6)),
        verbose=verbose,
        warnings=warnings,
        **_shared_values(report, explain=explain),
    )


def _gathered(warnings: Sequence[str], benchmarks: Sequence[str]) -> list[str]:
    """The warnings, at most ten; those that several benchmarks share are merged into one line.

    Args:
        warnings: The warnings; one on a benchmark starts with its name and a colon.
        benchmarks: The names of the benchmarks.
    """
    benchmarks_of_note: dict[str, list[str]] = {}
    for warning in warnings:
        name, _, note = warning.partition(": ")
        if name in benchmarks:
            benchmarks_of_note.setdefault(note, []).append(name)
        else:
            benchmarks_of_note[warning] = []
    lines: list[str] = []
    for note, names in benchmarks_of_note.items():
        if names:
            lines.append(f"{_joined(names)}: {note}")
        else:
            lines.append(note)
    lines_left_out = len(lines) - _MOST_WARNINGS
    if lines_left_out <= 0:
        return lines
    return [*lines[:_MOST_WARNINGS], f"{lines_left_out:,} more: --verbose shows them"]


def _joined(names: Sequence[str]) -> str:
    """Up to three names, or two and the number of the others."""
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} and {len(names) - 2} more"


def limits(entry: BenchmarkGate) -> str:
    """The largest acceptable change of a benchmark: in points or score units, and as a share of the baseline."""
    sign = "-" if entry.direction == "higher_is_better" else "+"
    limit = f"{sign}{_units(entry) * entry.max_drop_threshold:g}"
    if entry.max_relative_drop_threshold is not None:
        limit += f", {sign}{100 * entry.max_relative_drop_threshold:g}%"
    return limit


def points(entry: BenchmarkGate) -> str:
    """The difference with its bounds, in percentage points, or in score units for rewards beyond [0, 1]."""
    if entry.delta is None:
        return words.NONE
    units = _units(entry)
    difference = f"{units * entry.delta:+.2f}"
    if entry.delta_ci_lower is not None and entry.delta_ci_upper is not None:
        difference += f" [{units * entry.delta_ci_lower:+.2f}, {units * entry.delta_ci_upper:+.2f}]"
    if not entry.in_points:
        difference += " score"
    return difference


def _units(entry: BenchmarkGate) -> int:
    """The factor from score units to those that are shown."""
    return 100 if entry.in_points else 1


def _unsettled(report: GateReport, explain: bool) -> list[tuple[str, str]]:
    """Each reason of each benchmark that did not pass and, if requested, what would settle it."""
    unsettled: list[tuple[str, str]] = []
    for entry in report.benchmarks:
        if entry.status is Status.PASS:
            continue
        for reason in entry.reasons:
            unsettled.append((entry.benchmark, reason))
        if explain and entry.remedy is not None:
            unsettled.append((entry.benchmark, entry.remedy.words))
    return unsettled


def gate_markdown(report: GateReport, *, explain: bool = False) -> str:
    """The decision as markdown.

    Args:
        report: The decision.
        explain: Show what would settle open benchmarks.
    """
    values = _shared_values(report, explain=explain)
    page = template("gate.md.j2", words.cell).render(icons=ICONS, **values)
    return words.printable(page)


def gate_html(report: GateReport) -> str:
    """The decision as one self-contained page: no script, no external resources, every text escaped."""
    marks: list[PlotMark] = []
    for entry in report.benchmarks:
        if entry.delta is not None:
            marks.append(_mark(entry, entry.delta))
    figure = None
    if marks:
        title = "Candidate minus baseline with its interval, and the limit of each benchmark"
        # Each mark has its own limit; the common one of 0 only makes the axis one of differences.
        figure = rows_figure(title, marks, limit=0.0)
    values = _shared_values(report, explain=True)
    page = template("gate.html.j2").render(differences=figure, **values)
    return words.printable(page)


def _mark(entry: BenchmarkGate, delta: float) -> PlotMark:
    """The difference of one benchmark with its interval and its limit."""
    units = _units(entry)
    limit = units * entry.max_drop_threshold
    if entry.direction == "higher_is_better":
        limit = -limit
    return PlotMark(
        entry.benchmark,
        units * delta,
        _scaled(entry.delta_ci_lower, units),
        upper=_scaled(entry.delta_ci_upper, units),
        text=points(entry),
        style=entry.word,
        limit=limit,
    )


def _scaled(bound: float | None, units: int) -> float | None:
    """A bound in the units that are shown; None when it is unknown."""
    if bound is None:
        return None
    return units * bound


def gate_junit(report: GateReport) -> str:
    """The decision as JUnit XML, with a test case for each benchmark and one for the decision itself.

    A breach, a missing benchmark and a NO-GO are failures; everything else that did not pass is an error. Advisory
    benchmarks do not take part in the decision: their cases are skipped unless they passed.
    """
    outcomes = [_case_outcome(entry) for entry in report.benchmarks]
    outcomes.append(_JUNIT_OUTCOMES.get(report.verdict, "error"))
    values = _shared_values(report, explain=False)
    return harmless(template("gate.xml.j2").render(outcomes=outcomes, **values))


def _case_outcome(entry: BenchmarkGate) -> str:
    """The outcome of a benchmark's test case: "failure", "error" or "skipped"; empty for success."""
    outcome = _JUNIT_OUTCOMES.get(entry.status, "error")
    if outcome and entry.tier == "advisory":
        return "skipped"
    return outcome


def _shared_values(report: GateReport, *, explain: bool) -> dict[str, Any]:
    """The values that all templates of a decision use.

    Args:
        report: The decision.
        explain: Show what would settle open benchmarks.
    """
    kind = "anytime-valid intervals" if report.sequential else "intervals"
    confidence = f"{kind} at {report.confidence:.0%} confidence"
    return {
        "report": report,
        "unsettled": _unsettled(report, explain),
        "points": points,
        "limits": limits,
        "meanings": f"Benchmarks: {explained(VERDICTS)} The whole: {explained(DECISIONS)}",
        "terms": f"{confidence}; correction for several benchmarks: {report.correction}",
        "w": words,
    }
