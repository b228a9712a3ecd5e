"""``nel eval clean``: remove runs from the list; outputs stay."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import click

from nemo_evaluator.cli._complete import run_ids
from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.executors.base import clean, status_of
from nemo_evaluator.services.leftovers import sweep_now
from nemo_evaluator.store.runs import RunMeta, known_run, list_runs

_UNITS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1), "m": timedelta(days=30)}


@click.command("clean")
@click.argument("which", metavar="[RUN]...", nargs=-1, shell_complete=run_ids)
@click.option("--older-than", metavar="AGE", help="Only runs older than this: 24h, 7d, 4w, 2m.")
@click.option("--executor", help="Only runs of this executor.")
@click.option("--all", "everything", is_flag=True, help="Every run that has ended.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def clean_runs(
    which: tuple[str, ...], older_than: str | None, executor: str | None, everything: bool, dry_run: bool, yes: bool
) -> None:
    """Remove ended runs from the list of runs, and servers that killed runs left behind. Outputs are not touched."""
    if not (which or older_than or executor or everything):
        raise UsageError("say which runs", hint="a RUN, --older-than 7d, --executor local, or --all")
    if not dry_run:
        sweep_now(click.echo)
    least = _age(older_than) if older_than else None
    named = [known_run(word) for word in which] if which else list_runs()
    chosen = [run for run in named if _matches(run, least, executor)]
    for run in chosen:
        click.echo(f"{'would remove' if dry_run else 'remove'} {run.run_id}  {run.output_dir}")
    if not chosen:
        click.echo("No runs to remove.")
        return
    if dry_run or not (yes or click.confirm(f"Remove {len(chosen)} run(s) from the list?")):
        return
    for run in chosen:
        clean(run)


def _matches(run: RunMeta, least: timedelta | None, executor: str | None) -> bool:
    if executor is not None and run.executor != executor:
        return False
    age = run.age(datetime.now(UTC))
    if least is not None and (age is None or age < least):
        return False
    try:
        return not status_of(run).alive
    except TransportError as error:
        click.echo(harmless(f"{run.run_id} stays on the list: {error.message}"), err=True)
        return False


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d+)([hdwm])", text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not an age", hint="write 24h, 7d, 4w or 2m")
    return int(found[1]) * _UNITS[found[2]]
