"""The sentences and tables that all formats of a comparison share."""

from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.terminal import fitted
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.compare.changes import Flip
from nemo_evaluator.decisions.compare.compare_set import ComparisonSet, Entry
from nemo_evaluator.decisions.compare.report import RegressionReport, RunSide
from nemo_evaluator.decisions.compare.verdict import VERDICTS, mirrored, relation_of
from nemo_evaluator.reports import _words as words
from nemo_evaluator.statistics import Interval

LISTED: Final = 50
_ROOM: Final = 100
_SIDES: Final = ("candidate", "baseline")


def sides(report: RegressionReport) -> list[str]:
    """A line for each side: its score, model and run."""
    rows: list[list[str]] = []
    for name, side in (("baseline", report.baseline), ("candidate", report.candidate)):
        rows.append([name, words.with_bounds(side.score), _model(side), side.run_id])
    return words.columns(rows)


def losses(report: RegressionReport) -> list[tuple[str, float]]:
    """The categories that lost more than the limit, the largest loss first."""
    deltas = [(name, float(entry["delta"])) for name, entry in worst_first(report)]
    return [(name, delta) for name, delta in deltas if report.better * delta < -report.threshold]


def titled(found: ComparisonSet) -> str:
    """The title of a set of comparisons: the models, or the folders if the models are unknown or the same."""
    sides = [
        [entry.report.candidate for entry in found.entries],
        [entry.report.baseline for entry in found.entries],
    ]
    for naming in (_model, lambda side: Path(side.path).parent.parent.name, lambda side: side.path):
        names = [list(dict.fromkeys(map(naming, side))) for side in sides]
        if all(map(all, names)) and names[0] != names[1]:
            break
    side_titles: list[Any | str] = []
    for distinct_names, side_word in zip(names, _SIDES, strict=True):
        side_titles.append(
            distinct_names[0] if len(distinct_names) == 1 else f"{len(distinct_names)} {side_word}s"
        )
    return f"{side_titles[0]} against {side_titles[1]}"


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
    pairing = report.pairing
    line = f"{words.counted(pairing.paired, 'problem')} paired by {pairing.by}"
    if report.graded and pairing.paired:
        worse, better = report.moved
        line += f": {worse:,} got worse, {better:,} got better, {pairing.paired - worse - better:,} are equal"
    elif report.flips is not None:
        summary = report.flips.summary
        line += (
            f": {summary['n_regressions']:,} got worse, {summary['n_improvements']:,} got better, "
        )
        line += f"{summary['n_stable_correct']:,} stayed right, {summary['n_stable_wrong']:,} stayed wrong"
    lines = [
        line,
        f"{report.test.method} test that the candidate is worse: {words.p_value(report.test.p_value)}",
    ]
    if report.detectable is not None:
        loss_word = "drop" if report.better > 0 else "rise"
        lines.append(
            f"a {loss_word} of {report.detectable:.4f} would have been found with 80% chance"
        )
    return lines


def statistics(report: RegressionReport) -> list[str]:
    """Lines on how the interval and the test were computed."""
    interval = report.difference
    moved_words = words.counted(report.test.n_discordant, "problem")
    lines = [
        f"interval: {interval.method}, {report.confidence:.1%} confidence, limit {report.threshold:g}",
        f"test: {report.test.method} ({report.test_reason}), {moved_words} moved",
    ]
    if report.sd is not None:
        lines.append(f"standard deviation of a problem's difference: {report.sd:.4f}")
    if report.missing:
        extremes = report.missing["difference"]
        lines.append(
            f"if every failed row had been right or wrong: {extremes['lower']:+.4f} to {extremes['upper']:+.4f}"
        )
    for name, entry in report.score_deltas.items():
        lines.append(
            f"{name}: {entry['baseline']:.4f} → {entry['candidate']:.4f} ({entry['delta']:+.4f})"
        )
    return lines


def state_of(entry: JsonDict, report: RegressionReport) -> str:
    """The verdict on a category, by the same rule as the verdict on the benchmark."""
    interval = Interval(
        entry["delta"], entry["ci_lower"], entry["ci_upper"], method="", n=entry.get("n", 1)
    )
    return str(
        VERDICTS[
            relation_of(interval if report.better > 0 else mirrored(interval), report.threshold)
        ]
    )


def worst_first(report: RegressionReport) -> list[tuple[str, JsonDict]]:
    """The categories with their entries, the largest loss first."""
    return sorted(report.category_deltas.items(), key=lambda item: report.better * item[1]["delta"])


def categories(report: RegressionReport, width: int | None) -> list[str]:
    """The table of categories, the largest loss first, in lines of ``width``."""
    rows = [["category", "baseline", "candidate", "difference", "n", ""]]
    for name, entry in worst_first(report):
        rows.append([name, *category_cells(entry), str(entry["n"]), state_of(entry, report)])
    return words.columns(rows, width=width, spare=(1, 1))


def category_cells(entry: JsonDict) -> list[str]:
    """The cells with the two scores of a category and their difference."""
    bounds = ""
    if entry["ci_lower"] is not None:
        bounds = f" [{words.signed(entry['ci_lower'])}, {words.signed(entry['ci_upper'])}]"
    return [
        words.plain(entry["baseline"]),
        words.plain(entry["candidate"]),
        words.signed(entry["delta"]) + bounds,
    ]


def shifts(report: RegressionReport, width: int | None) -> list[str]:
    """The table of quantities other than the score, in lines of ``width``."""
    rows = []
    for shift in report.shifts:
        if shift.baseline or shift.candidate:
            baseline_text, candidate_text = (
                words.quantity(value, shift.unit) for value in (shift.baseline, shift.candidate)
            )
            rows.append(
                [
                    shift.name.replace("_", " "),
                    baseline_text,
                    "→",
                    candidate_text,
                    words.change(shift),
                ]
            )
    return words.columns(rows, width=width)


def flip_lines(flip: Flip, width: int | None) -> list[str]:
    """A problem that flipped: the expected answer, and the answer of each side.

    Args:
        flip: The problem.
        width: Shorten lines to this width; None keeps them.
    """
    problem = f"#{flip.problem_idx}" + (f" ({flip.category})" if flip.category else "")
    baseline = "baseline ", flip.baseline_reward, flip.baseline_answer or flip.baseline_response
    candidate = "candidate", flip.candidate_reward, flip.candidate_answer or flip.candidate_response
    lines = [f"    {problem}: expected {one_line(flip.expected_answer)}"]
    for side, reward, answer in (baseline, candidate):
        lines.append(f"      {side} {reward:g}: {one_line(answer)}")
    if width is None:
        return lines
    return [fitted(line, width) for line in lines]


def one_line(text: str) -> str:
    """Any text as one line of at most 100 characters."""
    return fitted(" ".join(words.printable(text).split()), _ROOM)
