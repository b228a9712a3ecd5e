"""``nel kill``: stop a launcher run."""

from __future__ import annotations

import click

from nemo_evaluator.cli._complete import run_ids
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.executors.base import executor_of
from nemo_evaluator.launcher.jobs import find_jobs, run_of
from nemo_evaluator.store.runs import invocation_of


@click.command("kill")
@click.argument("which", metavar="ID", shell_complete=run_ids)
def kill(which: str) -> None:
    """Stop a run and all its jobs, and print what became of them as JSON; `nel resume` goes on with it."""
    run, number = run_of(which)
    invocation = invocation_of(run.run_id)
    if number is not None and len(find_jobs(invocation)) > 1:
        hint = f"nel kill {invocation} stops the run; leave a task out with: nel run --config FILE -t OTHER_TASK"
        raise UsageError("the jobs of a run share one process and cannot be stopped alone", hint=hint)
    executor_of(run.executor).stop(run)
    rows = [
        {"invocation": invocation, "job_id": job.job_id, "status": job.status.lower()} for job in find_jobs(invocation)
    ]
    click.echo(dumps(rows, indent=True).decode())
