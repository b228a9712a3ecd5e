"""``nel gate``: may the candidate be released under a policy?"""

import sys
from pathlib import Path
from typing import Any

import click

from nemo_evaluator.cli._verdict import FORMATS, echo_verdict, terminal_width
from nemo_evaluator.config.gate_policy import load_gate_policy
from nemo_evaluator.core.files import dumps, write_atomic
from nemo_evaluator.decisions.gate.report import GateReport, write_gate_report
from nemo_evaluator.decisions.gate.runs import gate_runs
from nemo_evaluator.reports.gate import gate_html, gate_junit, gate_markdown, gate_text


@click.command("gate")
@click.argument("baseline", type=click.Path(path_type=Path))
@click.argument("candidate", type=click.Path(path_type=Path))
@click.option("--policy", "-p", required=True, type=click.Path(path_type=Path), help="The policy, a YAML file.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write it as JSON, and as .md beside that.")
@click.option("--format", "fmt", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@click.option("--strict/--no-strict", default=True, show_default=True, help="Exit 1 on NO-GO, 2 on INCONCLUSIVE.")
@click.option("--verbose", is_flag=True, help="With every warning by benchmark, and the terms.")
@click.option("--explain", is_flag=True, help="Say, per open benchmark, how much more data would settle it.")
@click.option("--report", "report_path", type=click.Path(path_type=Path), help="Write the decision, as .md or .html.")
@click.option("--junit", type=click.Path(path_type=Path), help="Write the decision as JUnit XML, for CI.")
@click.option("--no-report", is_flag=True, help="Write no report.")
def gate(baseline: Path, candidate: Path, policy: Path, **flags: Any) -> None:
    """Decide GO, NO-GO or INCONCLUSIVE for a CANDIDATE against a BASELINE.

    Both are folders of benchmarks, or bundles. Exit codes: 0 GO, 1 NO-GO, 2 INCONCLUSIVE; 1 for a bad policy or path.
    """
    report = gate_runs(baseline, candidate, load_gate_policy(policy))
    fmt = "json" if flags["as_json"] else flags["fmt"]
    _write(report, fmt, flags)
    if fmt == "json":
        click.echo(dumps(report.to_dict()))
    elif fmt == "markdown":
        click.echo(gate_markdown(report, explain=flags["explain"]), nl=False)
    elif fmt == "html":
        click.echo(gate_html(report), nl=False)
    else:
        text = gate_text(report, verbose=flags["verbose"], explain=flags["explain"], width=terminal_width())
        echo_verdict(text)
    if flags["strict"]:
        sys.exit(report.verdict.exit_code)


def _write(report: GateReport, fmt: str, flags: dict[str, Any]) -> None:
    target: Path | None = flags["report_path"]
    if flags["junit"]:
        write_atomic(flags["junit"], gate_junit(report))
    if flags["output"]:
        write_gate_report(report, flags["output"])
        click.echo(f"decision written: {flags['output']}", err=True)
        if target is None and fmt != "json":
            target = flags["output"].with_suffix(".md")
    if target is not None and not flags["no_report"]:
        page = target.suffix.lower() in (".html", ".htm")
        write_atomic(target, gate_html(report) if page else gate_markdown(report, explain=True))
        click.echo(f"report written: {target}", err=True)
