"""``nel check``: check a finished run for flaws."""

import sys
from collections import Counter
from pathlib import Path

import click

from nemo_evaluator.cli._options import PATH, echo_verdict, option
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import terminal_width
from nemo_evaluator.decisions.check.check_run import CheckLimits, check_path
from nemo_evaluator.decisions.check.findings import FailureClass, RunCheck, RunStatus
from nemo_evaluator.reports import _words as words
from nemo_evaluator.store.sums import MEND, damaged_files

_LIMITS = CheckLimits()
_SHARE = click.FloatRange(0, 1)


@click.command("check")
@click.argument("run", type=PATH)
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
def check(run: Path, as_json: bool, strict: bool, **limits: float) -> None:
    """Check every benchmark of a finished RUN: coverage, failures, accounting, truncation, and more.

    A share over its limit makes a run DEGRADED. Exit codes: 0 VALID, 2 DEGRADED, 3 INVALID, 1 nothing to
    check.
    """
    damage = damaged_files(run)
    if damage:
        raise UsageError("; ".join(damage), hint=MEND)
    checks = check_path(
        run, CheckLimits(**{name.removeprefix("max_"): limit for name, limit in limits.items()})
    )
    if not checks:
        hint = "give the output directory of a finished run"
        raise UsageError(f"no bundle (eval-*.json) under {run}: {FailureClass.CONFIG}", hint=hint)
    worst = max((run_check.status for run_check in checks), key=list(RunStatus).index)
    if as_json:
        click.echo(
            dumps(
                {"status": str(worst), "benchmarks": [run_check.to_dict() for run_check in checks]}
            )
        )
    else:
        counts = Counter(run_check.status for run_check in checks)
        counts_text = ", ".join(
            f"{counts[status]} {status}" for status in RunStatus if counts[status]
        )
        if len(checks) > 1:
            total_line = f"{len(checks)} benchmarks: {counts_text}\n"
        else:
            total_line = ""
        echo_verdict("".join(map(_text, checks)) + total_line)
    if strict or worst is RunStatus.INVALID:
        sys.exit(worst.exit_code)


def _text(one: RunCheck) -> str:
    """Render the findings of one benchmark as plain text."""
    if one.failure_class not in (None, FailureClass.UNKNOWN):
        failure_text = f" ({one.failure_class})"
    else:
        failure_text = ""
    problem_count = words.counted(one.problems, "problem")
    width = terminal_width()
    problem_count += f" in {one.rows:,} rows" if one.rows != one.problems else ""
    lines = words.wrapped(
        f"{one.status}  {one.benchmark}{failure_text}: {problem_count}, {one.run_id or one.path}",
        "",
        width=width,
    )
    for finding in one.findings:
        finding_text = f"{finding.check}: {finding.message}".replace("\n", " ")
        lines += words.wrapped(finding_text, mark=f"{finding.level:<8}  ", width=width)
    return words.printable("\n".join(lines)) + "\n"
