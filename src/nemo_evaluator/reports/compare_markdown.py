"""Comparisons as markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nemo_evaluator.decisions.compare.compare_set import ComparisonSet
from nemo_evaluator.decisions.compare.report import RegressionReport
from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports import compare
from nemo_evaluator.reports._page import template
from nemo_evaluator.reports.verdict_words import ICONS, VERDICTS, explained


def compare_markdown(report: RegressionReport) -> str:
    """One comparison as markdown."""
    return _render([report], several=False)


def set_markdown(found: ComparisonSet) -> str:
    """All comparisons of a call; several have a table of all at their head."""
    several = len(found.entries) > 1 or bool(found.warnings)
    about = {"found": found, "entries": found.entries, "title": compare.titled(found)}
    return _render([entry.report for entry in found.entries], several=several, **about)


def _render(reports: Sequence[RegressionReport], **about: Any) -> str:
    document = template("compare.md.j2", words.cell)
    page = document.render(reports=reports, w=words, c=compare, icons=ICONS, meanings=explained(VERDICTS), **about)
    return words.printable(page).rstrip() + "\n"
