"""``nel compare``: compare candidates with a baseline."""

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from nemo_evaluator.cli._options import PATH, echo_verdict, option, run_ids, say
from nemo_evaluator.cli._runs import folder_of
from nemo_evaluator.config.gate_policy import Direction
from nemo_evaluator.core.files import dumps, write_atomic, write_json
from nemo_evaluator.core.terminal import terminal_width
from nemo_evaluator.decisions.compare.compare_set import ComparisonSet, compare_paths
from nemo_evaluator.decisions.compare.options import DEFAULT_MAX_DROP, CompareOptions, TestName
from nemo_evaluator.decisions.pairing import PairBy
from nemo_evaluator.reports.compare_pages import compare_markdown, set_html, set_markdown, set_text

# The output formats of a decision.
FORMATS = ["text", "markdown", "html", "json"]
_REPORT = "regression_report.md"
_TESTS = ["auto", "mcnemar", "sign", "permutation"]


def show(
    fmt: str, document: Callable[[], Mapping[str, Any]], pages: Mapping[str, Callable[[], str]]
) -> None:
    """Print a decision in one format.

    Args:
        fmt: The format, one of ``FORMATS``.
        document: Builds the decision as data, for JSON.
        pages: Functions that render the decision, by format.
    """
    if fmt == "json":
        click.echo(dumps(document()))
    elif fmt == "text":
        echo_verdict(pages["text"]())
    else:
        click.echo(pages[fmt](), nl=False)


def write_page(target: Path, html: Callable[[], str] | None, markdown: Callable[[], str]) -> None:
    """Write a report, and name the file on stderr.

    Args:
        target: The file; its ending decides between HTML and Markdown.
        html: Renders HTML; None: always write Markdown.
        markdown: Renders Markdown.
    """
    if html is not None and target.suffix.lower() in (".html", ".htm"):
        render_page = html
    else:
        render_page = markdown
    write_atomic(target, render_page())
    say(f"report written: {target}")


def _finite(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Refuse an option's value that is not a finite number."""
    # Every comparison with NaN would be false.
    if not math.isfinite(value):
        raise click.BadParameter("a finite number is expected", context, parameter)
    return value


@dataclass(frozen=True, slots=True)
class _CompareFlags:
    """The options of ``nel compare``, by the names that click gives them; their help texts describe them."""

    output: Path | None
    max_drop: float
    strict: bool
    correct_above: float
    show_flips: bool
    compact: bool
    verbose: bool
    no_report: bool
    fmt: str
    as_json: bool
    report_path: Path | None
    test: TestName
    confidence: float
    direction: Direction
    pair_by: PairBy

    def for_comparison(self) -> CompareOptions:
        """The options that decide how the runs are compared."""
        return CompareOptions(
            max_drop=self.max_drop,
            correct_above=self.correct_above,
            test=self.test,
            confidence=self.confidence,
            pair_by=self.pair_by,
            direction=self.direction,
        )


@click.command("compare")
@click.argument("baseline", type=PATH, shell_complete=run_ids)
@click.argument(
    "candidates",
    nargs=-1,
    required=True,
    type=PATH,
    metavar="CANDIDATE...",
    shell_complete=run_ids,
)
@option("--output", "-o", type=PATH, help="Write the comparison as JSON to this file.")
@option(
    "--max-drop",
    "-t",
    type=click.FloatRange(min=0),
    callback=_finite,
    default=DEFAULT_MAX_DROP,
    help="Largest acceptable drop of the mean score, in score units.",
)
@option(
    "--strict/--no-strict", default=True, help="Exit with the verdict's code, or always with 0."
)
@option(
    "--correct-above",
    type=float,
    callback=_finite,
    default=0.0,
    help="Reward above which an answer counts as right, for flips.",
)
@option(
    "--show-flips", is_flag=True, help="List the problems that flipped between right and wrong."
)
@option("--compact", is_flag=True, help="Print a short summary.")
@option("--verbose", is_flag=True, help="Also print the statistics.")
@option("--no-report", is_flag=True, help="Do not write the markdown report.")
@option("--format", "fmt", type=click.Choice(FORMATS), default="text")
@option("--json", "as_json", is_flag=True, help="Same as --format json.")
@option(
    "--report",
    "report_path",
    type=PATH,
    help=f"Write one report on all comparisons to this .md or .html file instead of {_REPORT} next to each candidate.",
)
@option("--test", type=click.Choice(_TESTS), default="auto", help="Significance test for flips.")
@option(
    "--confidence",
    type=click.FloatRange(0.5, 1, max_open=True),
    callback=_finite,
    default=0.95,
    help="Confidence level of the interval; divided among several candidates (Bonferroni).",
)
@option(
    "--direction",
    type=click.Choice(["higher_is_better", "lower_is_better"]),
    default="higher_is_better",
    help="Whether higher or lower scores are better; with lower_is_better, --max-drop limits the rise.",
)
@option(
    "--pair-by",
    type=click.Choice(["auto", "content", "index"]),
    default="auto",
    help="How to match problems; auto: by content, or by index if rows have no problem_hash.",
)
def compare(baseline: Path, candidates: tuple[Path, ...], **flags: Any) -> None:
    """Compare one or more CANDIDATE runs with a BASELINE run.

    A run is given by its id or a job id, or by a path: a bundle, the folder of a benchmark, or one of several
    benchmarks. Exit codes: 0 PASS, 1 BLOCK, 2 WARN or INCONCLUSIVE, or no run at a path; 1 when the runs share no
    benchmark.
    """
    options = _CompareFlags(**flags)
    baseline = folder_of(baseline)
    candidates = tuple(folder_of(candidate) for candidate in candidates)
    comparison = compare_paths(baseline, candidates, options.for_comparison())
    for warning in comparison.warnings:
        say(f"warning: {warning}")
    _write_comparison(comparison, options)
    output_format = "json" if options.as_json else options.fmt
    show(output_format, comparison.to_dict, _pages(comparison, options))
    if options.strict:
        sys.exit(comparison.verdict.exit_code)


def _pages(comparison: ComparisonSet, options: _CompareFlags) -> dict[str, Callable[[], str]]:
    """Functions that render the comparison, by format."""
    return {
        "markdown": lambda: set_markdown(comparison),
        "html": lambda: set_html(comparison),
        "text": lambda: set_text(
            comparison,
            width=terminal_width(),
            show_flips=options.show_flips,
            compact=options.compact,
            verbose=options.verbose,
        ),
    }


def _write_comparison(comparison: ComparisonSet, options: _CompareFlags) -> None:
    """Write the files, and name them on stderr, so that programs can parse stdout."""
    if options.output is not None:
        write_json(options.output, comparison.to_dict())
        say(f"JSON report written: {options.output}")
    if options.no_report:
        return
    if options.report_path is not None:
        write_page(
            options.report_path,
            lambda: set_html(comparison),
            lambda: set_markdown(comparison),
        )
        return
    for entry in comparison.entries:
        try:
            write_page(entry.folder / _REPORT, None, partial(compare_markdown, entry.report))
        except OSError as error:
            say(f"warning: no report written: {error}")
