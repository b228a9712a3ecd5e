"""``nel eval stop``: stop a run; nothing is lost."""

from __future__ import annotations

import click

from nemo_evaluator.cli.eval._select import run_selectors
from nemo_evaluator.executors.detach import stop as stop_run
from nemo_evaluator.store.runs import find_run


@click.command()
@run_selectors
def stop(run_id: str | None, output_dir: str | None) -> None:
    """Ask a running evaluation to close cleanly, and wait until it has."""
    click.echo(stop_run(find_run(run_id, output_dir)))
