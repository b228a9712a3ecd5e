"""``nel eval status``: how a run is doing."""

from __future__ import annotations

import time

import click

from nemo_evaluator.cli.eval._select import run_selectors
from nemo_evaluator.core.files import dumps
from nemo_evaluator.executors.status import describe_status, status_of
from nemo_evaluator.store.runs import find_run


@click.command()
@run_selectors
@click.option("--watch", "-w", is_flag=True, help="Refresh until the run ends.")
@click.option("--interval", default=5.0, show_default=True, help="Seconds between looks with --watch.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(run_id: str | None, output_dir: str | None, watch: bool, interval: float, as_json: bool) -> None:
    """Show the state of a run and of each of its benchmarks."""
    while True:
        state = status_of(find_run(run_id, output_dir))
        click.echo(dumps(state).decode() if as_json else describe_status(state))
        if not watch or not state["running"]:
            return
        time.sleep(interval)
        if not as_json:
            click.clear()
