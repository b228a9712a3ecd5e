"""``nel eval runs``, ``status``, ``stop``, ``logs``, ``resume`` and ``clean``: manage the user's runs."""

import functools
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
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
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.executors.base import clean, executor_of, status_of
from nemo_evaluator.launch.status import RunOverview, describe, read_status
from nemo_evaluator.runs.overview import BenchmarkLine, overview
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.run_registry import RunMeta, find_run, known_run, list_runs

_HEAD: Final = ("RUN", "STATE", "AGE", "BENCHMARK", "MODEL", "SCORE", "COVERAGE", "OUTPUT_DIR")
# Length of the time in a run id; the rest only distinguishes runs of the same second.
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
    """Give a command the run that the user names, as its argument ``run``.

    The user names it by the argument RUN (an id, the beginning of one, or a folder) or by an option; ``--shard``
    selects one of its shards.
    """

    @functools.wraps(command)
    def command_with_run(
        *args: Any,
        which: str | None,
        run_id: str | None,
        output_dir: str | None,
        shard: int | None,
        **more: Any,
    ) -> Any:
        names = [name for name in (which, run_id, output_dir) if name is not None]
        if len(names) > 1:
            raise UsageError("name the run once", hint="give RUN, --run-id or --output-dir")
        run = find_run(which or run_id, output_dir)
        if shard is not None:
            run = executor_of(run.executor).shard(run, shard)
        return command(*args, run=run, **more)

    shard_option = option(
        "--shard", "-s", type=click.IntRange(0), metavar="I", help="Show only shard I of the run."
    )
    run_argument = click.argument("which", metavar="[RUN]", required=False, shell_complete=run_ids)
    return run_argument(run_options(shard_option(command_with_run)))


@dataclass(frozen=True, slots=True)
class _Listed:
    """A run with the columns of the list.

    Attributes:
        run: The run.
        state: Its state; ``-`` if nel did not look, ``unknown`` if it could not.
        age: Its age in seconds; None: unknown.
        benchmarks: Its benchmarks with their scores.
    """

    run: RunMeta
    state: str
    age: float | None
    benchmarks: Sequence[BenchmarkLine]

    def to_dict(self) -> JsonDict:
        """Return the run as JSON data."""
        return asdict(self.run) | {
            "state": self.state,
            "age_seconds": self.age,
            "benchmarks": self.benchmarks,
        }

    def rows(self, name: str) -> list[tuple[str, ...]]:
        """Return a table row per benchmark; a verdict, once there is one, replaces the state."""
        rows: list[tuple[str, ...]] = []
        for line in self.benchmarks or [BenchmarkLine(self.run.config_summary, "")]:
            # The columns of the run itself are only in its first row.
            is_first = not rows
            row = (
                name if is_first else "",
                self._state_of(line),
                _age_text(self.age) if is_first else "",
                line.name,
                line.model or "-",
                _score_text(line),
                "-" if line.coverage is None else f"{line.coverage:.1%}",
                self.run.output_dir if is_first else "",
            )
            rows.append(row)
        return rows

    def _state_of(self, line: BenchmarkLine) -> str:
        """Return the verdict on a benchmark of an ended run, otherwise the state of the run."""
        if line.verdict and self.state in ("finished", "ended", "-"):
            return line.verdict
        return self.state


def _age_text(age: float | None) -> str:
    """Render an age in its largest unit."""
    if age is None:
        return "-"
    for size, symbol in _UNITS:
        if age >= size:
            return f"{age // size:.0f}{symbol}"
    return "0s"


def _score_text(line: BenchmarkLine) -> str:
    """Render the score of a benchmark, with the corrected one if its judge was calibrated."""
    text = "-" if line.score is None else f"{line.score:.4f}"
    if line.corrected is not None:
        text += f" (corrected {line.corrected:.4f})"
    return text


@click.command()
@option("--offline", is_flag=True, help="Skip checking whether the runs are alive.")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def runs(offline: bool, as_json: bool) -> None:
    """List runs, newest first: state or verdict, age, and each benchmark's model, score and coverage.

    A narrow terminal shows the beginning of a run's id, which names it as well, and leaves out its folder.
    """
    unreachable: dict[str, str] = {}
    listed = [_listed(run, offline, unreachable) for run in list_runs()]
    for message in unreachable.values():
        click.echo(harmless(f"unknown: {message}"), err=True)
    if as_json:
        click.echo(dumps([entry.to_dict() for entry in listed]))
        return
    if not listed:
        click.echo("No tracked runs.")
        return
    names = [entry.run.run_id for entry in listed]
    is_narrow = terminal_width() is not None
    if is_narrow:
        names = _short_names(names)
    rows: list[tuple[str, ...]] = [_HEAD]
    for entry, name in zip(listed, names, strict=True):
        rows.extend(entry.rows(name))
    if is_narrow:
        rows = [row[:-1] for row in rows]
    show_table(rows, narrow=(4, 3))


