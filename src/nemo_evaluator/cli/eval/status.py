"""``nel eval status``: how a run is doing."""

import time

import click

from nemo_evaluator.cli.eval._select import with_run
from nemo_evaluator.core.files import dumps
from nemo_evaluator.executors.status import describe, read_status
from nemo_evaluator.store.runs import RunMeta


@click.command()
@with_run
@click.option("--watch", "-w", is_flag=True, help="Refresh until the run ends.")
@click.option("--interval", default=5.0, show_default=True, help="Seconds between refreshes with --watch.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(run: RunMeta, watch: bool, interval: float, as_json: bool) -> None:
    """Show the state of a run and of each of its benchmarks: done and total, rate, time left."""
    while True:
        state = read_status(run)
        click.echo(dumps(state).decode() if as_json else describe(state))
        if not watch or not state.running:
            return
        time.sleep(interval)
        if not as_json:
            click.clear()
