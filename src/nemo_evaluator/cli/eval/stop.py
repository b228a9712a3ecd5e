"""``nel eval stop``: stop a run; nothing is lost."""

import click

from nemo_evaluator.cli.eval._select import with_run
from nemo_evaluator.core.files import dumps
from nemo_evaluator.executors.base import executor_of
from nemo_evaluator.executors.status import describe, read_status
from nemo_evaluator.store.runs import RunMeta


@click.command()
@with_run
@click.option("--json", "as_json", is_flag=True, help="The run's status afterwards, as JSON.")
def stop(run: RunMeta, as_json: bool) -> None:
    """Ask a running evaluation to close cleanly, and wait until it has."""
    executor_of(run.executor).stop(run)
    status = read_status(run)
    click.echo(dumps(status).decode() if as_json else describe(status))
