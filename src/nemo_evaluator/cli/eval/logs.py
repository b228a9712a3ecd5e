"""``nel eval logs``: show the log of a run."""

import click

from nemo_evaluator.cli.eval._select import with_run
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.executors.base import executor_of
from nemo_evaluator.store.runs import RunMeta


@click.command()
@with_run
@click.option("--follow", "-f", is_flag=True, help="Keep printing until the run ends.")
@click.option("--tail", "--lines", "-n", type=click.IntRange(1), metavar="N", help="Only the last N lines.")
def logs(run: RunMeta, follow: bool, tail: int | None) -> None:
    """Print the log of a run."""
    for line in executor_of(run.executor).logs(run, tail=tail, follow=follow):
        click.echo(harmless(line), nl=False)
