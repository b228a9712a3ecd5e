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
_SOMETIMES = ("corrected", "tampered", "score_tampered_as_0")


@click.command()
@click.argument("run", shell_complete=run_ids)
@option("--format", "-f", "form", type=click.Choice(["table", "csv", "json"]), default="table")
def harvest(run: str, form: str) -> None:
    """Print the canonical score of every benchmark of RUN (a folder or an id), with scale and standard error.

    Run `nel check RUN` first: do not use the score of a benchmark that is listed as INVALID.
    """
    scores = harvest_run(Path(run) if Path(run).exists() else Path(find_run(run).output_dir))
    if form == "json":
        click.echo(dumps([asdict(score) for score in scores], indent=True))
    elif form == "csv":
        writer = csv.DictWriter(
            sys.stdout, [field.name for field in fields(Harvested)], lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(map(asdict, scores))
    else:
        # Leave out columns that would be empty.
        optional_columns: list[str] = []
        for name in _SOMETIMES:
            if any(getattr(score, name) is not None for score in scores):
                optional_columns.append(name)
        columns = [*_COLUMNS, *optional_columns]
        rows: list[list[str]] = []
        for score in scores:
            rows.append([_cell(getattr(score, name)) for name in columns])
        show_table([columns, *rows], narrow=(1, 2))


def _cell(value: object) -> str:
    """Render one value of the table."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}"
    return str(value)
