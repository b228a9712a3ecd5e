"""``nel gate``: decide whether a candidate may be released."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from nemo_evaluator.cli._options import PATH, option, say
from nemo_evaluator.cli.compare import FORMATS, show, write_page
from nemo_evaluator.config.gate_policy import load_gate_policy
from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.core.terminal import terminal_width
from nemo_evaluator.decisions.compare.report import write_report
from nemo_evaluator.decisions.gate.gate_runs import gate_runs
from nemo_evaluator.decisions.gate.report import GateReport
from nemo_evaluator.reports.gate import gate_html, gate_junit, gate_markdown, gate_text


@dataclass(frozen=True, slots=True)
class _GateFlags:
    """The options of ``nel gate``, by the names that click gives them; their help texts describe them."""

    output: Path | None
    fmt: str
    as_json: bool
    strict: bool
    verbose: bool
    explain: bool
    report_path: Path | None
    junit: Path | None
    no_report: bool

    @property
    def format(self) -> str:
        """The format of the output, which is JSON with ``--json``."""
        if self.as_json:
            return "json"
        return self.fmt

    @property
    def page(self) -> Path | None:
        """The file for the report: the named one, or one next to ``--output`` unless the output is JSON."""
        if self.no_report:
            return None
        if self.report_path is None and self.output is not None and self.format != "json":
            return self.output.with_suffix(".md")
        return self.report_path


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
    options = _GateFlags(**flags)
    report = gate_runs(baseline, candidate, load_gate_policy(policy))
    _write_files(report, options)
    pages = {
        "markdown": lambda: gate_markdown(report, explain=options.explain),
        "html": lambda: gate_html(report),
        "text": lambda: gate_text(
            report,
            verbose=options.verbose,
            explain=options.explain,
            width=terminal_width(),
        ),
    }
    show(options.format, report.to_dict, pages)
    if options.strict:
        sys.exit(report.verdict.exit_code)


def _write_files(report: GateReport, options: _GateFlags) -> None:
    """Write the files that the options name."""
    if options.junit is not None:
        write_atomic(options.junit, gate_junit(report))
    if options.output is not None:
        write_report(report, options.output)
        say(f"decision written: {options.output}")
    if options.page is not None:
        write_page(
            options.page, lambda: gate_html(report), lambda: gate_markdown(report, explain=True)
        )