def _short_names(run_ids: Sequence[str]) -> list[str]:
    """Shorten run ids to their times; ids of the same second stay whole."""
    uses_of_time = Counter(run_id[:_STAMP] for run_id in run_ids)
    names: list[str] = []
    for run_id in run_ids:
        time_of_run = run_id[:_STAMP]
        names.append(time_of_run if uses_of_time[time_of_run] == 1 else run_id)
    return names


def _listed(run: RunMeta, offline: bool, lost: dict[str, str]) -> _Listed:
    """Collect what the list shows about a run.

    Args:
        run: The run.
        offline: Skip checking whether the run is alive.
        lost: Error messages by cluster that could not be reached; a cluster is tried once, and added on failure.
    """
    age = run.age(datetime.now(UTC))
    host = f"{run.executor} {run.details.get('hostname')}"
    state = "-" if offline else "unknown"
    if not offline and host not in lost:
        try:
            state = status_of(run).state
        except TransportError as error:
            lost[host] = error.message
    age_seconds = None if age is None else age.total_seconds()
    return _Listed(run, state, age_seconds, benchmarks=overview(run))


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
        if not state.running and _has_batches(state):
            # Imported only here: it loads the config and the HTTP client, which the numbers do not need.
            from nemo_evaluator.launch.left_batches import ask_vendors  # noqa: PLC0415

            state = ask_vendors(run, state)
        _print_status(state, as_json=as_json)
        if not watch or not state.running:
            return
        time.sleep(interval)
        if not as_json:
            click.clear()


def _has_batches(state: RunOverview) -> bool:
    """Return whether any benchmark of a run has sent batches to a vendor."""
    for benchmark in state.benchmarks:
        task = TaskPaths(Path(state.output_dir) / benchmark.name)
        if task.batches.is_dir():
            return True
    return False


def _print_status(state: RunOverview, *, as_json: bool) -> None:
    """Print the status of a run."""
    if as_json:
        click.echo(dumps(state).decode())
    else:
        click.echo(describe(state))


@click.command()
@with_run
@option("--json", "as_json", is_flag=True, help="Print the run's final status as JSON.")
def stop(run: RunMeta, as_json: bool) -> None:
    """Stop a running evaluation cleanly, and wait until it has ended."""
    executor_of(run.executor).stop(run)
    _print_status(read_status(run), as_json=as_json)


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

    only_shard = run.details.get("only_shard")
    resumes_shard = isinstance(only_shard, int)
    if resumes_shard:
        # The executor starts the shard as a part of the whole run.
        run = known_run(run.run_id)
    command = tuple(masked_arguments(sys.argv[1:]))
    request = resume_request(run, background=background, as_json=as_json, command=command)
    if resumes_shard:
        request = replace(request, only_shard=only_shard)
    ctx.exit(start(request))


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
            "name the runs to remove", hint="a RUN, --older-than 7d, --executor local, or --all"
        )
    if not dry_run:
        from nemo_evaluator.servers.process import sweep_now  # noqa: PLC0415 - only for this command

        sweep_now(click.echo)
    min_age = _parse_age(older_than) if older_than else None
    candidates: Iterable[RunMeta]
    if which:
        candidates = [known_run(name) for name in which]
    else:
        candidates = list_runs()
    matching_runs = [run for run in candidates if _matches(run, min_age, executor)]
    action = "would remove" if dry_run else "remove"
    for run in matching_runs:
        click.echo(f"{action} {run.run_id}  {run.output_dir}")
    if not matching_runs:
        click.echo("No runs to remove.")
        return
    if dry_run:
        return
    if yes or click.confirm(f"Remove {len(matching_runs)} run(s) from the list?"):
        for run in matching_runs:
            clean(run)


def _parse_age(text: str) -> timedelta:
    """Parse an age such as ``24h``.

    Raises:
        UsageError: If the text is not an age.
    """
    age_match = re.fullmatch(r"(\d+)([hdwm])", text.strip())
    if age_match is None:
        raise UsageError(f"{text!r} is not an age", hint="write 24h, 7d, 4w or 2m")
    return int(age_match[1]) * _AGES[age_match[2]]


def _matches(run: RunMeta, least: timedelta | None, executor: str | None) -> bool:
    """Return whether a run is to be removed: it has ended, and fits the options."""
    if executor not in (None, run.executor):
        return False
    if least is not None:
        age = run.age(datetime.now(UTC))
        if age is None or age < least:
            return False
    try:
        return not status_of(run).alive
    except TransportError as error:
        click.echo(harmless(f"{run.run_id} stays on the list: {error.message}"), err=True)
        return False
