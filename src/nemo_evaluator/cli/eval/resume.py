"""``nel eval resume``: go on with a run that stopped."""

from __future__ import annotations

import os
from pathlib import Path

import click

from nemo_evaluator.cli.eval._select import run_selectors
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.executors.detach import running_pid
from nemo_evaluator.executors.run_here import RunRequest, run_local
from nemo_evaluator.store.runs import find_run


@click.command()
@run_selectors
@click.option("--background", is_flag=True, help="Run detached.")
@click.option("--json", "as_json", is_flag=True, help="Progress and result as JSON lines on stdout.")
@click.pass_context
def resume(ctx: click.Context, run_id: str | None, output_dir: str | None, background: bool, as_json: bool) -> None:
    """Run the config of an earlier run again with --resume: what it answered is reused."""
    meta = find_run(run_id, output_dir)
    if running_pid(meta) is not None:
        raise UsageError(f"run {meta.run_id} is still running", hint="`nel eval status` shows it")
    snapshot = Path(meta.output_dir) / "full_config.yaml"
    if not snapshot.is_file():
        raise UsageError(f"{snapshot} is gone", hint="run the original command with --resume instead")
    cwd = meta.details.get("cwd")
    if cwd and Path(cwd).is_dir():
        os.chdir(cwd)  # Relative paths in the config mean what they meant then.
    request = RunRequest(
        config_file=str(snapshot), output_dir=meta.output_dir, resume=True, background=background, as_json=as_json
    )
    ctx.exit(run_local(request))
