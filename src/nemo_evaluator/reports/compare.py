"""The sentences and tables that all formats of a comparison share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.terminal import fitted
from nemo_evaluator.decisions.compare.changes import Flip
from nemo_evaluator.decisions.compare.compare_set import ComparisonSet, Entry
from nemo_evaluator.decisions.compare.report import RegressionReport, RunSide
from nemo_evaluator.decisions.compare.verdict import VERDICTS, mirrored, relation_of
from nemo_evaluator.reports import _words as words
from nemo_evaluator.statistics import Interval

if TYPE_CHECKING:
    from nemo_evaluator.decisions.compare.comparison_document import CategoryDelta

LISTED: Final = 50
_LINE_WIDTH: Final = 100


def sides(report: RegressionReport) -> list[str]:
    """A line for each side: its score, model and run; for a corrected score, also the judge's."""
    rows: list[list[str]] = []
    for name, side in (("baseline", report.baseline), ("candidate", report.candidate)):
        rows.append([name, score_words(side), _model(side), side.run_id])
    return words.columns(rows)


def score_words(side: RunSide) -> str:
    """The score of a side with its interval; a corrected one is labelled, and the raw one follows."""
    if side.corrected is None:
        return words.with_bounds(side.score)
    return f"{words.with_bounds(side.corrected)} corrected, {words.with_bounds(side.score)} raw"


def raw_mark(report: RegressionReport) -> str:
    """What marks figures of the judge's own scores where the difference is corrected by labels."""
    return "" if report.raw_difference is None else " (raw: the judge's scores)"


def losses(report: RegressionReport) -> list[tuple[str, float]]:
    """The categories that lost more than the limit, the largest loss first."""
    lost: list[tuple[str, float]] = []
    for name, entry in worst_first(report):
        delta = float(entry["delta"])
        if report.better * delta < -report.threshold:
            lost.append((name, delta))
    return lost


def titled(found: ComparisonSet) -> str:
    """The title of a set of comparisons: the models, or the folders if the models are unknown or the same."""
    candidates = [entry.report.candidate for entry in found.entries]
    baselines = [entry.report.baseline for entry in found.entries]
    for name_side in (_model, _run_folder_name, _path):
        candidate_names = _distinct(map(name_side, candidates))
        baseline_names = _distinct(map(name_side, baselines))
        all_named = all(candidate_names) and all(baseline_names)
        if all_named and candidate_names != baseline_names:
            break
    candidate_title = _joint_name(candidate_names, "candidates")
    baseline_title = _joint_name(baseline_names, "baselines")
    return f"{candidate_title} against {baseline_title}"


def _run_folder_name(side: RunSide) -> str:
    """The name of the folder that contains the benchmark's folder."""
    return Path(side.path).parent.parent.name


def _path(side: RunSide) -> str:
    """The path of a side's bundle."""
    return side.path


def _distinct(names: Iterable[str]) -> list[str]:
    """The names, each once, in their order."""
    return list(dict.fromkeys(names))


def _joint_name(names: list[str], plural: str) -> str:
    """The only name, or how many there are."""
    if len(names) == 1:
        return names[0]
    return f"{len(names)} {plural}"


def _model(side: RunSide) -> str:
    """The model of a side; empty when unknown."""
    return str(side.config.get("model") or "")


def name_of(found: ComparisonSet, entry: Entry) -> str:
    """The name of a comparison among others."""
    if found.several_candidates:
        return f"{entry.candidate}: {entry.benchmark}"
    return entry.benchmark


def paired(report: RegressionReport) -> list[str]:
    """Lines on how many problems paired and moved, and which drop could have been detected."""
    pairing_line = (
        f"{words.counted(report.pairing.paired, 'problem')} paired by {report.pairing.by}"
    )
    if report.pairing.clusters is not None:
        pairing_line += f", in {words.counted(report.pairing.clusters, 'cluster')}"
    moved = _moved(report)
    if moved:
        pairing_line += f": {moved}"
    p_value = words.p_value(report.test.p_value)
    mark = raw_mark(report)
    lines = [
        f"{pairing_line}{mark}",
        f"{report.test.method} test that the candidate is worse: {p_value}{mark}",
    ]
    if report.detectable is not None:
        loss = "drop" if report.better > 0 else "rise"
        found_words = f"a {loss} of {report.detectable:.4f} would have been found with 80% chance"
        lines.append(f"{found_words}{mark}")
    if report.raw_difference is not None:
        lines.insert(0, f"difference {words.with_bounds(report.raw_difference, sign=True)}{mark}")
    return lines


