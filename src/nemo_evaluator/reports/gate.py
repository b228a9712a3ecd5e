"""Gate decisions as text for the terminal, markdown for a pull request, JUnit XML for CI, and an HTML page."""

from typing import Any, Final

from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.decisions.gate.report import BenchmarkGate, GateReport, GateVerdict, Status
from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports._page import plain_text, template
from nemo_evaluator.reports._plots import PlotMark, rows_figure
from nemo_evaluator.reports._words import DECISIONS, ICONS, VERDICTS, explained

_MOST_WARNINGS: Final = 10
_BAD: Final[tuple[str, ...]] = (Status.BREACH, Status.MISSING, GateVerdict.NO_GO)
_JUNIT: Final = {str(Status.PASS): "", str(GateVerdict.GO): "", **dict.fromkeys(_BAD, "failure")}


def gate_text(
    report: GateReport, *, verbose: bool = False, explain: bool = False, width: int | None = None
) -> str:
    """The decision as plain text.

    Args:
        report: The decision.
        verbose: Show all warnings, the method and the meanings of verdicts as well.
        explain: Say what would settle open benchmarks.
        width: The largest width of a line; None for any.
    """
    rows = [["benchmark", "tier", "verdict", "metric", "difference (pp)", "limit", "n"]]
    for entry in report.benchmarks:
        metric = entry.metric or words.NONE
        rows.append(
            [
                entry.benchmark,
                entry.tier,
                entry.word,
                metric,
                points(entry),
                limits(entry),
                f"{entry.n_paired:,}",
            ]
        )
    shown = {"table": words.columns(rows, width=width, spare=(3, 1, 6)), "verbose": verbose}
    shown |= {"warnings": report.warnings if verbose else _gathered(report)}
    return plain_text("gate.txt.j2", width, **shown, **_facts(report, explain))


def _gathered(report: GateReport) -> list[str]:
    """The warnings, at most ten; those that several benchmarks share are merged into one line."""
    benchmark_names = {entry.benchmark for entry in report.benchmarks}
    shared: dict[str, list[str]] = {}
    for warning in report.warnings:
        name, _, note = warning.partition(": ")
        if name in benchmark_names:
            shared.setdefault(note, []).append(name)
        else:
            shared[warning] = []
    lines = []
    for note, names in shared.items():
        if len(names) <= 3:
            named = names
        else:
            named = [", ".join(names[:2]) + f" and {len(names) - 2} more"]
        lines.append(f"{', '.join(named)}: {note}" if names else note)
    if len(lines) <= _MOST_WARNINGS:
        return lines
    return [*lines[:_MOST_WARNINGS], f"{len(lines) - _MOST_WARNINGS:,} more: --verbose shows them"]


def limits(entry: BenchmarkGate) -> str:
    """The largest acceptable change of a benchmark: in points or score units, and as a share of the baseline."""
    sign = "-" if entry.direction == "higher_is_better" else "+"
    limit_words = f"{sign}{_units(entry) * entry.max_drop_threshold:g}"
    if entry.max_relative_drop_threshold is not None:
        limit_words += f", {sign}{100 * entry.max_relative_drop_threshold:g}%"
    return limit_words


def points(entry: BenchmarkGate) -> str:
    """The difference with its bounds, in percentage points, or in score units for rewards beyond [0, 1]."""
    if entry.delta is None:
        return words.NONE
    units = _units(entry)
    unit = "" if entry.in_points else " score"
    if entry.delta_ci_lower is None or entry.delta_ci_upper is None:
        return f"{units * entry.delta:+.2f}{unit}"
    bounds = f"[{units * entry.delta_ci_lower:+.2f}, {units * entry.delta_ci_upper:+.2f}]"
    return f"{units * entry.delta:+.2f} {bounds}{unit}"


def _units(entry: BenchmarkGate) -> int:
    """The factor from score units to those that are shown."""
    return 100 if entry.in_points else 1


def _unsettled(report: GateReport, explain: bool) -> list[tuple[str, str]]:
    """Each reason of each benchmark that did not pass and, if requested, what would settle it."""
    unsettled: list[tuple[str, str]] = []
    for entry in report.benchmarks:
        if entry.status is not Status.PASS:
            for reason in [
                *entry.reasons,
                *([entry.remedy.words] if explain and entry.remedy is not None else []),
            ]:
                unsettled.append((entry.benchmark, reason))
    return unsettled


def gate_markdown(report: GateReport, *, explain: bool = False) -> str:
    """The decision as markdown.

    Args:
        report: The decision.
        explain: Say what would settle open benchmarks.
    """
    return words.printable(
        template("gate.md.j2", words.cell).render(icons=ICONS, **_facts(report, explain))
    )


def gate_html(report: GateReport) -> str:
    """The decision as one self-contained page: no script, no external resources, every text escaped."""
    marks = []
    for entry in report.benchmarks:
        if entry.delta is not None:
            units = _units(entry)
            sign = -1 if entry.direction == "higher_is_better" else 1
            lower, upper = (
                None if bound is None else units * bound
                for bound in (entry.delta_ci_lower, entry.delta_ci_upper)
            )
            limit = sign * units * entry.max_drop_threshold
            value = units * entry.delta
            marks.append(
                PlotMark(
                    entry.benchmark,
                    value,
                    lower,
                    upper=upper,
                    text=points(entry),
                    style=entry.word,
                    limit=limit,
                )
            )
    title = "Candidate minus baseline with its interval, and the limit of each benchmark"
    # Each mark has its own limit; the common one of 0 only makes the axis one of differences.
    figure = rows_figure(title, marks, limit=0.0) if marks else None
    return words.printable(
        template("gate.html.j2").render(differences=figure, **_facts(report, explain=True))
    )


def gate_junit(report: GateReport) -> str:
    """The decision as JUnit XML, with a test case for each benchmark and one for the decision itself.

    A breach, a missing benchmark and a NO-GO are failures; everything else that did not pass is an error.
    """
    kinds = [_JUNIT.get(entry.status, "error") for entry in report.benchmarks] + [
        _JUNIT.get(report.verdict, "error")
    ]
    return harmless(template("gate.xml.j2").render(kinds=kinds, **_facts(report, explain=False)))


def _facts(report: GateReport, explain: bool) -> dict[str, Any]:
    """The values that all templates of a decision share."""
    kind = "anytime-valid intervals" if report.sequential else "intervals"
    terms = f"{kind} at {report.confidence:.0%} confidence; correction for several benchmarks: {report.correction}"
    meanings = f"Benchmarks: {explained(VERDICTS)} The whole: {explained(DECISIONS)}"
    shown = {
        "points": points,
        "limits": limits,
        "meanings": meanings,
        "terms": terms,
        "w": words,
    }
    return {"report": report, "unsettled": _unsettled(report, explain), **shown}
