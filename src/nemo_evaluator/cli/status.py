"""``nel status``: the jobs of launcher runs."""

from __future__ import annotations

import click

from nemo_evaluator.cli._complete import run_ids
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import harmless, table, terminal_width
from nemo_evaluator.launcher.jobs import find_jobs
from nemo_evaluator.store.runs import invocation_of


@click.command("status")
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=run_ids)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(ids: tuple[str, ...], as_json: bool) -> None:
    """Show the status of each job of a run. ID is an invocation id or a job id, or the beginning of one."""
    jobs = [job for which in ids for job in find_jobs(which)]
    if as_json:
        rows = [
            {"invocation": invocation_of(job.run.run_id), "job_id": job.job_id, "status": job.status.lower()}
            | {"progress": {"done": job.done, "total": job.total}, "data": {"output_dir": str(job.folder)}}
            for job in jobs
        ]
        click.echo(dumps(rows, indent=True).decode())
        return
    head = ("JOB ID", "STATUS", "SAMPLES", "EXECUTOR", "TASK")
    lines = [(job.job_id, job.status, f"{job.done}/{job.total or '?'}", job.run.executor, job.task) for job in jobs]
    # A path is not cut: it is there to be copied.
    places = dict.fromkeys(f"Location: {job.run.output_dir}" for job in jobs)
    click.echo(harmless("\n".join([*table([head, *lines], terminal_width(), narrow=(4,)), *places])))