def _moved(report: RegressionReport) -> str:
    """How many problems got worse, got better and stayed; empty when that is unknown."""
    if report.graded and report.pairing.paired:
        worse, better = report.moved
        equal = report.pairing.paired - worse - better
        return f"{worse:,} got worse, {better:,} got better, {equal:,} are equal"
    if report.flips is None:
        return ""
    summary = report.flips.summary
    counts = [
        f"{summary['n_regressions']:,} got worse",
        f"{summary['n_improvements']:,} got better",
        f"{summary['n_stable_correct']:,} stayed right",
        f"{summary['n_stable_wrong']:,} stayed wrong",
    ]
    return ", ".join(counts)


def statistics(report: RegressionReport) -> list[str]:
    """Lines on how the interval and the test were computed."""
    confidence = f"{report.confidence:.1%} confidence"
    moved = words.counted(report.test.n_discordant, "problem")
    lines = [
        f"interval: {report.difference.method}, {confidence}, limit {report.threshold:g}",
        f"test: {report.test.method} ({report.test_reason}), {moved} moved",
    ]
    if report.sd is not None:
        lines.append(f"standard deviation of a problem's difference: {report.sd:.4f}")
    if report.missing:
        extremes = report.missing["difference"]
        bounds = f"{extremes['lower']:+.4f} to {extremes['upper']:+.4f}"
        lines.append(f"if every failed row had been right or wrong: {bounds}")
    for name, entry in report.score_deltas.items():
        scores = f"{entry['baseline']:.4f} → {entry['candidate']:.4f}"
        lines.append(f"{name}: {scores} ({entry['delta']:+.4f})")
    return lines


def state_of(entry: CategoryDelta, report: RegressionReport) -> str:
    """The verdict on a category, by the same rule as the verdict on the benchmark."""
    interval = Interval(
        entry["delta"], entry["ci_lower"], entry["ci_upper"], method="", n=entry.get("n", 1)
    )
    if report.better < 0:
        interval = mirrored(interval)
    relation = relation_of(interval, report.threshold)
    return str(VERDICTS[relation])


def worst_first(report: RegressionReport) -> list[tuple[str, CategoryDelta]]:
    """The categories with their entries, the largest loss first."""

    def gain(category: tuple[str, CategoryDelta]) -> float:
        """How much better the candidate is on a category; negative for a loss."""
        _, entry = category
        return float(report.better * entry["delta"])

    return sorted(report.category_deltas.items(), key=gain)


def categories(report: RegressionReport, width: int | None) -> list[str]:
    """The table of categories, the largest loss first, in lines of ``width``."""
    rows = [[f"category{raw_mark(report)}", "baseline", "candidate", "difference", "n", ""]]
    for name, entry in worst_first(report):
        rows.append([name, *category_cells(entry), str(entry["n"]), state_of(entry, report)])
    return words.columns(rows, width=width, spare=(1, 1))


def category_cells(entry: CategoryDelta) -> list[str]:
    """The cells with the two scores of a category and their difference."""
    difference = words.signed(entry["delta"])
    if entry["ci_lower"] is not None:
        lower = words.signed(entry["ci_lower"])
        upper = words.signed(entry["ci_upper"])
        difference += f" [{lower}, {upper}]"
    return [words.plain(entry["baseline"]), words.plain(entry["candidate"]), difference]


def shifts(report: RegressionReport, width: int | None) -> list[str]:
    """The table of quantities other than the score, in lines of ``width``."""
    rows: list[list[str]] = []
    for shift in report.shifts:
        if not shift.baseline and not shift.candidate:
            continue
        row = [
            shift.name.replace("_", " "),
            words.quantity(shift.baseline, shift.unit),
            "→",
            words.quantity(shift.candidate, shift.unit),
            words.change(shift),
        ]
        rows.append(row)
    return words.columns(rows, width=width)


def flip_lines(flip: Flip, width: int | None) -> list[str]:
    """A problem that flipped: the expected answer, and the answer of each side.

    Args:
        flip: The problem.
        width: Shorten lines to this width; None keeps them.
    """
    problem = f"#{flip.problem_idx}"
    if flip.category:
        problem += f" ({flip.category})"
    baseline_answer = one_line(flip.baseline_answer or flip.baseline_response)
    candidate_answer = one_line(flip.candidate_answer or flip.candidate_response)
    lines = [
        f"    {problem}: expected {one_line(flip.expected_answer)}",
        f"      baseline  {flip.baseline_reward:g}: {baseline_answer}",
        f"      candidate {flip.candidate_reward:g}: {candidate_answer}",
    ]
    if width is None:
        return lines
    return [fitted(line, width) for line in lines]


def one_line(text: str) -> str:
    """Any text as one line of at most 100 characters."""
    return fitted(" ".join(words.printable(text).split()), _LINE_WIDTH)
