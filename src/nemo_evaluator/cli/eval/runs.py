"""``nel eval runs``: list the runs of this user."""

from __future__ import annotations

from dataclasses import asdict

import click

from nemo_evaluator.core.files import dumps
from nemo_evaluator.executors.base import status_of
from nemo_evaluator.store.runs import list_runs

_CUT = 60


@click.command()
@click.option("--offline", is_flag=True, help="Skip checking whether they are running.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def runs(offline: bool, as_json: bool) -> None:
    """List runs, newest first."""
    found = list(list_runs())
    states = ["-" if offline else status_of(run).state for run in found]
    if as_json:
        rows = [asdict(run) | {"state": state} for run, state in zip(found, states, strict=True)]
        click.echo(dumps(rows).decode())
        return
    if not found:
        click.echo("No tracked runs.")
        return
    click.echo(f"{'RUN_ID':26} {'EXECUTOR':10} {'STATE':11} {'BENCHMARKS':30} OUTPUT_DIR")
    for run, state in zip(found, states, strict=True):
        folder = run.output_dir if len(run.output_dir) <= _CUT else "..." + run.output_dir[3 - _CUT :]
        click.echo(f"{run.run_id:26} {run.executor:10} {state:11} {run.config_summary[:28]:30} {folder}")
