"""``nel gate``: decide whether a candidate may be released."""

import sys
from pathlib import Path
from typing import Any

import click

from nemo_evaluator.cli._options import PATH, option
from nemo_evaluator.cli.compare import FORMATS, show, write_page
from nemo_evaluator.config.gate_policy import load_gate_policy
from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.core.terminal import terminal_width
from nemo_evaluator.decisions.compare.report import write_report
from nemo_evaluator.decisions.gate.gate_runs import gate_runs
from nemo_evaluator.reports.gate import gate_html, gate_junit, gate_markdown, gate_text


@click.command("gate")
@click.argument("baseline", type=PATH)
@click.argument("candidate", type=PATH)
@option("--policy", "-p", required=True, type=PATH, help="YAML file with the gate policy.")
@option(
    "--output",
    "-o",
    type=PATH,
    help="Write the decision to this JSON file, and to a .md file next to it.",
)
@option("--format", "fmt", type=click.Choice(FORMATS), default="text", help="Format of the output.")
@option("--json", "as_json", is_flag=True, help="Same as --format json.")
@option(
    "--strict/--no-strict",
    default=True,
    help="Exit with 1 on NO-GO and 2 on INCONCLUSIVE, or always with 0.",
)
@option(
    "--verbose", is_flag=True, help="Also print each benchmark's warnings, and explain the terms."
)
@option(
    "--explain",
    is_flag=True,
    help="For each undecided benchmark, print how much more data would decide it.",
)
@option(
    "--report", "report_path", type=PATH, help="Write the decision to this file (.md or .html)."
)
@option("--junit", type=PATH, help="Write the decision as JUnit XML to this file, for CI.")
@option("--no-report", is_flag=True, help="Write no report.")
def gate(baseline: Path, candidate: Path, policy: Path, **flags: Any) -> None:
    """Decide GO, NO-GO or INCONCLUSIVE for a CANDIDATE against a BASELINE.

    Both are folders of benchmarks, or bundles. Exit codes: 0 GO, 1 NO-GO, 2 INCONCLUSIVE; 1 for a bad policy or path.
    """
    report = gate_runs(baseline, candidate, load_gate_policy(policy))
    fmt = "json" if flags["as_json"] else flags["fmt"]
    target = flags["report_path"]
    if flags["junit"]:
        write_atomic(flags["junit"], gate_junit(report))
    if flags["output"]:
        write_report(report, flags["output"])
        click.echo(f"decision written: {flags['output']}", err=True)
        target = target or (flags["output"].with_suffix(".md") if fmt != "json" else None)
    if target is not None and not flags["no_report"]:
        write_page(target, lambda: gate_html(report), lambda: gate_markdown(report, explain=True))
    text_options = {"explain": flags["explain"]}
    pages = {
        "markdown": lambda: gate_markdown(report, **text_options),
        "html": lambda: gate_html(report),
    }
    pages["text"] = lambda: gate_text(
        report, verbose=flags["verbose"], width=terminal_width(), **text_options
    )
    show(fmt, report.to_dict, pages)
    if flags["strict"]:
        sys.exit(report.verdict.exit_code)
