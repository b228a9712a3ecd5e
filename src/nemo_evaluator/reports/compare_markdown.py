"""Comparisons as markdown, for a pull request."""

from __future__ import annotations

from typing import Final

from nemo_evaluator.decisions.compare.compare_set import ComparisonSet
from nemo_evaluator.decisions.compare.flips import Flip
from nemo_evaluator.decisions.compare.report import RegressionReport
from nemo_evaluator.decisions.compare.verdict import settling
from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports.compare import (
    LISTED,
    category_cells,
    name_of,
    one_line,
    paired,
    state_of,
    statistics,
    worst_first,
)

_ICONS: Final = {"PASS": "🟢", "WARN": "🟡", "INCONCLUSIVE": "⚪", "BLOCK": "🔴"}


def compare_markdown(report: RegressionReport) -> str:
    """One comparison as markdown."""
    lines = [f"# {_ICONS[report.verdict]} {report.verdict}: {words.cell(report.benchmark)}", ""]
    if report.warnings:
        lines += ["## Warnings", "", *(f"- {words.cell(warning)}" for warning in report.warnings), ""]
    lines += ["## Executive Summary", "", *(f"- {words.cell(reason)}" for reason in report.reasons), ""]
    lines += words.table(["", "Score", "Problems", "Failed rows", "Run", "Model"], _sides(report))
    lines += _profile(report)
    if report.score_deltas:
        rows = [
            [words.cell(name), f"{e['baseline']:.4f}", f"{e['candidate']:.4f}", f"{e['delta']:+.4f}", _overlap(e)]
            for name, e in report.score_deltas.items()
        ]
        lines += [
            "## Score Deltas",
            "",
            *words.table(["Metric", "Baseline", "Candidate", "Delta", "CIs overlap"], rows),
        ]
    said = [*paired(report), *statistics(report)[:3]]
    lines += ["## Statistical Analysis", "", *(f"- {words.cell(line)}" for line in said)]
    lines += ["", "## Shifts", "", *words.table(["", "Baseline", "Candidate", "Change"], _shift_cells(report))]
    lines += _flip_sections(report)
    return words.printable("\n".join([*lines, *_guidance(report)]).rstrip()) + "\n"


def _sides(report: RegressionReport) -> list[list[str]]:
    return [
        [
            name,
            words.with_bounds(side.score),
            str(side.problems),
            str(side.failed),
            words.cell(side.run_id),
            words.cell(side.config.get("model") or words.NONE),
        ]
        for name, side in (("Baseline", report.baseline), ("Candidate", report.candidate))
    ]


def _overlap(entry: dict[str, object]) -> str:
    return {True: "yes", False: "no", None: words.NONE}[entry["ci_overlap"]]  # type: ignore[index]


def _profile(report: RegressionReport) -> list[str]:
    if not report.category_deltas:
        return []
    icons = {"BROKE": "🔴", "WARN": "🟡", "OPEN": "⚪", "HELD": "🟢"}
    rows = []
    for name, entry in worst_first(report):
        state = state_of(entry, report)
        rows.append([f"{icons[state]} {words.cell(name)}", *category_cells(entry), str(entry["n"]), state])
    header = ["Category", "Baseline", "Candidate", "Difference", "n", "State"]
    return ["## Capability Impact Profile", "", *words.table(header, rows)]


def _shift_cells(report: RegressionReport) -> list[list[str]]:
    return [
        [
            shift.name.replace("_", " "),
            words.quantity(shift.baseline, shift.unit),
            words.quantity(shift.candidate, shift.unit),
            words.change(shift),
        ]
        for shift in report.shifts
    ]


def _flip_sections(report: RegressionReport) -> list[str]:
    if report.flips is None:
        return []
    lines: list[str] = []
    by_category = report.flips.summary["category_breakdown"]
    if by_category:
        rows = [[words.cell(n), str(c["regressions"]), str(c["improvements"])] for n, c in by_category.items()]
        lines += ["## Regressions by Category", "", *words.table(["Category", "Got worse", "Got better"], rows)]
    summary = report.flips.summary
    for title, flips, count in (
        ("Regressed Problems", report.flips.regressions, summary["n_regressions"]),
        ("Improved Problems", report.flips.improvements, summary["n_improvements"]),
    ):
        if flips:
            rows = [_flip_cells(flip) for flip in flips[:LISTED]]
            lines += [f"## {title}", "", *words.table(["Problem", "Expected", "Baseline", "Candidate"], rows)]
            if count > LISTED:
                lines += [f"{count - LISTED:,} more, of which {len(flips) - LISTED:,} are in the JSON report.", ""]
    return lines


def _flip_cells(flip: Flip) -> list[str]:
    return [
        f"#{flip.problem_idx}",
        words.cell(one_line(flip.expected_answer)),
        words.cell(f"{flip.baseline_reward:g}: {one_line(flip.baseline_answer or flip.baseline_response)}"),
        words.cell(f"{flip.candidate_reward:g}: {one_line(flip.candidate_answer or flip.candidate_response)}"),
    ]


def _guidance(report: RegressionReport) -> list[str]:
    lines = ["## Investigation Guidance", ""]
    if report.needed:
        lines.append(f"- More data: {settling(report.needed, report.available)}.")
    if report.flips is not None and report.flips.regressions:
        lines.append(
            f"- Read the {report.flips.summary['n_regressions']} problems that got worse, side by side, above."
        )
    if any(shift.name == "truncated" and (shift.delta or 0) > 0 for shift in report.shifts):
        lines.append("- More answers are cut off than before: raise max_tokens and compare again.")
    if report.differences:
        lines.append("- The settings differ (see Warnings): equalise them unless they are what is being tested.")
    return lines if len(lines) > 2 else []


def set_markdown(found: ComparisonSet) -> str:
    """All comparisons of a call; several have a table of all at their head."""
    parts = [compare_markdown(entry.report) for entry in found.entries]
    if len(parts) == 1 and not found.warnings:
        return parts[0]
    lines = [f"# {_ICONS[found.verdict]} {found.verdict}: {len(parts)} comparisons, the worst counts", ""]
    rows = [
        [
            words.cell(name_of(found, entry)),
            words.plain(entry.report.baseline.score.value),
            words.plain(entry.report.candidate.score.value),
            words.with_bounds(entry.report.difference, sign=True),
            str(entry.report.verdict),
        ]
        for entry in found.entries
    ]
    lines += words.table(["Benchmark", "Baseline", "Candidate", "Difference", "Verdict"], rows)
    lines += [f"- {words.cell(warning)}" for warning in found.warnings]
    return "\n\n".join([words.printable("\n".join(lines).rstrip()) + "\n", *parts])
