"""The report as a LaTeX table (booktabs), every name escaped."""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup

from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports._page import template
from nemo_evaluator.reports.model import EvalReport

_ESCAPES: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
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


def render_latex(report: EvalReport) -> str:
    """The whole report: needs ``\\usepackage{booktabs}``."""
    return template("report.tex.j2", escape).render(
        report=report,
        names=words.labels(report.benchmarks),
        unfinished=words.unfinished_names(report),
        many=len(report.models) > 1,
        name=_name,
        w=words,
    )
