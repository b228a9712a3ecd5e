"""``nel status``, ``info``, ``logs``, ``kill`` and ``ls``: launcher runs, their jobs and files, and tasks."""

import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from nemo_evaluator.cli._options import PATH, option, run_ids, show_table
from nemo_evaluator.config import SNAPSHOT
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import harmless, table, terminal_width
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.executors.base import executor_of
from nemo_evaluator.launcher.catalogue import Task, catalogue, find_task
from nemo_evaluator.launcher.jobs import LauncherJob, find_jobs, run_of
from nemo_evaluator.runs.overview import overview
from nemo_evaluator.store.layout import LOG
from nemo_evaluator.store.run_registry import invocation_of, list_runs, registry_dir


@click.command("status")
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=run_ids)
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def status(ids: tuple[str, ...], as_json: bool) -> None:
    """Show the status of each job of a run. ID is an invocation id or a job id, or the beginning of one."""
    jobs: list[LauncherJob] = []
    for identifier in ids:
        for job in find_jobs(identifier):
            jobs.append(job)
    if as_json:
        progress_entries: list[dict[str, object]] = []
        for listed_job in jobs:
            progress_entries.append(
                {
                    "progress": {"done": listed_job.done, "total": listed_job.total},
                    "data": {"output_dir": str(listed_job.folder)},
                }
            )
        rows = [
            _state(job) | progress for job, progress in zip(jobs, progress_entries, strict=True)
        ]
        click.echo(dumps(rows, indent=True).decode())
        return
    header = ("JOB ID", "STATUS", "SAMPLES", "EXECUTOR", "TASK")
    lines: list[tuple[str, str, str, str, str]] = []
    for job in jobs:
        lines.append(
            (job.job_id, job.status, f"{job.done}/{job.total or '?'}", job.run.executor, job.task)
        )
    # Paths are not shortened, because people copy them.
    show_table(
        [header, *lines],
        narrow=(4,),
        more=dict.fromkeys(f"Location: {job.run.output_dir}" for job in jobs),
    )


def _state(job: LauncherJob) -> JsonDict:
    """Return the status of a job as JSON data."""
    return {
        "invocation": invocation_of(job.run.run_id),
        "job_id": job.job_id,
        "status": job.status.lower(),
    }


@click.command("info")
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=run_ids)
@option("--config", "show_config", is_flag=True, help="Print the config of the run.")
@option("--artifacts", is_flag=True, help="Print only the folder of the artifacts.")
@option("--logs", is_flag=True, help="Print only the folder of the logs.")
@option("--copy-logs", metavar="DIR", type=PATH, help="Copy the logs to DIR.")
@option("--copy-artifacts", metavar="DIR", type=PATH, help="Copy the artifacts to DIR.")
def info(
    ids: tuple[str, ...],
    show_config: bool,
    artifacts: bool,
    logs: bool,
    copy_logs: Path | None,
    copy_artifacts: Path | None,
) -> None:
    """Show facts about a run and where its files are. ID is an invocation id or a job id."""
    for job in (job for identifier in ids for job in find_jobs(identifier)):
        root = Path(job.run.output_dir)
        if show_config:
            config_file = (registry_dir() / job.run.run_id if job.run.remote else root) / SNAPSHOT
            click.echo(
                config_file.read_text(encoding="utf-8")
                if config_file.is_file()
                else f"# {config_file} does not exist yet"
            )
        elif artifacts or logs:
            # Servers and cluster jobs have logs of their own; other runs have only the log of the run.
            log_folder = root / "logs"
            if not logs:
                path = job.folder
            elif job.run.remote or log_folder.is_dir():
                path = log_folder
            else:
                path = root / LOG
            click.echo(f"{job.job_id}: {_shown(job, path)}")
        elif copy_logs is None and copy_artifacts is None:
            _describe(job)
        for source, target in (
            (root / "logs", copy_logs),
            (root / LOG, copy_logs),
            (job.folder, copy_artifacts),
        ):
            if target is not None:
                _copy(job, source, target / job.job_id)


def _describe(job: LauncherJob) -> None:
    """Print the facts of a job."""
    root = Path(job.run.output_dir)
    facts = {
        "executor": job.run.executor,
        "created": job.run.started_at,
        "task": job.task,
        "status": job.status,
    }
    paths_by_label = {"artifacts": job.folder, "log": root / LOG, "logs of servers": root / "logs"}
    facts |= {name: _shown(job, path) for name, path in paths_by_label.items()}
    slurm_job_ids = job.run.details.get("job_ids")
    if slurm_job_ids:
        facts["slurm job"] = ", ".join(map(str, slurm_job_ids))
    click.echo("\n".join([job.job_id, *(f"  {name}: {value}" for name, value in facts.items())]))


def _shown(job: LauncherJob, path: Path) -> str:
    """Describe a path of a job's files, and whether it exists."""
    if job.run.remote:
        user = job.run.details.get("username")
        return f"ssh://{f'{user}@' if user else ''}{job.run.details['hostname']}{path} (remote)"
    return f"{path} ({'exists' if path.exists() else 'not found'})"


def _copy(job: LauncherJob, source: Path, target: Path) -> None:
    """Copy a file or folder of a job; files of a remote run are refused."""
    if job.run.remote:
        host = job.run.details["hostname"]
        raise UsageError(
            f"the files of {job.job_id} are on {host}", hint=f"rsync -a {host}:{source} {target}"
        )
    if source.is_dir():
        shutil.copytree(source, target / source.name, dirs_exist_ok=True)
    elif source.is_file():
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    click.echo(f"{job.job_id}: {source} -> {target}")


