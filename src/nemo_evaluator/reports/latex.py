"""The report as a LaTeX table (booktabs), every name escaped."""

from __future__ import annotations

from typing import Final

from nemo_evaluator.reports import _format as fmt
from nemo_evaluator.reports.model import BenchmarkReport, EvalReport
from nemo_evaluator.runs.scores import Score

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


def escape(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return " ".join(text.split()).translate(_ESCAPES)


def _name(text: str) -> str:
    """The first cell of a row: a bracket or a star there would belong to the end of the row before."""
    return "{}" + escape(text) if text.lstrip().startswith(("[", "*")) else escape(text)


def render_latex(report: EvalReport) -> str:
    """The whole report: needs ``\\usepackage{booktabs}``."""
    many = len(report.models) > 1
    names = fmt.labels(report.benchmarks)
    header = ["Benchmark", *(["Model"] if many else []), "Metric", "Samples", "Score", "95% CI", "$n$"]
    header += ["Coverage", "Truncated", "Unparsed"]
    lines = [
        r"\begin{table}[ht]",
        r"\centering",
        rf"\caption{{{escape(report.title)}}}",
        rf"\begin{{tabular}}{{{'l' * (3 if many else 2)}{'r' * 7}}}",
        r"\toprule",
        " & ".join(cell.replace("%", r"\%") for cell in header) + r" \\",
        r"\midrule",
    ]
    for at, bench in enumerate(report.benchmarks):
        lines += _rows(bench, names[at], many)
    blank = " & ".join(["--"] * (9 if many else 8))
    lines += [rf"{_name(one.name)}$^\ddagger$ & {blank} \\" for one in report.unfinished]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if any(bench.invalid for bench in report.benchmarks):
        lines.append(r"\par\smallskip\footnotesize $^\dagger$ INVALID: not enough of the plan was measured.")
    if report.unfinished:
        lines.append(r"\par\smallskip\footnotesize $^\ddagger$ Did not finish.")
    return "\n".join([*lines, r"\end{table}", ""])


def _rows(bench: BenchmarkReport, name: str, many: bool) -> list[str]:
    mark = r"$^\dagger$" if bench.invalid else ""
    model = [escape(bench.model)] if many else []
    samples = escape(f"{bench.samples} × {bench.repeats}" if bench.repeats > 1 else str(bench.samples))
    tail = [
        escape(text) for text in (fmt.coverage(bench), *map(fmt.percent, (bench.truncated_share, bench.unparsed_share)))
    ]
    first = [_name(name) + mark, *model, *_cells(bench.headline, samples), *tail]
    extra = [["", *["" for _ in model], *_cells(score, ""), "", "", ""] for score in bench.scorers]
    return [" & ".join(row) + r" \\" for row in [first, *extra]]


def _cells(score: Score | None, samples: str) -> list[str]:
    if score is None:
        return ["--", samples, "--", "--", "--"]
    value = escape(f"{fmt.number(score.value)}{fmt.right_of(score)}")
    name = escape(score.name.removeprefix("scorer:"))
    return [name, samples, value, escape(fmt.interval(score)), escape(fmt.count(score.n))]
