"""``nel eval runs``: list the runs of this user."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import click

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import harmless, table, terminal_width
from nemo_evaluator.executors.base import status_of
from nemo_evaluator.runs.overview import BenchmarkLine, overview
from nemo_evaluator.store.runs import RunMeta, list_runs

_HEAD = ("RUN", "STATE", "AGE", "BENCHMARK", "MODEL", "SCORE", "COVERAGE", "OUTPUT_DIR")
# The time in a run id; what follows only tells runs of the same second apart.
_STAMP = 15
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True, slots=True)
class _Listed:
    """A run as it is listed."""

    run: RunMeta
    state: str
    age: float | None
    benchmarks: Sequence[BenchmarkLine]

    def rows(self, name: str) -> list[tuple[str, ...]]:
        """A line a benchmark; the verdict takes the place of the state once there is one."""
        unit = next(((size, word) for size, word in _UNITS if self.age is not None and self.age >= size), (1, "s"))
        age = "-" if self.age is None else f"{max(0, self.age) // unit[0]:.0f}{unit[1]}"
        lines = self.benchmarks or [BenchmarkLine(self.run.config_summary, "")]
        return [
            (
                name if not number else "",
                one.verdict if one.verdict and self.state in ("finished", "ended", "-") else self.state,
                age if not number else "",
                one.name,
                one.model or "-",
                ("-" if one.score is None else f"{one.score:.4f}")
                + ("" if one.corrected is None else f" (corrected {one.corrected:.4f})"),
                "-" if one.coverage is None else f"{one.coverage:.1%}",
                self.run.output_dir if not number else "",
            )
            for number, one in enumerate(lines)
        ]


@click.command()
@click.option("--offline", is_flag=True, help="Skip checking whether they are running.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def runs(offline: bool, as_json: bool) -> None:
    """List runs, newest first: state or verdict, age, and each benchmark's model, score and coverage.

    A narrow terminal shows the beginning of a run's id, which names it as well, and leaves out its folder.
    """
    lost: dict[str, str] = {}
    listed = [_listed(run, offline, lost) for run in list_runs()]
    for said in lost.values():
        click.echo(harmless(f"unknown: {said}"), err=True)
    if as_json:
        click.echo(dumps([_json(one) for one in listed]).decode())
        return
    if not listed:
        click.echo("No tracked runs.")
        return
    width = terminal_width()
    names = [one.run.run_id for one in listed]
    if width is not None:
        starts = [name[:_STAMP] for name in names]
        names = [start if starts.count(start) == 1 else name for start, name in zip(starts, names, strict=True)]
    rows = [row for one, name in zip(listed, names, strict=True) for row in one.rows(name)]
    shown = [_HEAD, *rows] if width is None else [row[:-1] for row in (_HEAD, *rows)]
    click.echo(harmless("\n".join(table(shown, width, narrow=(4, 3)))))


def _listed(run: RunMeta, offline: bool, lost: dict[str, str]) -> _Listed:
    """``lost`` has the clusters that could not be reached: they are asked once, and their runs are listed too."""
    age = run.age(datetime.now(UTC))
    host, state = f"{run.executor} {run.details.get('hostname')}", "-" if offline else "unknown"
    if not offline and host not in lost:
        try:
            state = status_of(run).state
        except TransportError as error:
            lost[host] = error.message
    return _Listed(run, state, age.total_seconds() if age is not None else None, overview(run))


def _json(one: _Listed) -> dict[str, object]:
    found = {"state": one.state, "age_seconds": one.age, "benchmarks": [asdict(line) for line in one.benchmarks]}
    return asdict(one.run) | found
