"""Comparisons as one self-contained page: no script, nothing loaded from elsewhere, every text escaped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from nemo_evaluator.decisions.compare.compare_set import ComparisonSet, Entry
from nemo_evaluator.decisions.compare.report import RegressionReport
from nemo_evaluator.decisions.compare.verdict import settling
from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports._difference_svg import Line, difference_plot
from nemo_evaluator.reports._page import template
from nemo_evaluator.reports._svg import Slice, share_bar
from nemo_evaluator.reports.compare import LISTED, name_of, state_of, worst_first

# More groups than this are read in the JSON report.
_MOST_GROUPS: Final = 40


@dataclass(frozen=True, slots=True)
class Section:
    """One comparison on the page."""

    anchor: str
    entry: Entry
    outcomes: Markup | None
    categories: Markup | None
    left_out: int

    @property
    def report(self) -> RegressionReport:
        """The comparison."""
        return self.entry.report


def set_html(found: ComparisonSet) -> str:
    """All comparisons of a call as one self-contained page."""
    sections = [_section(f"c{at}", entry) for at, entry in enumerate(found.entries)]
    lines = [_line(entry, name_of(found, entry)) for entry in found.entries]
    page = template("compare.html.j2").render(
        found=found,
        sections=sections,
        plot=difference_plot(lines, _limit(found.entries[0].report)),
        first=found.entries[0].report,
        w=words,
        settling=settling,
        listed=LISTED,
    )
    # Without characters that turn the reading direction round or hide what stands beside them.
    return words.printable(page)


def _limit(report: RegressionReport) -> float:
    return -report.threshold if report.direction == "higher_is_better" else report.threshold


def _line(entry: Entry, label: str) -> Line:
    found = entry.report.difference
    text = words.with_bounds(found, sign=True)
    return Line(label, found.value, found.lower, found.upper, str(entry.report.verdict), text)


def _section(anchor: str, entry: Entry) -> Section:
    report = entry.report
    groups = worst_first(report)
    shown = groups[:_MOST_GROUPS]
    lines = [
        Line(
            f"{name} ({group['n']:,})",
            group["delta"],
            group["ci_lower"],
            group["ci_upper"],
            state_of(group, report),
            words.signed(group["delta"]),
        )
        for name, group in shown
    ]
    plot = difference_plot(lines, _limit(report), width=500) if lines else None
    return Section(anchor, entry, _outcomes(report), plot, len(groups) - len(shown))


def _outcomes(report: RegressionReport) -> Markup | None:
    if report.flips is None:
        return None
    if report.graded:
        worse, better = report.moved
        equal = report.pairing.paired - worse - better
        return share_bar(
            [Slice("got worse", worse, "bad"), Slice("got better", better, "good"), Slice("equal", equal, "none")]
        )
    summary = report.flips.summary
    return share_bar(
        [
            Slice("stayed right", summary["n_stable_correct"], "ok"),
            Slice("got worse", summary["n_regressions"], "bad"),
            Slice("got better", summary["n_improvements"], "good"),
            Slice("stayed wrong", summary["n_stable_wrong"], "none"),
        ]
    )
