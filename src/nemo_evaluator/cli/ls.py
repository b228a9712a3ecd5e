"""``nel ls``: the launcher's tasks, and runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import harmless, table, terminal_width
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher.catalogue import Task, catalogue, find_task
from nemo_evaluator.runs.overview import overview
from nemo_evaluator.store.runs import invocation_of, list_runs


@click.group("ls", invoke_without_command=True)
@click.pass_context
def ls(ctx: click.Context) -> None:
    """List the launcher's tasks (`nel ls tasks`), or runs (`nel ls runs`)."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(tasks, as_json=False)


@ls.command("tasks")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def tasks(as_json: bool) -> None:
    """List the tasks by harness, with the benchmark of nel that takes each one's place."""
    if as_json:
        click.echo(dumps({"tasks": [_facts(one) for one in catalogue()]}, indent=True).decode())
        return
    head = ("TASK", "ENDPOINT", "RUNS AS", "NEEDS")
    rows = [
        (one.name, one.endpoint, one.nel or "its container only", "".join(need[0].upper() for need in one.needs))
        for one in catalogue()
    ]
    first, *lines = table([head, *rows], terminal_width(), narrow=(2, 0))
    click.echo(first)
    for place, (one, line) in enumerate(zip(catalogue(), lines, strict=True)):
        if not place or one.harness != catalogue()[place - 1].harness:
            click.echo(f"\n{one.harness}\n{one.image}")
        click.echo(line)
    click.echo("\nNEEDS: J judge, S sandbox for code, G gated dataset (HF_TOKEN), L logprobs.")
    click.echo("A name with * or ?? is a family. Details of one: nel ls task HARNESS.NAME")


@ls.command("task")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def task(name: str, as_json: bool) -> None:
    """Show one task: harness, container, defaults, and what takes its place."""
    facts = _facts(find_task(name))
    lines = [f"{key}: {value}" for key, value in facts.items()]
    click.echo(dumps(facts, indent=True).decode() if as_json else "\n".join(lines))


@ls.command("runs")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N runs.")
@click.option("--executor", metavar="NAME", help="Only runs of this executor.")
@click.option("--since", metavar="DATE|Nd|Nh", help="Only runs started since then.")
def runs(limit: int | None, executor: str | None, since: str | None) -> None:
    """List runs, newest first; `nel eval runs` shows their scores as well."""
    found = [run for run in list_runs() if executor in (None, run.executor) and _is_recent(run.started_at, since)]
    rows = [
        (invocation_of(run.run_id), run.started_at[:19], str(len(jobs)), run.executor, ", ".join(jobs))
        for run in found[:limit]
        for jobs in [run.details.get("benchmarks") or [one.name for one in overview(run)]]
    ]
    head = ("INVOCATION", "STARTED", "JOBS", "EXECUTOR", "BENCHMARKS")
    click.echo(harmless("\n".join(table([head, *rows], terminal_width()))) if rows else "No runs.")


def _facts(one: Task) -> JsonDict:
    return {
        "task": one.name,
        "harness": one.harness,
        "endpoint_type": one.endpoint,
        "container": one.image,
        "nel": one.nel,
        "needs": list(one.needs),
        "defaults": dict(one.defaults),
    }


def _is_recent(started: str, since: str | None) -> bool:
    if since is None:
        return True
    try:
        ago = re.fullmatch(r"(\d+)([dh])", since)
        unit = {"d": timedelta(days=1), "h": timedelta(hours=1)}
        then = datetime.now(UTC) - int(ago[1]) * unit[ago[2]] if ago else datetime.fromisoformat(since)
    except ValueError as error:
        raise UsageError(f"--since {since} is no time", hint="write 2026-01-31, 2026-01-31T12:00, 7d or 12h") from error
    return datetime.fromisoformat(started) >= (then if then.tzinfo else then.replace(tzinfo=UTC))