@click.command("logs")
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=run_ids)
@option(
    "--no-follow",
    is_flag=True,
    help="Print the log so far and exit [default: follow until the run ends].",
)
def logs(ids: tuple[str, ...], no_follow: bool) -> None:
    """Print the logs of runs, local or on SLURM, one after another. The jobs of a run share one log."""
    for run in {
        named_run.run_id: named_run for identifier in ids for named_run in [run_of(identifier)[0]]
    }.values():
        if len(ids) > 1:
            prefix = f"{invocation_of(run.run_id)[:6]} "
        else:
            prefix = ""
        for line in executor_of(run.executor).logs(run, follow=not no_follow):
            click.echo(prefix + harmless(line), nl=False)


@click.command("kill")
@click.argument("which", metavar="ID", shell_complete=run_ids)
def kill(which: str) -> None:
    """Stop a run and all its jobs, and print their status as JSON. `nel resume` continues the run."""
    run, number = run_of(which)
    invocation = invocation_of(run.run_id)
    if number is not None and len(find_jobs(invocation)) > 1:
        hint = f"nel kill {invocation} stops the run; leave a task out with: nel run --config FILE -t OTHER_TASK"
        raise UsageError(
            "the jobs of a run share one process and cannot be stopped alone", hint=hint
        )
    executor_of(run.executor).stop(run)
    click.echo(dumps([_state(job) for job in find_jobs(invocation)], indent=True).decode())


@click.group("ls", invoke_without_command=True)
@click.pass_context
def ls(ctx: click.Context) -> None:
    """List the launcher's tasks (`nel ls tasks`), or runs (`nel ls runs`)."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(tasks, as_json=False)


@ls.command("tasks")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def tasks(as_json: bool) -> None:
    """List the launcher's tasks by harness, each with the nel benchmark that replaces it."""
    if as_json:
        click.echo(
            dumps(
                {"tasks": [_facts(listed_task) for listed_task in catalogue()]}, indent=True
            ).decode()
        )
        return
    header = ("TASK", "ENDPOINT", "RUNS AS", "NEEDS")
    rows: list[tuple[str, str, str, str]] = []
    for listed_task in catalogue():
        rows.append(
            (
                listed_task.name,
                listed_task.endpoint,
                listed_task.nel or "its container only",
                "".join(need[0].upper() for need in listed_task.needs),
            )
        )
    header_line, *lines = table([header, *rows], terminal_width(), narrow=(2, 0))
    click.echo(header_line)
    for index, (listed_task, line) in enumerate(zip(catalogue(), lines, strict=True)):
        if not index or listed_task.harness != catalogue()[index - 1].harness:
            click.echo(f"\n{listed_task.harness}\n{listed_task.image}")
        click.echo(line)
    click.echo("\nNEEDS: J judge, S sandbox for code, G gated dataset (HF_TOKEN), L logprobs.")
    click.echo("A name with * or ?? stands for several tasks. Details: nel ls task HARNESS.NAME")


@ls.command("task")
@click.argument("name")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def task(name: str, as_json: bool) -> None:
    """Show one task: harness, container, defaults, and the nel benchmark that replaces it."""
    facts = _facts(find_task(name))
    lines = [f"{key}: {value}" for key, value in facts.items()]
    click.echo(dumps(facts, indent=True).decode() if as_json else "\n".join(lines))


@ls.command("runs")
@option("--limit", type=click.IntRange(1), metavar="N", help="List at most N runs.")
@option("--executor", metavar="NAME", help="List only runs of this executor.")
@option("--since", metavar="DATE|Nd|Nh", help="List only runs started since this time.")
def runs(limit: int | None, executor: str | None, since: str | None) -> None:
    """List runs, newest first; `nel eval runs` shows their scores as well."""
    matching_runs = [
        run
        for run in list_runs()
        if executor in (None, run.executor) and _is_recent(run.started_at, since)
    ]
    rows: list[tuple[str, str, str, str, str]] = []
    for run in matching_runs[:limit]:
        for jobs in [
            run.details.get("benchmarks")
            or [benchmark_line.name for benchmark_line in overview(run)]
        ]:
            rows.append(
                (
                    invocation_of(run.run_id),
                    run.started_at[:19],
                    str(len(jobs)),
                    run.executor,
                    ", ".join(jobs),
                )
            )
    if not rows:
        click.echo("No runs.")
        return
    show_table([("INVOCATION", "STARTED", "JOBS", "EXECUTOR", "BENCHMARKS"), *rows])


def _facts(one: Task) -> JsonDict:
    """Return the facts of a task as JSON data."""
    facts: JsonDict = {
        "task": one.name,
        "harness": one.harness,
        "endpoint_type": one.endpoint,
        "container": one.image,
    }
    return facts | {"nel": one.nel, "needs": list(one.needs), "defaults": dict(one.defaults)}


def _is_recent(started: str, since: str | None) -> bool:
    """Return whether a run was started since a time, which may be a date or an age."""
    if since is None:
        return True
    try:
        age_match = re.fullmatch(r"(\d+)([dh])", since)
        units = {"d": timedelta(days=1), "h": timedelta(hours=1)}
        if age_match:
            earliest = datetime.now(UTC) - int(age_match[1]) * units[age_match[2]]
        else:
            earliest = datetime.fromisoformat(since)
    except ValueError as error:
        raise UsageError(
            f"--since {since} is not a valid time",
            hint="write 2026-01-31, 2026-01-31T12:00, 7d or 12h",
        ) from error
    return datetime.fromisoformat(started) >= (
        earliest if earliest.tzinfo else earliest.replace(tzinfo=UTC)
    )
