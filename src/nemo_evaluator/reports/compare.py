"""Comparisons as text for the terminal, and the sentences that all formats share."""

from pathlib import Path
from typing import Final

from nemo_evaluator.core.terminal import fitted
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.compare.compare_set import ComparisonSet, Entry
from nemo_evaluator.decisions.compare.flips import Flip, FlipReport
from nemo_evaluator.decisions.compare.report import RegressionReport, RunSide
from nemo_evaluator.decisions.compare.verdict import VERDICTS, mirrored, relation_of
from nemo_evaluator.metrics import Interval
from nemo_evaluator.reports import _words as words

LISTED: Final = 50
_ROOM: Final = 100
_SIDES: Final = ("candidate", "baseline")


def compare_text(
    report: RegressionReport,
    *,
    show_flips: bool = False,
    compact: bool = False,
    verbose: bool = False,
    width: int | None = None,
) -> str:
    """One comparison as plain text, in lines of ``width`` where one is given."""
    difference = words.with_bounds(report.difference, sign=True)
    head = f"{report.verdict}  {report.benchmark}: {difference}, {report.relation}"
    lines = words.wrapped(head, "", width=width)
    lines += [line for reason in report.reasons for line in words.wrapped(reason, width=width)]
    sides = [
        [name, words.with_bounds(side.score), _model(side), side.run_id]
        for name, side in (("baseline", report.baseline), ("candidate", report.candidate))
    ]
    lines += [line for row in words.columns(sides, "") for line in words.wrapped(row, width=width)]
    warnings = [line for warning in report.warnings for line in words.wrapped(warning, mark="! ", width=width)]
    if compact:
        deltas = [(name, entry["delta"]) for name, entry in worst_first(report)]
        lines += [f"  {name}: {words.signed(d)}" for name, d in deltas if _better(report) * d < -report.threshold]
        return words.printable("\n".join([*lines, *warnings])) + "\n"
    lines += ["", *(line for said in paired(report) for line in words.wrapped(said, width=width)), *warnings]
    lines += _categories_text(report, width)
    lines += ["", *_shifts_text(report, width)]
    if verbose:
        lines += ["", *(line for said in statistics(report) for line in words.wrapped(said, width=width))]
    if show_flips and report.flips is not None:
        lines += _flips_text(report.flips, width)
    return words.printable("\n".join(lines).rstrip()) + "\n"


def _flips_text(found: FlipReport, width: int | None) -> list[str]:
    lines = []
    counts = (
        ("regressions", found.regressions, found.summary["n_regressions"]),
        ("improvements", found.improvements, found.summary["n_improvements"]),
    )
    for title, flips, count in counts:
        more = f" (the first {LISTED} of {count:,})" if count > LISTED else ""
        lines += ["", f"  {title}{more}:" if count else f"  {title}: none"]
        lines += [line for flip in flips[:LISTED] for line in _flip_text(flip, width)]
    return lines


def set_text(
    found: ComparisonSet,
    *,
    show_flips: bool = False,
    compact: bool = False,
    verbose: bool = False,
    width: int | None = None,
) -> str:
    """All comparisons of a call, with a closing table when there are several."""
    parts = []
    for entry in found.entries:
        text = compare_text(entry.report, show_flips=show_flips, compact=compact, verbose=verbose, width=width)
        parts.append(f"{words.printable(entry.candidate)}:\n{text}" if found.several_candidates else text)
    if len(found.entries) > 1:
        rows = [
            [name_of(found, entry), words.with_bounds(entry.report.difference, sign=True), str(entry.report.verdict)]
            for entry in found.entries
        ]
        table = words.printable("\n".join(words.columns(rows, width=width)))
        parts.append(f"{found.verdict}  (the worst of {len(rows)})\n{table}\n")
    return "\n".join(parts)


def titled(found: ComparisonSet) -> str:
    """Who is compared with whom: the models, or the folders of the runs where the models say nothing or the same."""
    sides = [[entry.report.candidate for entry in found.entries], [entry.report.baseline for entry in found.entries]]
    for naming in (_model, lambda side: Path(side.path).parent.parent.name, lambda side: side.path):
        names = [list(dict.fromkeys(map(naming, side))) for side in sides]
        if all(map(all, names)) and names[0] != names[1]:
            break
    said = [one[0] if len(one) == 1 else f"{len(one)} {word}s" for one, word in zip(names, _SIDES, strict=True)]
    return f"{said[0]} against {said[1]}"


def _model(side: RunSide) -> str:
    return str(side.config.get("model") or "")


