"""``nel logs``: the logs of launcher runs."""

from __future__ import annotations

import click

from nemo_evaluator.cli._complete import run_ids
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.executors.base import executor_of
from nemo_evaluator.launcher.jobs import run_of
from nemo_evaluator.store.runs import invocation_of


@click.command("logs")
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=run_ids)
@click.option("--no-follow", is_flag=True, help="Print what there is and return; otherwise until the run ends.")
def logs(ids: tuple[str, ...], no_follow: bool) -> None:
    """Print the log of a run, local or on SLURM, one run after another; the jobs of a run share its log."""
    for run in {found.run_id: found for which in ids for found in [run_of(which)[0]]}.values():
        prefix = f"{invocation_of(run.run_id)[:6]} " if len(ids) > 1 else ""
        for line in executor_of(run.executor).logs(run, follow=not no_follow):
            click.echo(prefix + harmless(line), nl=False)
