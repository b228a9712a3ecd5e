"""The report as a document: markdown, or a LaTeX table (booktabs) with every name escaped."""

import re
from collections.abc import Callable
from typing import Any, Final

from markupsafe import Markup

from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports._page import template
from nemo_evaluator.reports._words import STATUSES, explained
from nemo_evaluator.reports.model import EvalReport

_ESCAPES: Final = str.maketrans(
    {
        **{char: f"\\{char}" for char in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\char34{}",
        "–": "--",
        "×": r"$\times$",
    }
)


def escape(text: object) -> str:
    """A text with the characters escaped that LaTeX would interpret."""
    return re.sub(r"\s+", " ", str(text)).translate(_ESCAPES)


def _name(text: str) -> Markup:
    """A name as the first cell of a row, where LaTeX would take a bracket or a star for a part of the row before."""
    escaped = escape(text)
    if text.lstrip().startswith(("[", "*")):
        escaped = "{}" + escaped
    return Markup(escaped)  # noqa: S704 - escaped


def render_markdown(report: EvalReport) -> str:
    """A table of headlines, then the details of each benchmark."""
    return _render(report, "report.md.j2", words.cell, meanings=explained(STATUSES))


def render_latex(report: EvalReport) -> str:
    """The whole report as LaTeX; it needs ``\\usepackage{booktabs}``."""
    return _render(report, "report.tex.j2", escape, name=_name)


def _render(report: EvalReport, file: str, escaping: Callable[[object], str], **more: Any) -> str:
    """Fill a template with the report."""
    return template(file, escaping).render(
        report=report,
        names=words.labels(report.benchmarks),
        unfinished=words.unfinished_names(report),
        many=len(report.models) > 1,
        w=words,
        **more,
    )
