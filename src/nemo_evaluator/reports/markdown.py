"""The report as markdown: one table of headlines, then what stands behind each of them."""

from __future__ import annotations

from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports._page import template
from nemo_evaluator.reports.model import EvalReport
from nemo_evaluator.reports.verdict_words import STATUSES, explained


def render_markdown(report: EvalReport) -> str:
    """The whole report."""
    return template("report.md.j2", words.cell).render(
        report=report,
        names=words.labels(report.benchmarks),
        unfinished=words.unfinished_names(report),
        many=len(report.models) > 1,
        meanings=explained(STATUSES),
        w=words,
    )
