"""``nel compare``, ``gate`` and ``check``: is a candidate worse, may it be released, is a run fit to be used?"""

import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from nemo_evaluator.cli._options import PATH, option
from nemo_evaluator.config.gate_policy import load_gate_policy
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, write_atomic, write_json
from nemo_evaluator.core.terminal import coloured, harmless, terminal_width
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.check.findings import FailureClass, RunStatus
from nemo_evaluator.decisions.check.runs import CheckLimits, check_path
from nemo_evaluator.decisions.compare.compare_set import ComparisonSet, compare_paths
from nemo_evaluator.decisions.compare.report import write_report
from nemo_evaluator.decisions.compare.runs import DEFAULT_MAX_DROP, CompareOptions
from nemo_evaluator.decisions.gate.runs import gate_runs
from nemo_evaluator.reports.compare_pages import compare_markdown, set_html, set_markdown, set_text
from nemo_evaluator.reports.gate import gate_html, gate_junit, gate_markdown, gate_text
from nemo_evaluator.reports.texts import checks_text
from nemo_evaluator.store.sums import MEND, damaged_files

# How a decision can be shown.
_FORMATS = ["text", "markdown", "html", "json"]
_REPORT = "regression_report.md"
_TESTS = ["auto", "mcnemar", "sign", "permutation"]
_LIMITS = CheckLimits()
_SHARE = click.FloatRange(0, 1)


def _echo(text: str) -> None:
    """Print text whose lines may start with a verdict."""
    click.echo(coloured(harmless(text)), nl=False, color=False if os.environ.get("NO_COLOR") else None)


def _show(fmt: str, document: Callable[[], JsonDict], pages: Mapping[str, Callable[[], str]]) -> None:
    if fmt == "json":
        click.echo(dumps(document()))
    elif fmt == "text":
        _echo(pages["text"]())
    else:
        click.echo(pages[fmt](), nl=False)


def _write_page(target: Path, html: Callable[[], str] | None, markdown: Callable[[], str]) -> None:
    page = html if html is not None and target.suffix.lower() in (".html", ".htm") else markdown
    write_atomic(target, page())
    click.echo(f"report written: {target}", err=True)


def _finite(context: click.Context, parameter: click.Parameter, value: float) -> float:
    # Every comparison with what is no number would be false.
    if not math.isfinite(value):
        raise click.BadParameter("a finite number is expected", context, parameter)
    return value


