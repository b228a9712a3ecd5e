"""``nel info``: where the files of a launcher run are."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from nemo_evaluator.cli._complete import run_ids
from nemo_evaluator.config import SNAPSHOT
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.launcher.jobs import Job, find_jobs
from nemo_evaluator.store.layout import LOG
from nemo_evaluator.store.runs import registry_dir


@click.command("info")
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=run_ids)
@click.option("--config", "show_config", is_flag=True, help="Print the config of the run.")
@click.option("--artifacts", is_flag=True, help="Print only where the artifacts are.")
@click.option("--logs", is_flag=True, help="Print only where the logs are.")
@click.option("--copy-logs", metavar="DIR", type=click.Path(path_type=Path), help="Copy the logs.")
@click.option("--copy-artifacts", metavar="DIR", type=click.Path(path_type=Path), help="Copy the artifacts.")
def info(
    ids: tuple[str, ...],
    show_config: bool,
    artifacts: bool,
    logs: bool,
    copy_logs: Path | None,
    copy_artifacts: Path | None,
) -> None:
    """Show what is known of a run and where its files are. ID is an invocation id or a job id."""
    for job in (job for which in ids for job in find_jobs(which)):
        root = Path(job.run.output_dir)
        if show_config:
            kept = (registry_dir() / job.run.run_id if job.run.remote else root) / SNAPSHOT
            click.echo(kept.read_text(encoding="utf-8") if kept.is_file() else f"# {kept} is not there yet")
        elif artifacts or logs:
            # Servers and jobs of a cluster have logs of their own; a run without them has only its own.
            apart = root / "logs"
            place = job.folder if not logs else apart if job.run.remote or apart.is_dir() else root / LOG
            click.echo(f"{job.job_id}: {_shown(job, place)}")
        elif copy_logs is None and copy_artifacts is None:
            _describe(job)
        for source, target in ((root / "logs", copy_logs), (root / LOG, copy_logs), (job.folder, copy_artifacts)):
            if target is not None:
                _copy(job, source, target / job.job_id)


def _describe(job: Job) -> None:
    root = Path(job.run.output_dir)
    facts = {"executor": job.run.executor, "created": job.run.started_at, "task": job.task, "status": job.status}
    places = {"artifacts": job.folder, "log": root / LOG, "logs of servers": root / "logs"}
    facts |= {name: _shown(job, path) for name, path in places.items()}
    if slurm := job.run.details.get("job_ids"):
        facts["slurm job"] = ", ".join(map(str, slurm))
    click.echo("\n".join([job.job_id, *(f"  {name}: {value}" for name, value in facts.items())]))


def _shown(job: Job, path: Path) -> str:
    if job.run.remote:
        user = job.run.details.get("username")
        return f"ssh://{f'{user}@' if user else ''}{job.run.details['hostname']}{path} (remote)"
    return f"{path} ({'exists' if path.exists() else 'not found'})"


def _copy(job: Job, source: Path, target: Path) -> None:
    if job.run.remote:
        host = job.run.details["hostname"]
        raise UsageError(f"the files of {job.job_id} are on {host}", hint=f"rsync -a {host}:{source} {target}")
    if source.is_dir():
        shutil.copytree(source, target / source.name, dirs_exist_ok=True)
    elif source.is_file():
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    click.echo(f"{job.job_id}: {source} -> {target}")
