"""``nel eval status``: how a run is doing."""

import time
from pathlib import Path

import click

from nemo_evaluator.cli.eval._select import with_run
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.executors.status import describe, read_status
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.runs import RunMeta


@click.command()
@with_run
@click.option("--watch", "-w", is_flag=True, help="Refresh until the run ends.")
@click.option("--interval", default=5.0, show_default=True, help="Seconds between refreshes with --watch.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(run: RunMeta, watch: bool, interval: float, as_json: bool) -> None:
    """Show the state of a run and of each of its benchmarks: done and total, rate, time left.

    Of a run that left batches with a vendor, the vendor is asked how they stand.
    """
    while True:
        state = read_status(run)
        folders = [TaskPaths(Path(state.output_dir) / one.name) for one in state.benchmarks]
        if not state.running and any(folder.batches.is_dir() for folder in folders):
            # Loaded only here: asking takes the config and the HTTP client, which a look at numbers does without.
            state = load_object("nemo_evaluator.executors.left_batches:ask_vendors")(run, state)
        click.echo(dumps(state).decode() if as_json else describe(state))
        if not watch or not state.running:
            return
        time.sleep(interval)
        if not as_json:
            click.clear()
