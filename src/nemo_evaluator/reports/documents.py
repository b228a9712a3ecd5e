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
    """A name as the first cell of a row, where a bracket or a star would be read as part of the row before."""
    return Markup(("{}" if text.lstrip().startswith(("[", "*")) else "") + escape(text))  # noqa: S704 - escaped


def render_markdown(report: EvalReport) -> str:
    """A table of headlines, then the details of each benchmark."""
    return _render(report, "report.md.j2", words.cell, meanings=explained(STATUSES))


def render_latex(report: EvalReport) -> str:
    """The whole report as LaTeX; it needs ``\\usepackage{booktabs}``."""
    return _render(report, "report.tex.j2", escape, name=_name)


def _render(report: EvalReport, file: str, escaping: Callable[[object], str], **more: Any) -> str:
    """Fill a template with the report."""
    names = words.labels(report.benchmarks)
    unfinished = words.unfinished_names(report)
    several_models = len(report.models) > 1
    page = template(file, escaping)
    return page.render(
        report=report, names=names, unfinished=unfinished, many=several_models, w=words, **more
    )
