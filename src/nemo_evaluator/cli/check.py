"""``nel check``: is a finished run fit to be used?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nemo_evaluator.cli._verdict import echo_verdict
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.decisions.check import CheckLimits, check_path
from nemo_evaluator.decisions.findings import FailureClass, RunStatus
from nemo_evaluator.reports.check import check_text

_DEFAULTS = CheckLimits()


@click.command("check")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--max-truncated", type=click.FloatRange(0, 1), default=_DEFAULTS.truncated, show_default=True)
@click.option("--max-unparsed", type=click.FloatRange(0, 1), default=_DEFAULTS.unparsed, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.option("--strict/--no-strict", default=True, show_default=True, help="Exit 2 on DEGRADED, or 0.")
def check(run: Path, max_truncated: float, max_unparsed: float, as_json: bool, strict: bool) -> None:
    """Check every benchmark of a finished RUN: coverage, failures, accounting, truncation, and more.

    Exit codes: 0 VALID, 2 DEGRADED, 3 INVALID, 1 when there is nothing to check.
    """
    checks = check_path(run, CheckLimits(truncated=max_truncated, unparsed=max_unparsed))
    if not checks:
        raise UsageError(
            f"no bundle (eval-*.json) under {run}: {FailureClass.CONFIG}",
            hint="give the output directory of a finished run",
        )
    worst = max((one.status for one in checks), key=list(RunStatus).index)
    if as_json:
        click.echo(dumps({"status": str(worst), "benchmarks": [one.to_dict() for one in checks]}))
    else:
        echo_verdict("".join(check_text(one) for one in checks))
    if strict or worst is RunStatus.INVALID:
        sys.exit(worst.exit_code)