@click.command("compare")
@click.argument("baseline", type=PATH)
@click.argument("candidates", nargs=-1, required=True, type=PATH, metavar="CANDIDATE...")
@option("--output", "-o", type=PATH, help="Write the report as JSON.")
@option(
    "--max-drop",
    "-t",
    type=click.FloatRange(min=0),
    callback=_finite,
    default=DEFAULT_MAX_DROP,
    help="Largest acceptable drop of the mean score, in score units.",
)
@option("--strict/--no-strict", default=True, help="Exit codes by verdict, or always 0.")
@option("--correct-above", type=float, callback=_finite, default=0.0, help="For flips: rewards above this are right.")
@option("--show-flips", is_flag=True, help="List the problems that changed sides.")
@option("--compact", is_flag=True, help="A few lines only.")
@option("--verbose", is_flag=True, help="With the statistics.")
@option("--no-report", is_flag=True, help="Do not write the markdown report.")
@option("--format", "fmt", type=click.Choice(_FORMATS), default="text")
@option("--json", "as_json", is_flag=True, help="Same as --format json.")
@option(
    "--report",
    "report_path",
    type=PATH,
    help=f"Where the report of all comparisons goes (.md or .html) instead of {_REPORT} beside each candidate.",
)
@option("--test", type=click.Choice(_TESTS), default="auto", help="Test of flips.")
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
    help="Which way is better; with lower_is_better, --max-drop is the largest acceptable rise.",
)
@option(
    "--pair-by",
    type=click.Choice(["auto", "content", "index"]),
    default="auto",
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
    _write_comparison(found, flags)
    how = {name: flags[name] for name in ("show_flips", "compact", "verbose")}
    pages = {"markdown": lambda: set_markdown(found), "html": lambda: set_html(found)}
    pages["text"] = lambda: set_text(found, width=terminal_width(), **how)
    _show("json" if flags["as_json"] else flags["fmt"], found.to_dict, pages)
    if flags["strict"]:
        sys.exit(found.verdict.exit_code)


def _write_comparison(found: ComparisonSet, flags: dict[str, Any]) -> None:
    """Files first; what is said about them goes to stderr, so that stdout can be parsed."""
    if flags["output"]:
        write_json(flags["output"], found.to_dict())
        click.echo(f"JSON report written: {flags['output']}", err=True)
    if flags["no_report"]:
        return
    if flags["report_path"] is not None:
        _write_page(flags["report_path"], lambda: set_html(found), lambda: set_markdown(found))
        return
    for entry in found.entries:
        try:
            _write_page(entry.folder / _REPORT, None, partial(compare_markdown, entry.report))
        except OSError as error:
            click.echo(f"warning: no report written: {error}", err=True)


@click.command("gate")
@click.argument("baseline", type=PATH)
@click.argument("candidate", type=PATH)
@option("--policy", "-p", required=True, type=PATH, help="The policy, a YAML file.")
@option("--output", "-o", type=PATH, help="Write it as JSON, and as .md beside that.")
@option("--format", "fmt", type=click.Choice(_FORMATS), default="text")
@option("--json", "as_json", is_flag=True, help="Same as --format json.")
@option("--strict/--no-strict", default=True, help="Exit 1 on NO-GO, 2 on INCONCLUSIVE.")
@option("--verbose", is_flag=True, help="With every warning by benchmark, and the terms.")
@option("--explain", is_flag=True, help="Say, per open benchmark, how much more data would settle it.")
@option("--report", "report_path", type=PATH, help="Write the decision, as .md or .html.")
@option("--junit", type=PATH, help="Write the decision as JUnit XML, for CI.")
@option("--no-report", is_flag=True, help="Write no report.")
def gate(baseline: Path, candidate: Path, policy: Path, **flags: Any) -> None:
    """Decide GO, NO-GO or INCONCLUSIVE for a CANDIDATE against a BASELINE.

    Both are folders of benchmarks, or bundles. Exit codes: 0 GO, 1 NO-GO, 2 INCONCLUSIVE; 1 for a bad policy or path.
    """
    report = gate_runs(baseline, candidate, load_gate_policy(policy))
    fmt, target = "json" if flags["as_json"] else flags["fmt"], flags["report_path"]
    if flags["junit"]:
        write_atomic(flags["junit"], gate_junit(report))
    if flags["output"]:
        write_report(report, flags["output"])
        click.echo(f"decision written: {flags['output']}", err=True)
        target = target or (flags["output"].with_suffix(".md") if fmt != "json" else None)
    if target is not None and not flags["no_report"]:
        _write_page(target, lambda: gate_html(report), lambda: gate_markdown(report, explain=True))
    how = {"explain": flags["explain"]}
    pages = {"markdown": lambda: gate_markdown(report, **how), "html": lambda: gate_html(report)}
    pages["text"] = lambda: gate_text(report, verbose=flags["verbose"], width=terminal_width(), **how)
    _show(fmt, report.to_dict, pages)
    if flags["strict"]:
        sys.exit(report.verdict.exit_code)


@click.command("check")
@click.argument("run", type=PATH)
@option("--max-failed", type=_SHARE, default=_LIMITS.failed, help="Share of failed rows.")
@option(
    "--max-truncated",
    type=_SHARE,
    default=_LIMITS.truncated,
    help="Share of answers cut off, of prompts over the context, and of tasks out of budget.",
)
@option(
    "--max-unparsed",
    type=_SHARE,
    default=_LIMITS.unparsed,
    help="Share of answers in which nothing could be read, and of empty ones.",
)
@option("--max-refusals", type=_SHARE, default=_LIMITS.refusals, help="Share of refusals.")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
@option("--strict/--no-strict", default=True, help="Exit 2 on DEGRADED, or 0.")
def check(run: Path, as_json: bool, strict: bool, **limits: float) -> None:
    """Check every benchmark of a finished RUN: coverage, failures, accounting, truncation, and more.

    A share over its limit makes a run DEGRADED. Exit codes: 0 VALID, 2 DEGRADED, 3 INVALID, 1 when there is nothing to
    check.
    """
    if damage := damaged_files(run):
        raise UsageError("; ".join(damage), hint=MEND)
    checks = check_path(run, CheckLimits(**{name.removeprefix("max_"): limit for name, limit in limits.items()}))
    if not checks:
        hint = "give the output directory of a finished run"
        raise UsageError(f"no bundle (eval-*.json) under {run}: {FailureClass.CONFIG}", hint=hint)
    worst = max((one.status for one in checks), key=list(RunStatus).index)
    if as_json:
        click.echo(dumps({"status": str(worst), "benchmarks": [one.to_dict() for one in checks]}))
    else:
        _echo(checks_text(checks, width=terminal_width()))
    if strict or worst is RunStatus.INVALID:
        sys.exit(worst.exit_code)
