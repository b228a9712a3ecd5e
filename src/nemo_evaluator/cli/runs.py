"""``nel eval runs``, ``status``, ``stop``, ``logs``, ``resume`` and ``clean``: the runs of this user."""

import functools
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from nemo_evaluator.cli._options import option, run_ids, show_table
from nemo_evaluator.core.arguments import masked_arguments
from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import harmless, terminal_width
from nemo_evaluator.executors.base import clean, executor_of, status_of
from nemo_evaluator.launch.status import describe, read_status
from nemo_evaluator.runs.overview import BenchmarkLine, overview
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.run_registry import RunMeta, find_run, known_run, list_runs

_HEAD: Final = ("RUN", "STATE", "AGE", "BENCHMARK", "MODEL", "SCORE", "COVERAGE", "OUTPUT_DIR")
# The time in a run id; what follows only tells runs of the same second apart.
_STAMP: Final = 15
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_AGES: Final = {
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "m": timedelta(days=30),
}


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--run-id`` and ``--output-dir`` to a command."""
    command = option(
        "--output-dir", "-o", help="Output folder of the run [default: ./eval_results]."
    )(command)
    return option(
        "--run-id",
        "-r",
        shell_complete=run_ids,
        help="Run id, or the beginning of one; see `nel eval runs`.",
    )(command)


def with_run(command: Callable[..., Any]) -> Callable[..., Any]:
    """Call a command with the ``run`` that its argument RUN (an id, its beginning, or a folder) or an option names.

    With ``--shard`` that is one of its shards.
    """

    @functools.wraps(command)
    def found(
        *args: Any,
        which: str | None,
        run_id: str | None,
        output_dir: str | None,
        shard: int | None,
        **more: Any,
    ) -> Any:
        if sum(word is not None for word in (which, run_id, output_dir)) > 1:
            raise UsageError("name the run once", hint="give RUN, --run-id or --output-dir")
        run = find_run(which or run_id, output_dir)
        return command(
            *args, run=run if shard is None else executor_of(run.executor).shard(run, shard), **more
        )

    found = option(
        "--shard", "-s", type=click.IntRange(0), metavar="I", help="Show only shard I of the run."
    )(found)
    return click.argument("which", metavar="[RUN]", required=False, shell_complete=run_ids)(
        run_options(found)
    )


@dataclass(frozen=True, slots=True)
class _Listed:
    """A run as it is listed."""

    run: RunMeta
    state: str
    age: float | None
    benchmarks: Sequence[BenchmarkLine]

    def rows(self, name: str) -> list[tuple[str, ...]]:
        """A line a benchmark; the verdict takes the place of the state once there is one."""
        unit = next(
            ((size, word) for size, word in _UNITS if self.age is not None and self.age >= size),
            (1, "s"),
        )
        if self.age is None:
            age = "-"
        else:
            age = f"{max(0, self.age) // unit[0]:.0f}{unit[1]}"
        lines = self.benchmarks or [BenchmarkLine(self.run.config_summary, "")]
        found: list[tuple[str, ...]] = []
        for one in lines:
            if one.verdict and self.state in ("finished", "ended", "-"):
                state = one.verdict
            else:
                state = self.state
            if one.corrected is None:
                corrected = ""
            else:
                corrected = f" (corrected {one.corrected:.4f})"
            score = ("-" if one.score is None else f"{one.score:.4f}") + corrected
            coverage = "-" if one.coverage is None else f"{one.coverage:.1%}"
            first = (name, age, self.run.output_dir) if not found else ("", "", "")
            found.append(
                (first[0], state, first[1], one.name, one.model or "-", score, coverage, first[2])
            )
        return found


@click.command()
@option("--offline", is_flag=True, help="Skip checking whether the runs are alive.")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def runs(offline: bool, as_json: bool) -> None:
    """List runs, newest first: state or verdict, age, and each benchmark's model, score and coverage.

    A narrow terminal shows the beginning of a run's id, which names it as well, and leaves out its folder.
    """
    lost: dict[str, str] = {}
    listed = [_listed(run, offline, lost) for run in list_runs()]
    for said in lost.values():
        click.echo(harmless(f"unknown: {said}"), err=True)
    if as_json:
        more: list[dict[str, Sequence[BenchmarkLine] | str | float | None]] = []
        for one in listed:
            more.append({"state": one.state, "age_seconds": one.age, "benchmarks": one.benchmarks})
        click.echo(dumps([asdict(one.run) | also for one, also in zip(listed, more, strict=True)]))
        return
    if not listed:
        click.echo("No tracked runs.")
        return
    width = terminal_width()
    names = [one.run.run_id for one in listed]
    if width is not None:
        starts = [name[:_STAMP] for name in names]
        names = [
            start if starts.count(start) == 1 else name
            for start, name in zip(starts, names, strict=True)
        ]
    rows: list[tuple[str, ...]] = []
    for one, name in zip(listed, names, strict=True):
        for row in one.rows(name):
            rows.append(row)
    if width is None:
        shown = [_HEAD, *rows]
    else:
        shown = [row[:-1] for row in (_HEAD, *rows)]
    show_table(shown, narrow=(4, 3))


def _listed(run: RunMeta, offline: bool, lost: dict[str, str]) -> _Listed:
    """``lost`` has the clusters that could not be reached: they are asked once, and their runs are listed too."""
    age = run.age(datetime.now(UTC))
    host = f"{run.executor} {run.details.get('hostname')}"
    state = "-" if offline else "unknown"
    if not offline and host not in lost:
        try:
            state = status_of(run).state
        except TransportError as error:
            lost[host] = error.message
    return _Listed(
        run, state, age.total_seconds() if age is not None else None, benchmarks=overview(run)
    )


@click.command()
@with_run
@option("--watch", "-w", is_flag=True, help="Refresh until the run ends.")
@option("--interval", default=5.0, help="Seconds between refreshes with --watch.")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def status(run: RunMeta, watch: bool, interval: float, as_json: bool) -> None:
    """Show the state of a run and of each of its benchmarks: done and total, rate, time left.

    For batches that are still with a vendor, nel asks the vendor for their status.
    """
    while True:
        state = read_status(run)
        folders = [TaskPaths(Path(state.output_dir) / one.name) for one in state.benchmarks]
        if not state.running and any(folder.batches.is_dir() for folder in folders):
            # Loaded only here: asking takes the config and the HTTP client, which a look at numbers does without.
            from nemo_evaluator.launch.left_batches import ask_vendors  # noqa: PLC0415

            state = ask_vendors(run, state)
        click.echo(dumps(state).decode() if as_json else describe(state))
        if not watch or not state.running:
            return
        time.sleep(interval)
        if not as_json:
            click.clear()


@click.command()
@with_run
@option("--json", "as_json", is_flag=True, help="Print the run's final status as JSON.")
def stop(run: RunMeta, as_json: bool) -> None:
    """Stop a running evaluation cleanly, and wait until it has ended."""
    executor_of(run.executor).stop(run)
    state = read_status(run)
    click.echo(dumps(state).decode() if as_json else describe(state))


@click.command()
@with_run
@option("--follow", "-f", is_flag=True, help="Follow the log until the run ends.")
@option(
    "--tail",
    "--lines",
    "-n",
    type=click.IntRange(1),
    metavar="N",
    help="Print only the last N lines.",
)
def logs(run: RunMeta, follow: bool, tail: int | None) -> None:
    """Print the log of a run."""
    for line in executor_of(run.executor).logs(run, tail=tail, follow=follow):
        click.echo(harmless(line), nl=False)


@click.command()
@with_run
@option("--background", is_flag=True, help="Run in the background.")
@option(
    "--json", "as_json", is_flag=True, help="Print progress and result as JSON lines on stdout."
)
@click.pass_context
def resume(ctx: click.Context, run: RunMeta, background: bool, as_json: bool) -> None:
    """Resume an earlier run with its own config; finished answers are reused."""
    from nemo_evaluator.launch.job import resume_request  # noqa: PLC0415 - heavy, only for this command
    from nemo_evaluator.launch.start import start  # noqa: PLC0415

    only = run.details.get("only_shard")
    if isinstance(only, int):
        # Its executor starts it, as a part of the whole.
        run = known_run(run.run_id)
    command = tuple(masked_arguments(sys.argv[1:]))
    request = resume_request(run, background=background, as_json=as_json, command=command)
    ctx.exit(start(replace(request, only_shard=only) if isinstance(only, int) else request))


@click.command("clean")
@click.argument("which", metavar="[RUN]...", nargs=-1, shell_complete=run_ids)
@option("--older-than", metavar="AGE", help="Remove runs older than this: 24h, 7d, 4w, 2m.")
@option("--executor", help="Remove runs of this executor.")
@option("--all", "everything", is_flag=True, help="Remove every run that has ended.")
@option("--dry-run", is_flag=True, help="Print what would be removed; remove nothing.")
@option("--yes", "-y", is_flag=True, help="Do not ask.")
def clean_runs(
    which: tuple[str, ...],
    older_than: str | None,
    executor: str | None,
    everything: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Remove ended runs from the list, and servers left over from killed runs. Output files stay."""
    if not (which or older_than or executor or everything):
        raise UsageError(
            "say which runs", hint="a RUN, --older-than 7d, --executor local, or --all"
        )
    if not dry_run:
        from nemo_evaluator.servers.process import sweep_now  # noqa: PLC0415 - only for this command

        sweep_now(click.echo)
    if older_than:
        found = re.fullmatch(r"(\d+)([hdwm])", older_than.strip())
    else:
        found = None
    if older_than and found is None:
        raise UsageError(f"{older_than!r} is not an age", hint="write 24h, 7d, 4w or 2m")
    if found:
        least: timedelta | None = int(found[1]) * _AGES[found[2]]
    else:
        least = None
    if which:
        named: list[RunMeta] | Iterator[RunMeta] = [known_run(word) for word in which]
    else:
        named = list_runs()
    chosen = [run for run in named if _matches(run, least, executor)]
    for run in chosen:
        click.echo(f"{'would remove' if dry_run else 'remove'} {run.run_id}  {run.output_dir}")
    if not chosen:
        click.echo("No runs to remove.")
    elif not dry_run and (yes or click.confirm(f"Remove {len(chosen)} run(s) from the list?")):
        for run in chosen:
            clean(run)


def _matches(run: RunMeta, least: timedelta | None, executor: str | None) -> bool:
    age = run.age(datetime.now(UTC))
    if executor not in (None, run.executor) or (least is not None and (age is None or age < least)):
        return False
    try:
        return not status_of(run).alive
    except TransportError as error:
        click.echo(harmless(f"{run.run_id} stays on the list: {error.message}"), err=True)
        return False
