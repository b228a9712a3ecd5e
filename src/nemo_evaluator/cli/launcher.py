"""``nel status``, ``info``, ``logs``, ``kill`` and ``ls``: launcher runs, their jobs and files, and tasks."""

import re
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click

from nemo_evaluator.cli._options import PATH, option, run_ids, show_table
from nemo_evaluator.config import SNAPSHOT
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import harmless, table, terminal_width
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.executors.base import executor_of
from nemo_evaluator.launcher.catalogue import Task, catalogue, find_task
from nemo_evaluator.launcher.defaults import without_unset
from nemo_evaluator.launcher.jobs import LauncherJob, find_jobs, run_of
from nemo_evaluator.launcher.routes import choose_route, native_route, needs_of
from nemo_evaluator.runs.overview import overview
from nemo_evaluator.store.layout import LOG
from nemo_evaluator.store.run_registry import RunMeta, invocation_of, list_runs, registry_dir

_AGES: Final = {"d": timedelta(days=1), "h": timedelta(hours=1)}


@click.command("status")
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=run_ids)
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def status(ids: tuple[str, ...], as_json: bool) -> None:
    """Show the status of each job of a run. ID is an invocation id or a job id, or the beginning of one."""
    jobs = _jobs_of(ids)
    if as_json:
        documents: list[JsonDict] = []
        for job in jobs:
            document = _state(job)
            document["progress"] = {"done": job.done, "total": job.total}
            document["data"] = {"output_dir": str(job.folder)}
            documents.append(document)
        click.echo(dumps(documents, indent=True).decode())
        return
    rows = [("JOB ID", "STATUS", "SAMPLES", "EXECUTOR", "TASK")]
    for job in jobs:
        samples = f"{job.done}/{job.total or '?'}"
        rows.append((job.job_id, job.status, samples, job.run.executor, job.task))
    locations = dict.fromkeys(f"Location: {job.run.output_dir}" for job in jobs)
    # Paths are not shortened, because people copy them.
    show_table(rows, narrow=(4,), more=locations)


def _jobs_of(ids: Iterable[str]) -> list[LauncherJob]:
    """Find the jobs that several ids name, in the order of the ids."""
    jobs: list[LauncherJob] = []
    for identifier in ids:
        jobs.extend(find_jobs(identifier))
    return jobs


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
    for job in _jobs_of(ids):
        if show_config:
            _print_config(job)
        elif artifacts or logs:
            path = _log_path(job) if logs else job.folder
            click.echo(f"{job.job_id}: {_shown(job, path)}")
        elif copy_logs is None and copy_artifacts is None:
            _describe(job)
        root = Path(job.run.output_dir)
        if copy_logs is not None:
            _copy(job, root / "logs", copy_logs / job.job_id)
            _copy(job, root / LOG, copy_logs / job.job_id)
        if copy_artifacts is not None:
            _copy(job, job.folder, copy_artifacts / job.job_id)


def _print_config(job: LauncherJob) -> None:
    """Print the config of a job's run, or that it does not exist yet."""
    folder = Path(job.run.output_dir)
    if job.run.remote:
        folder = registry_dir() / job.run.run_id
    config_file = folder / SNAPSHOT
    if config_file.is_file():
        click.echo(config_file.read_text(encoding="utf-8"))
    else:
        click.echo(f"# {config_file} does not exist yet")


def _log_path(job: LauncherJob) -> Path:
    """Return the folder of the logs; a run without servers and cluster jobs has its only log in its own folder."""
    root = Path(job.run.output_dir)
    log_folder = root / "logs"
    if job.run.remote or log_folder.is_dir():
        return log_folder
    return root


def _describe(job: LauncherJob) -> None:
    """Print the facts of a job."""
    root = Path(job.run.output_dir)
    facts = {
        "executor": job.run.executor,
        "created": job.run.started_at,
        "task": job.task,
        "status": job.status,
        "artifacts": _shown(job, job.folder),
        "log": _shown(job, root / LOG),
        "logs of servers": _shown(job, root / "logs"),
    }
    slurm_job_ids = job.run.details.get("job_ids")
    if slurm_job_ids:
        facts["slurm job"] = ", ".join(map(str, slurm_job_ids))
    click.echo(job.job_id)
    for name, value in facts.items():
        click.echo(f"  {name}: {value}")