def name_of(found: ComparisonSet, entry: Entry) -> str:
    """What a comparison is called beside the others."""
    return f"{entry.candidate}: {entry.benchmark}" if found.several_candidates else entry.benchmark


def paired(report: RegressionReport) -> list[str]:
    """What paired, what moved, and what that could have shown."""
    pairing = report.pairing
    line = f"{words.counted(pairing.paired, 'problem')} paired by {pairing.by}"
    if report.graded and pairing.paired:
        worse, better = report.moved
        line += f": {worse:,} got worse, {better:,} got better, {pairing.paired - worse - better:,} are equal"
    elif report.flips is not None:
        summary = report.flips.summary
        line += f": {summary['n_regressions']:,} got worse, {summary['n_improvements']:,} got better, "
        line += f"{summary['n_stable_correct']:,} stayed right, {summary['n_stable_wrong']:,} stayed wrong"
    lines = [line, f"{report.test.method} test that the candidate is worse: {words.p_value(report.test.p_value)}"]
    if report.detectable is not None:
        loss = "drop" if _better(report) > 0 else "rise"
        lines.append(f"a {loss} of {report.detectable:.4f} would have been found with 80% chance")
    return lines


def statistics(report: RegressionReport) -> list[str]:
    """How the interval and the test were made."""
    interval, moved = report.difference, words.counted(report.test.n_discordant, "problem")
    lines = [
        f"interval: {interval.method}, {report.confidence:.1%} confidence, limit {report.threshold:g}",
        f"test: {report.test.method} ({report.test_reason}), {moved} moved",
    ]
    if report.sd is not None:
        lines.append(f"standard deviation of a problem's difference: {report.sd:.4f}")
    if report.missing:
        bounds = report.missing["difference"]
        lines.append(f"if every failed row had been right or wrong: {bounds['lower']:+.4f} to {bounds['upper']:+.4f}")
    for name, entry in report.score_deltas.items():
        lines.append(f"{name}: {entry['baseline']:.4f} → {entry['candidate']:.4f} ({entry['delta']:+.4f})")
    return lines


def _better(report: RegressionReport) -> float:
    return 1.0 if report.direction == "higher_is_better" else -1.0


def state_of(entry: JsonDict, report: RegressionReport) -> str:
    """The verdict on a category, by the rule of the whole."""
    found = Interval(entry["delta"], entry["ci_lower"], entry["ci_upper"], "", entry.get("n", 1))
    return str(VERDICTS[relation_of(found if _better(report) > 0 else mirrored(found), report.threshold)])


def worst_first(report: RegressionReport) -> list[tuple[str, JsonDict]]:
    """The categories, the largest loss first."""
    return sorted(report.category_deltas.items(), key=lambda item: _better(report) * item[1]["delta"])


def _categories_text(report: RegressionReport, width: int | None) -> list[str]:
    if not report.category_deltas:
        return []
    rows = [["category", "baseline", "candidate", "difference", "n", ""]]
    for name, entry in worst_first(report):
        rows.append([name, *category_cells(entry), str(entry["n"]), state_of(entry, report)])
    return ["", *words.columns(rows, width=width, spare=(1, 1))]


def category_cells(entry: JsonDict) -> list[str]:
    """Both scores and the difference of a category."""
    bounds = ""
    if entry["ci_lower"] is not None:
        bounds = f" [{words.signed(entry['ci_lower'])}, {words.signed(entry['ci_upper'])}]"
    return [words.plain(entry["baseline"]), words.plain(entry["candidate"]), words.signed(entry["delta"]) + bounds]


def _shifts_text(report: RegressionReport, width: int | None) -> list[str]:
    rows = [
        [
            shift.name.replace("_", " "),
            words.quantity(shift.baseline, shift.unit),
            "→",
            words.quantity(shift.candidate, shift.unit),
            words.change(shift),
        ]
        for shift in report.shifts
        if shift.baseline or shift.candidate
    ]
    return words.columns(rows, width=width)


def _flip_text(flip: Flip, width: int | None) -> list[str]:
    where = f"#{flip.problem_idx}" + (f" ({flip.category})" if flip.category else "")
    before = "baseline ", flip.baseline_reward, flip.baseline_answer or flip.baseline_response
    after = "candidate", flip.candidate_reward, flip.candidate_answer or flip.candidate_response
    lines = [f"    {where}: expected {one_line(flip.expected_answer)}"]
    lines += [f"      {side} {reward:g}: {one_line(said)}" for side, reward, said in (before, after)]
    return lines if width is None else [fitted(line, width) for line in lines]


def one_line(text: str) -> str:
    """Any text as one line of at most 100 characters."""
    return fitted(" ".join(words.printable(text).split()), _ROOM)
