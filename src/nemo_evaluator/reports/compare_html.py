"""Comparisons as one self-contained page: no script, nothing loaded from elsewhere, every text escaped."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_evaluator.decisions.compare.compare_set import ComparisonSet, Entry
from nemo_evaluator.decisions.compare.report import RegressionReport
from nemo_evaluator.decisions.compare.verdict import settling
from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports._page import template
from nemo_evaluator.reports._plots import Figure, Mark, Shares, rows_figure
from nemo_evaluator.reports.compare import LISTED, name_of, state_of, titled, worst_first
from nemo_evaluator.reports.verdict_words import VERDICTS, explained


@dataclass(frozen=True, slots=True)
class Section:
    """One comparison on the page."""

    anchor: str
    entry: Entry
    outcomes: Figure | None
    categories: Figure | None

    @property
    def report(self) -> RegressionReport:
        """The comparison."""
        return self.entry.report


def set_html(found: ComparisonSet) -> str:
    """All comparisons of a call as one self-contained page."""
    title = "Candidate minus baseline, mean score on the problems both answered, with its interval"
    page = template("compare.html.j2").render(
        found=found,
        title=titled(found),
        sections=[_section(f"c{at}", entry) for at, entry in enumerate(found.entries)],
        differences=rows_figure(
            title, [_mark(found, entry) for entry in found.entries], limit=_limit(found.entries[0])
        ),
        first=found.entries[0].report,
        w=words,
        settling=settling,
        listed=LISTED,
        meanings=explained(VERDICTS),
    )
    # Without characters that turn the reading direction round or hide what stands beside them.
    return words.printable(page)


def _limit(entry: Entry) -> float:
    sign = -1 if entry.report.direction == "higher_is_better" else 1
    return sign * entry.report.threshold


def _mark(found: ComparisonSet, entry: Entry) -> Mark:
    seen = entry.report.difference
    text = words.with_bounds(seen, sign=True)
    return Mark(name_of(found, entry), seen.value, seen.lower, seen.upper, text, str(entry.report.verdict))


def _section(anchor: str, entry: Entry) -> Section:
    report = entry.report
    marks = [
        Mark(
            f"{name} ({group['n']:,})",
            group["delta"],
            group["ci_lower"],
            group["ci_upper"],
            f"{words.signed(group['delta'])} {state}",
            state,
        )
        for name, group in worst_first(report)
        for state in (state_of(group, report),)
    ]
    title = "Categories, the largest loss first (problems)"
    categories = rows_figure(title, marks, limit=_limit(entry)) if marks else None
    return Section(anchor, entry, _outcomes(report), categories)


def _outcomes(report: RegressionReport) -> Figure | None:
    if report.flips is None:
        return None
    if report.graded:
        worse, better = report.moved
        equal = report.pairing.paired - worse - better
        parts = [("got worse", worse, "bad"), ("got better", better, "good"), ("equal", equal, "none")]
    else:
        summary = report.flips.summary
        parts = [
            ("stayed right", summary["n_stable_correct"], "ok"),
            ("got worse", summary["n_regressions"], "bad"),
            ("got better", summary["n_improvements"], "good"),
            ("stayed wrong", summary["n_stable_wrong"], "none"),
        ]
    return Figure("Outcomes", [Shares("Outcomes", parts)])
