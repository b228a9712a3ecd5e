"""``nel compare``: is the candidate worse than the baseline, and by how much?"""

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from nemo_evaluator.cli._verdict import FORMATS, echo_verdict, finite, terminal_width
from nemo_evaluator.core.files import dumps, write_atomic, write_json
from nemo_evaluator.decisions.compare.compare_set import ComparisonSet, compare_paths
from nemo_evaluator.decisions.compare.options import DEFAULT_MAX_DROP, CompareOptions
from nemo_evaluator.reports.compare_pages import compare_markdown, set_html, set_markdown, set_text

_REPORT = "regression_report.md"
_TESTS = ["auto", "mcnemar", "sign", "permutation"]


@click.command("compare")
@click.argument("baseline", type=click.Path(path_type=Path))
@click.argument("candidates", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="CANDIDATE...")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write the report as JSON.")
@click.option(
    "--max-drop",
    "-t",
    type=click.FloatRange(min=0),
    callback=finite,
    default=DEFAULT_MAX_DROP,
    show_default=True,
    help="Largest acceptable drop of the mean score, in score units.",
)
@click.option("--strict/--no-strict", default=True, show_default=True, help="Exit codes by verdict, or always 0.")
@click.option(
    "--correct-above",
    type=float,
    callback=finite,
    default=0.0,
    show_default=True,
    help="For flips: rewards above this are right.",
)
@click.option("--show-flips", is_flag=True, help="List the problems that changed sides.")
@click.option("--compact", is_flag=True, help="A few lines only.")
@click.option("--verbose", is_flag=True, help="With the statistics.")
@click.option("--no-report", is_flag=True, help="Do not write the markdown report.")
@click.option("--format", "fmt", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@click.option(
    "--report",
    "report_path",
    type=click.Path(path_type=Path),
    help=f"Where the report of all comparisons goes (.md or .html) instead of {_REPORT} beside each candidate.",
)
@click.option("--test", type=click.Choice(_TESTS), default="auto", show_default=True, help="Test of flips.")
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 1, max_open=True),
    callback=finite,
    default=0.95,
    show_default=True,
    help="Confidence level of the interval; divided among several candidates (Bonferroni).",
)
@click.option(
    "--direction",
    type=click.Choice(["higher_is_better", "lower_is_better"]),
    default="higher_is_better",
    show_default=True,
    help="Which way is better; with lower_is_better, --max-drop is the largest acceptable rise.",
)
@click.option(
    "--pair-by",
    type=click.Choice(["auto", "content", "index"]),
    default="auto",
    show_default=True,
    help="auto: by content, by index only where rows have no problem_hash.",
)
def compare(baseline: Path, candidates: tuple[Path, ...], **flags: Any) -> None:
    """Compare one or more CANDIDATE runs with a BASELINE run.

    A path is a bundle, the folder of a benchmark, or a folder of several benchmarks. Exit codes: 0 PASS, 1 BLOCK,
    2 WARN or INCONCLUSIVE, or no run at a path; 1 when the runs share no benchmark.
    """
    options = CompareOptions(**{one.name: flags[one.name] for one in fields(CompareOptions) if one.name in flags})
    found = compare_paths(baseline, candidates, options)
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    _write(found, flags)
    _show(found, "json" if flags["as_json"] else flags["fmt"], flags)
    if flags["strict"]:
        sys.exit(found.verdict.exit_code)


def _show(found: ComparisonSet, fmt: str, flags: dict[str, Any]) -> None:
    if fmt == "json":
        click.echo(dumps(found.to_dict()))
    elif fmt == "markdown":
        click.echo(set_markdown(found), nl=False)
    elif fmt == "html":
        click.echo(set_html(found), nl=False)
    else:
        how = {name: flags[name] for name in ("show_flips", "compact", "verbose")}
        echo_verdict(set_text(found, width=terminal_width(), **how))


def _write(found: ComparisonSet, flags: dict[str, Any]) -> None:
    """Files first; what is said about them goes to stderr, so that stdout can be parsed."""
    if flags["output"]:
        write_json(flags["output"], found.to_dict())
        click.echo(f"JSON report written: {flags['output']}", err=True)
    if flags["no_report"]:
        return
    given: Path | None = flags["report_path"]
    if given is not None:
        page = given.suffix.lower() in (".html", ".htm")
        write_atomic(given, set_html(found) if page else set_markdown(found))
        click.echo(f"report written: {given}", err=True)
        return
    for entry in found.entries:
        target = entry.folder / _REPORT
        try:
            write_atomic(target, compare_markdown(entry.report))
        except OSError as error:
            click.echo(f"warning: no report written: {error}", err=True)
        else:
            click.echo(f"report written: {target}", err=True)
