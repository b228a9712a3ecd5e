"""``nel eval resume``: go on with a run that stopped."""

from __future__ import annotations

from pathlib import Path

import click

from nemo_evaluator.cli.eval._select import run_selectors
from nemo_evaluator.config import SNAPSHOT
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.executors.run_here import RunRequest, run_local
from nemo_evaluator.store.lock import ensure_free
from nemo_evaluator.store.runs import find_run
from nemo_evaluator.store.sums import altered


@click.command()
@run_selectors
@click.option("--background", is_flag=True, help="Run detached.")
@click.option("--json", "as_json", is_flag=True, help="Progress and result as JSON lines on stdout.")
@click.pass_context
def resume(ctx: click.Context, run_id: str | None, output_dir: str | None, background: bool, as_json: bool) -> None:
    """Run the config of an earlier run again with --resume: what it answered is reused."""
    meta = find_run(run_id, output_dir)
    folder = Path(meta.output_dir)
    ensure_free(folder)
    snapshot = folder / SNAPSHOT
    if not snapshot.is_file():
        raise UsageError(f"{snapshot} is gone", hint="run the original command with --resume instead")
    if altered(snapshot):
        hint = f"if the change was meant: nel eval run {snapshot} --resume"
        raise UsageError(f"{snapshot} is damaged, or was changed since the run", hint=hint)
    request = RunRequest(
        config_file=str(snapshot),
        resume=True,
        background=background,
        as_json=as_json,
        words=("eval", "resume", "-o", str(folder), *(["--json"] if as_json else [])),
    )
    ctx.exit(run_local(request))
