"""The report as a document: markdown, or a LaTeX table (booktabs), every name escaped."""

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
    """Text that LaTeX prints as it is."""
    return re.sub(r"\s+", " ", str(text)).translate(_ESCAPES)


def _name(text: str) -> Markup:
    """The first cell of a row: a bracket or a star there would belong to the end of the row before."""
    return Markup(("{}" if text.lstrip().startswith(("[", "*")) else "") + escape(text))  # noqa: S704 - escaped


def render_markdown(report: EvalReport) -> str:
    """One table of headlines, then the details of each."""
    return _render(report, "report.md.j2", words.cell, meanings=explained(STATUSES))


def render_latex(report: EvalReport) -> str:
    """The whole report: needs ``\\usepackage{booktabs}``."""
    return _render(report, "report.tex.j2", escape, name=_name)


def _render(report: EvalReport, file: str, escaping: Callable[[object], str], **more: Any) -> str:
    names = words.labels(report.benchmarks)
    unfinished = words.unfinished_names(report)
    many = len(report.models) > 1
    document = template(file, escaping)
    return document.render(
        report=report, names=names, unfinished=unfinished, many=many, w=words, **more
    )
