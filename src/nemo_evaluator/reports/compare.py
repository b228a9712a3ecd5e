"""Comparisons for people: text for the terminal, markdown for a pull request, html to send around."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from nemo_evaluator.decisions.flips import Flip
from nemo_evaluator.decisions.many import ComparisonSet
from nemo_evaluator.decisions.report import RegressionReport
from nemo_evaluator.reports import _words as words

_LISTED = 50


def compare_text(
    report: RegressionReport, *, show_flips: bool = False, compact: bool = False, verbose: bool = False
) -> str:
    """One comparison as plain text."""
    difference = words.with_bounds(report.difference, sign=True)
    lines = [f"{report.verdict}  {report.benchmark}: {difference}, {report.relation}"]
    lines += [f"  {reason}" for reason in report.reasons]
    lines += words.columns(
        [
            [name, words.with_bounds(side.score), side.run_id, str(side.config.get("model") or "")]
            for name, side in (("baseline", report.baseline), ("candidate", report.candidate))
        ]
    )
    if compact:
        lines += [f"  {name}: {words.signed(entry['delta'])}" for name, entry in _broken(report)]
        return words.printable("\n".join([*lines, *(f"  ! {warning}" for warning in report.warnings)])) + "\n"
    lines += ["", *_paired(report)]
    lines += [f"  ! {warning}" for warning in report.warnings]
    lines += _categories_text(report)
    lines += ["", *_shifts_text(report)]
    if verbose:
        lines += ["", *_statistics(report)]
    if show_flips and report.flips is not None:
        for title, flips in (("regressions", report.flips.regressions), ("improvements", report.flips.improvements)):
            lines += ["", f"  {title}:", *(line for flip in flips[:_LISTED] for line in _flip_text(flip))]
    return words.printable("\n".join(lines).rstrip()) + "\n"


def set_text(found: ComparisonSet, *, show_flips: bool = False, compact: bool = False, verbose: bool = False) -> str:
    """All comparisons of a call, with a closing table when there are several."""
    parts = [
        compare_text(entry.report, show_flips=show_flips, compact=compact, verbose=verbose) for entry in found.entries
    ]
    if len(found.entries) > 1:
        rows = [
            [
                f"{entry.candidate}: {entry.benchmark}" if found.several_candidates else entry.benchmark,
                words.with_bounds(entry.report.difference, sign=True),
                str(entry.report.verdict),
            ]
            for entry in found.entries
        ]
        parts.append("\n".join([f"{found.verdict}  (the worst of {len(rows)})", *words.columns(rows)]) + "\n")
    return "\n".join(parts)


def _paired(report: RegressionReport) -> list[str]:
    pairing = report.pairing
    line = f"  {pairing.paired} problems paired by {pairing.by}"
    if report.flips is not None:
        summary = report.flips.summary
        line += f": {summary['n_regressions']} got worse, {summary['n_improvements']} got better, "
        line += f"{summary['n_stable_correct']} stayed right, {summary['n_stable_wrong']} stayed wrong"
    test = f"  {report.test.method} test that the candidate is worse: {words.p_value(report.test.p_value)}"
    lines = [line, test]
    if report.detectable is not None:
        lines.append(f"  a drop of {report.detectable:.4f} would have been found with 80% chance")
    if report.needed:
        lines.append(f"  about {report.needed:,} problems would settle it")
    return lines


def _statistics(report: RegressionReport) -> list[str]:
    interval = report.difference
    lines = [
        f"  interval: {interval.method}, {report.confidence:.1%} confidence, limit {report.threshold:g}",
        f"  test: {report.test.method} ({report.test_reason}), {report.test.n_discordant} problems moved",
    ]
    if report.sd is not None:
        lines.append(f"  standard deviation of a problem's difference: {report.sd:.4f}")
    if report.missing:
        bounds = report.missing["difference"]
        lines.append(f"  if every failed row had been right or wrong: {bounds['lower']:+.4f} to {bounds['upper']:+.4f}")
    for name, entry in report.score_deltas.items():
        lines.append(f"  {name}: {entry['baseline']:.4f} → {entry['candidate']:.4f} ({entry['delta']:+.4f})")
    return lines


def _broken(report: RegressionReport) -> list[tuple[str, dict[str, float]]]:
    return [(name, entry) for name, entry in report.category_deltas.items() if entry["delta"] < -report.threshold]


def state_of(entry: dict[str, float | None], limit: float) -> str:
    """HELD, BROKE when the drop is surely beyond the limit, WARN in between."""
    lower, upper = entry.get("ci_lower"), entry.get("ci_upper")
    if upper is not None and upper < -limit:
        return "BROKE"
    return "HELD" if lower is not None and lower >= -limit else "OPEN"


def _categories_text(report: RegressionReport) -> list[str]:
    if not report.category_deltas:
        return []
    rows = [["category", "baseline", "candidate", "difference", "n", ""]]
    for name, entry in sorted(report.category_deltas.items(), key=lambda item: item[1]["delta"]):
        rows.append([name, *_category_cells(entry), str(entry["n"]), state_of(entry, report.threshold)])
    return ["", *words.columns(rows)]


def _category_cells(entry: dict[str, float]) -> list[str]:
    bounds = ""
    if entry["ci_lower"] is not None:
        bounds = f" [{words.signed(entry['ci_lower'])}, {words.signed(entry['ci_upper'])}]"
    return [words.plain(entry["baseline"]), words.plain(entry["candidate"]), words.signed(entry["delta"]) + bounds]


def _shifts_text(report: RegressionReport) -> list[str]:
    rows = [
        [
            shift.name.replace("_", " "),
            words.quantity(shift.baseline, shift.unit),
            "→",
            words.quantity(shift.candidate, shift.unit),
        ]
        for shift in report.shifts
        if shift.baseline or shift.candidate
    ]
    return words.columns(rows)


def _flip_text(flip: Flip) -> list[str]:
    where = f"#{flip.problem_idx}" + (f" ({flip.category})" if flip.category else "")
    return [
        f"    {where}: expected {_one_line(flip.expected_answer)}",
        f"      baseline  {flip.baseline_reward:g}: {_one_line(flip.baseline_answer or flip.baseline_response)}",
        f"      candidate {flip.candidate_reward:g}: {_one_line(flip.candidate_answer or flip.candidate_response)}",
    ]


def _one_line(text: str) -> str:
    flat = " ".join(words.printable(text).split())
    return flat if len(flat) <= 100 else flat[:99] + "…"


def compare_markdown(report: RegressionReport) -> str:
    """One comparison as markdown."""
    icon = {"PASS": "🟢", "WARN": "🟡", "INCONCLUSIVE": "⚪", "BLOCK": "🔴"}[report.verdict]
    lines = [f"# {icon} {report.verdict}: {words.cell(report.benchmark)}", ""]
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
    lines += ["## Statistical Analysis", "", *(f"- {words.cell(line.strip())}" for line in _paired(report))]
    lines += [f"- {words.cell(line.strip())}" for line in _statistics(report)[:3]]
    lines += ["", "## Shifts", "", *words.table(["", "Baseline", "Candidate"], _shift_cells(report))]
    lines += _flip_sections(report)
    return "\n".join([*lines, *_guidance(report)]).rstrip() + "\n"


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
    icons = {"BROKE": "🔴", "OPEN": "🟡", "HELD": "🟢"}
    rows = []
    for name, entry in sorted(report.category_deltas.items(), key=lambda item: item[1]["delta"]):
        state = state_of(entry, report.threshold)
        rows.append([f"{icons[state]} {words.cell(name)}", *_category_cells(entry), str(entry["n"]), state])
    header = ["Category", "Baseline", "Candidate", "Difference", "n", "State"]
    return ["## Capability Impact Profile", "", *words.table(header, rows)]


def _shift_cells(report: RegressionReport) -> list[list[str]]:
    return [
        [
            shift.name.replace("_", " "),
            words.quantity(shift.baseline, shift.unit),
            words.quantity(shift.candidate, shift.unit),
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
    kinds = (("Regressed Problems", report.flips.regressions), ("Improved Problems", report.flips.improvements))
    for title, flips in kinds:
        if flips:
            rows = [_flip_cells(flip) for flip in flips[:_LISTED]]
            lines += [f"## {title}", "", *words.table(["Problem", "Expected", "Baseline", "Candidate"], rows)]
            if len(flips) > _LISTED:
                lines += [f"{len(flips) - _LISTED} more are in the JSON report.", ""]
    return lines


def _flip_cells(flip: Flip) -> list[str]:
    return [
        f"#{flip.problem_idx}",
        words.cell(_one_line(flip.expected_answer)),
        words.cell(f"{flip.baseline_reward:g}: {_one_line(flip.baseline_answer or flip.baseline_response)}"),
        words.cell(f"{flip.candidate_reward:g}: {_one_line(flip.candidate_answer or flip.candidate_response)}"),
    ]


def _guidance(report: RegressionReport) -> list[str]:
    lines = ["## Investigation Guidance", ""]
    if report.needed:
        lines.append(f"- Run about {report.needed:,} problems on both sides; then this comparison is likely to decide.")
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
    """All comparisons of a call."""
    return "\n\n".join(compare_markdown(entry.report) for entry in found.entries)


def set_html(found: ComparisonSet) -> str:
    """All comparisons of a call as one self-contained page."""
    reach = max((_reach(entry.report) for entry in found.entries), default=0.1)
    return _template().render(found=found, w=words, state_of=state_of, reach=reach, listed=_LISTED)


def _reach(report: RegressionReport) -> float:
    interval = report.difference
    return 1.1 * max(abs(interval.lower or 0.0), abs(interval.upper or 0.0), 2 * report.threshold, 0.01)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("nemo_evaluator.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("compare.html.j2")
