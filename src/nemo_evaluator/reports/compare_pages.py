"""Comparisons as text for the terminal, markdown for a pull request, and a self-contained HTML page without scripts.

Every text is escaped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nemo_evaluator.decisions.compare.compare_set import ComparisonSet, Entry
from nemo_evaluator.decisions.compare.report import RegressionReport
from nemo_evaluator.decisions.compare.verdict import settling
from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports import compare
from nemo_evaluator.reports._page import plain_text, template
from nemo_evaluator.reports._plots import Figure, PlotMark, Shares, rows_figure
from nemo_evaluator.reports._words import ICONS, VERDICTS, explained
from nemo_evaluator.reports.compare import LISTED, name_of, state_of, titled, worst_first


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of a comparison is shown.

    Attributes:
        show_flips: List the problems that flipped.
        compact: Show only the verdict, its reasons, the sides, the categories that lost too much, and warnings.
        verbose: Show the statistics as well.
    """

    show_flips: bool = False
    compact: bool = False
    verbose: bool = False


def set_text(found: ComparisonSet, *, width: int | None = None, **shown: bool) -> str:
    """All comparisons of a call as plain text; several get a closing table.

    Args:
        found: The comparisons.
        width: The largest width of a line; None for any.
        **shown: Fields of ``Shown``.
    """
    rows: list[list[str]] = []
    for entry in found.entries:
        difference = words.with_bounds(entry.report.difference, sign=True)
        rows.append([name_of(found, entry), difference, str(entry.report.verdict)])
    table: list[str] = []
    if len(rows) > 1:
        table = words.columns(rows, width=width)
    return plain_text(
        "compare.txt.j2", width, found=found, c=compare, shown=Shown(**shown), table=table
    )


def compare_markdown(report: RegressionReport) -> str:
    """One comparison as markdown."""
    return _render([report], several=False)


def set_markdown(found: ComparisonSet) -> str:
    """All comparisons of a call as markdown; several get a table at the top."""
    several = len(found.entries) > 1 or bool(found.warnings)
    table_values = {"found": found, "entries": found.entries, "title": titled(found)}
    return _render([entry.report for entry in found.entries], several=several, **table_values)


def _render(reports: Sequence[RegressionReport], **about: Any) -> str:
    """The markdown of several reports, without characters that a terminal would interpret."""
    shared = {
        "w": words,
        "c": compare,
        "settling": settling,
        "icons": ICONS,
        "meanings": explained(VERDICTS),
    }
    page = template("compare.md.j2", words.cell).render(reports=reports, **shared, **about)
    return words.printable(page).rstrip() + "\n"


def set_html(found: ComparisonSet) -> str:
    """All comparisons of a call as one self-contained page."""
    sections: list[_CompareSection] = []
    for position, entry in enumerate(found.entries):
        sections.append(_section(entry, anchor=f"c{position}"))
    page = template("compare.html.j2").render(
        found=found,
        first=found.entries[0].report,
        w=words,
        c=compare,
        settling=settling,
        listed=LISTED,
        title=titled(found),
        sections=sections,
        differences=_difference_figure(found),
        meanings=explained(VERDICTS),
    )
    # Removes characters that reverse the reading direction or hide the text next to them.
    return words.printable(page)


def _difference_figure(found: ComparisonSet) -> Figure:
    """The plot of the differences of all comparisons."""
    marks: list[PlotMark] = []
    for entry in found.entries:
        difference = entry.report.difference
        mark = PlotMark(
            name_of(found, entry),
            difference.value,
            difference.lower,
            upper=difference.upper,
            text=words.with_bounds(difference, sign=True),
            style=str(entry.report.verdict),
        )
        marks.append(mark)
    title = "Candidate minus baseline, mean score on the problems both answered, with its interval"
    return rows_figure(title, marks, limit=_signed_limit(found.entries[0].report))


def _signed_limit(report: RegressionReport) -> float:
    """The limit as a difference of scores: below zero where a higher score is better."""
    return -report.better * report.threshold


def section_figures(entry: Entry) -> list[Figure]:
    """The plots of one comparison."""
    figures: list[Figure] = []
    for figure in (_outcomes(entry.report), _category_figure(entry.report)):
        if figure is not None:
            figures.append(figure)
    return figures


@dataclass(frozen=True, slots=True)
class _CompareSection:
    """One comparison of a page.

    Attributes:
        anchor: The id of its part of the page.
        entry: The comparison.
        report: Its report.
        outcomes: The plot of problems that got worse or better; None when nothing paired.
        categories: The plot of categories; None without categories.
    """

    anchor: str
    entry: Entry
    report: RegressionReport
    outcomes: Figure | None
    categories: Figure | None


def _section(entry: Entry, anchor: str) -> _CompareSection:
    """The values and plots of one comparison for the template."""
    return _CompareSection(
        anchor=anchor,
        entry=entry,
        report=entry.report,
        outcomes=_outcomes(entry.report),
        categories=_category_figure(entry.report),
    )


def _category_figure(report: RegressionReport) -> Figure | None:
    """The plot of the categories, the largest loss first; None without categories."""
    marks: list[PlotMark] = []
    for name, group in worst_first(report):
        state = state_of(group, report)
        mark = PlotMark(
            f"{name} ({group['n']:,})",
            group["delta"],
            group["ci_lower"],
            upper=group["ci_upper"],
            text=f"{words.signed(group['delta'])} {state}",
            style=state,
        )
        marks.append(mark)
    if not marks:
        return None
    title = "Categories, the largest loss first (problems)"
    return rows_figure(title, marks, limit=_signed_limit(report))


def _outcomes(report: RegressionReport) -> Figure | None:
    """The plot of problems that got worse, got better or stayed; None when nothing paired."""
    if report.flips is None:
        return None
    if report.graded:
        worse, better = report.moved
        equal = report.pairing.paired - worse - better
        parts = [
            ("got worse", worse, "bad"),
            ("got better", better, "good"),
            ("equal", equal, "none"),
        ]
    else:
        summary = report.flips.summary
        parts = [
            ("stayed right", summary["n_stable_correct"], "ok"),
            ("got worse", summary["n_regressions"], "bad"),
            ("got better", summary["n_improvements"], "good"),
            ("stayed wrong", summary["n_stable_wrong"], "none"),
        ]
    return Figure("Outcomes", [Shares(parts)])
