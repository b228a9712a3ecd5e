"""``nel check``: check a finished run for flaws."""

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click

from nemo_evaluator.cli._options import PATH, echo_verdict, option, run_ids
from nemo_evaluator.cli._runs import folder_of
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import terminal_width
from nemo_evaluator.decisions.check.check_run import check_path
from nemo_evaluator.decisions.check.checked_run import CheckLimits
from nemo_evaluator.decisions.check.findings import FailureClass, RunCheck, RunStatus
from nemo_evaluator.reports import _words as words
from nemo_evaluator.store.sums import MEND, damaged_files

_LIMITS = CheckLimits()
_SHARE = click.FloatRange(0, 1)


@click.command("check")
@click.argument("run", type=PATH, shell_complete=run_ids)
@option("--max-failed", type=_SHARE, default=_LIMITS.failed, help="Maximum share of failed rows.")
@option(
    "--max-truncated",
    type=_SHARE,
    default=_LIMITS.truncated,
    help="Maximum share of truncated answers, of prompts over the context, and of tasks out of budget.",
)
@option(
    "--max-unparsed",
    type=_SHARE,
    default=_LIMITS.unparsed,
    help="Maximum share of unparsed answers, and of empty answers.",
)
@option("--max-refusals", type=_SHARE, default=_LIMITS.refusals, help="Maximum share of refusals.")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
@option("--strict/--no-strict", default=True, help="Exit with 2 on DEGRADED, or with 0.")
def check(
    run: Path,
    max_failed: float,
    max_truncated: float,
    max_unparsed: float,
    max_refusals: float,
    as_json: bool,
    strict: bool,
) -> None:
    """Check every benchmark of a finished RUN: coverage, failures, accounting, truncation, and more.

    RUN is a folder, a run id or a job id. A share over its limit makes a run DEGRADED. Exit codes: 0 VALID,
    2 DEGRADED, 3 INVALID, 1 nothing to check.
    """
    run = folder_of(run)
    damage = damaged_files(run)
    if damage:
        raise UsageError("; ".join(damage), hint=MEND)
    limits = CheckLimits(
        failed=max_failed,
        truncated=max_truncated,
        unparsed=max_unparsed,
        refusals=max_refusals,
    )
    checks = check_path(run, limits)
    if not checks:
        hint = "give the output directory of a finished run"
        raise UsageError(f"no bundle (eval-*.json) under {run}: {FailureClass.CONFIG}", hint=hint)
    statuses = [run_check.status for run_check in checks]
    worst = max(statuses, key=list(RunStatus).index)
    if as_json:
        documents = [run_check.to_dict() for run_check in checks]
        click.echo(dumps({"status": str(worst), "benchmarks": documents}))
    else:
        text = "".join(map(_text, checks))
        if len(checks) > 1:
            text += f"{len(checks)} benchmarks: {_counts_text(statuses)}\n"
        echo_verdict(text)
    if strict or worst is RunStatus.INVALID:
        sys.exit(worst.exit_code)


def _counts_text(statuses: Iterable[RunStatus]) -> str:
    """Render how many benchmarks have each status."""
    counts = Counter(statuses)
    return ", ".join(f"{counts[status]} {status}" for status in RunStatus if counts[status])


def _text(run_check: RunCheck) -> str:
    """Render the findings of one benchmark as plain text."""
    headline = f"{run_check.status}  {run_check.benchmark}"
    if run_check.failure_class not in (None, FailureClass.UNKNOWN):
        headline += f" ({run_check.failure_class})"
    headline += f": {words.counted(run_check.problems, 'problem')}"
    if run_check.rows != run_check.problems:
        headline += f" in {run_check.rows:,} rows"
    headline += f", {run_check.run_id or run_check.path}"
    width = terminal_width()
    lines = words.wrapped(headline, "", width=width)
    for finding in run_check.findings:
        finding_text = f"{finding.check}: {finding.message}".replace("\n", " ")
        lines += words.wrapped(finding_text, mark=f"{finding.level:<8}  ", width=width)
    return words.printable("\n".join(lines)) + "\n"