def _shown(job: LauncherJob, path: Path) -> str:
    """Describe a path of a job's files, and whether it exists."""
    if job.run.remote:
        host = job.run.details["hostname"]
        user = job.run.details.get("username")
        if user:
            host = f"{user}@{host}"
        return f"ssh://{host}{path} (remote)"
    existence = "exists" if path.exists() else "not found"
    return f"{path} ({existence})"


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
    run_of_id: dict[str, RunMeta] = {}
    for identifier in ids:
        run, _ = run_of(identifier)
        run_of_id[run.run_id] = run
    for run in run_of_id.values():
        prefix = ""
        if len(ids) > 1:
            prefix = f"{invocation_of(run.run_id)[:6]} "
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
    """List the launcher's tasks by harness, and how `nel run` runs each: with lm-eval, or in its container.

    With --native, `nel run` runs nel's own benchmark instead, if there is one.
    """
    all_tasks = catalogue()
    if as_json:
        documents = [_task_document(listed_task) for listed_task in all_tasks]
        click.echo(dumps({"tasks": documents}, indent=True).decode())
        return
    rows = [("TASK", "ENDPOINT", "RUNS AS", "--native", "NEEDS")]
    for listed_task in all_tasks:
        route = choose_route(listed_task)
        replacement = native_route(listed_task)
        native_name = replacement.benchmark if replacement is not None else "-"
        needs = "".join(need[0].upper() for need in needs_of(listed_task))
        row = (listed_task.name, listed_task.endpoint, route.kind, native_name, needs)
        rows.append(row)
    header_line, *lines = table(rows, terminal_width(), narrow=(3, 0))
    click.echo(header_line)
    harness = None
    for listed_task, line in zip(all_tasks, lines, strict=True):
        if listed_task.harness != harness:
            harness = listed_task.harness
            click.echo(f"\n{harness}\n{listed_task.image}")
        click.echo(line)
    click.echo("\nNEEDS: J judge, S sandbox for code, G gated dataset (HF_TOKEN), L logprobs.")
    click.echo("`nel run --native` runs nel's benchmarks; their prompts and graders differ.")
    click.echo("Details: nel ls task HARNESS.NAME")


@ls.command("task")
@click.argument("name")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def task(name: str, as_json: bool) -> None:
    """Show one task: harness, container, defaults, and how nel runs it."""
    document = _task_document(find_task(name))
    if as_json:
        click.echo(dumps(document, indent=True).decode())
        return
    for key, value in document.items():
        click.echo(f"{key}: {value}")


@ls.command("runs")
@option("--limit", type=click.IntRange(1), metavar="N", help="List at most N runs.")
@option("--executor", metavar="NAME", help="List only runs of this executor.")
@option("--since", metavar="DATE|Nd|Nh", help="List only runs started since this time.")
def runs(limit: int | None, executor: str | None, since: str | None) -> None:
    """List runs, newest first; `nel eval runs` shows their scores as well."""
    earliest = None if since is None else _parse_time(since)
    matching_runs: list[RunMeta] = []
    for run in list_runs():
        is_recent = earliest is None or datetime.fromisoformat(run.started_at) >= earliest
        if executor in (None, run.executor) and is_recent:
            matching_runs.append(run)
    if not matching_runs:
        click.echo("No runs.")
        return
    rows = [("INVOCATION", "STARTED", "JOBS", "EXECUTOR", "BENCHMARKS")]
    for run in matching_runs[:limit]:
        names = run.details.get("benchmarks")
        if not names:
            names = [benchmark_line.name for benchmark_line in overview(run)]
        row = (
            invocation_of(run.run_id),
            run.started_at[:19],
            str(len(names)),
            run.executor,
            ", ".join(names),
        )
        rows.append(row)
    show_table(rows)


def _task_document(described_task: Task) -> JsonDict:
    """Return the facts of a task as JSON data."""
    route = choose_route(described_task)
    replacement = native_route(described_task)
    return {
        "task": described_task.name,
        "harness": described_task.harness,
        "endpoint_type": described_task.endpoint,
        "container": described_task.image,
        "runs_as": route.kind,
        "benchmark": route.benchmark,
        "native": replacement.benchmark if replacement is not None else None,
        "needs": list(needs_of(described_task)),
        "defaults": without_unset(described_task.defaults),
    }


def _parse_time(text: str) -> datetime:
    """Parse a date, a time or an age such as ``7d``.

    Raises:
        UsageError: If the text is none of these.
    """
    age_match = re.fullmatch(r"(\d+)([dh])", text)
    if age_match:
        return datetime.now(UTC) - int(age_match[1]) * _AGES[age_match[2]]
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"--since {text} is not a valid time",
            hint="write 2026-01-31, 2026-01-31T12:00, 7d or 12h",
        ) from error
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    return time
