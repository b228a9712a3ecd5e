"""``nel eval``: run evaluations and manage runs."""

from typing import Final

import click

from nemo_evaluator.cli._lazy import LazyGroup

_HERE: Final = "nemo_evaluator.cli.eval"

LAZY: Final = {
    "run": (f"{_HERE}.run:run", "Run a config, or one benchmark in quick mode."),
    "status": (f"{_HERE}.status:status", "How a run is doing."),
    "stop": (f"{_HERE}.stop:stop", "Stop a run; nothing is lost."),
    "resume": (f"{_HERE}.resume:resume", "Resume a stopped run."),
    "logs": (f"{_HERE}.logs:logs", "Show the log of a run."),
    "runs": (f"{_HERE}.runs:runs", "List the runs of this user."),
    "jobs": (f"{_HERE}.runs:runs", "The same as `runs`."),
    "clean": (f"{_HERE}.clean:clean_runs", "Remove runs from the list; outputs stay."),
    "report": ("nemo_evaluator.cli.report:eval_report", "Render a report from a run's folder."),
    "merge": (f"{_HERE}.merge:merge", "Merge the shards of a run."),
    "rescore": ("nemo_evaluator.cli.rescore:rescore", "Score stored answers again, without asking the model."),
}


@click.group(cls=LazyGroup, lazy=LAZY, name="eval")
def evaluate() -> None:
    """Run evaluations and manage runs."""
