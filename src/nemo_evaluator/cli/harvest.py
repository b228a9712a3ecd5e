"""``nel harvest``: print the canonical scores of a run."""

import csv
import sys
from dataclasses import asdict, fields
from pathlib import Path

import click

from nemo_evaluator.assistant.harvest import Harvested
from nemo_evaluator.assistant.harvest import harvest as harvest_run
from nemo_evaluator.cli._options import option, run_ids, show_table
from nemo_evaluator.core.files import dumps
from nemo_evaluator.store.run_registry import find_run

_COLUMNS = (
    "status",
    "benchmark",
    "metric",
    "score",
    "standard_error",
    "scale",
    "percent",
    "n",
    "repeats",
)
_SOMETIMES = ("corrected", "corrected_standard_error", "tampered", "score_tampered_as_0")


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=run_ids)
@option("--format", "-f", "form", type=click.Choice(["table", "csv", "json"]), default="table")
@option("--json", "as_json", is_flag=True, help="Output JSON; the same as --format json.")
def harvest(runs: tuple[str, ...], form: str, as_json: bool) -> None:
    """Print the canonical score of every benchmark of each RUN (a folder or an id), with scale and standard error.

    Run `nel check RUN` first: do not use the score of a benchmark that is listed as INVALID.
    """
    scores: list[Harvested] = []
    for run in runs:
        path = Path(run)
        if not path.exists():
            path = Path(find_run(run).output_dir)
        scores += harvest_run(path)
    if as_json or form == "json":
        click.echo(dumps([asdict(score) for score in scores], indent=True))
    elif form == "csv":
        _print_csv(scores)
    else:
        _print_table(scores, several_runs=len(runs) > 1)


def _print_csv(scores: list[Harvested]) -> None:
    """Print the scores as CSV, with all columns."""
    columns = [field.name for field in fields(Harvested)]
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, scores))


def _print_table(scores: list[Harvested], *, several_runs: bool) -> None:
    """Print the scores as a table, without optional columns that would be empty."""
    columns = list(_COLUMNS)
    if several_runs:
        columns.append("run")
    for name in _SOMETIMES:
        if any(getattr(score, name) is not None for score in scores):
            columns.append(name)
    rows = [columns]
    for score in scores:
        rows.append([_cell(getattr(score, name)) for name in columns])
    show_table(rows, narrow=(1, 2))


def _cell(value: object) -> str:
    """Render one value of the table."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}"
    return str(value)
