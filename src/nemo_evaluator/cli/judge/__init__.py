"""``nel judge``: what people say of a judge's verdicts, and what that makes of a score."""

from __future__ import annotations

from typing import Final

import click

from nemo_evaluator.cli._lazy import LazyGroup

_HERE: Final = "nemo_evaluator.cli.judge"

LAZY: Final = {
    "sample": (f"{_HERE}.sample:sample", "Draw rows of a run for people to label."),
    "label": (f"{_HERE}.label:label", "Label the drawn rows in the terminal."),
    "calibrate": (f"{_HERE}.calibrate:calibrate_runs", "Correct a judged score by labels."),
    "attack": (f"{_HERE}.attack:attack", "How often a judge is talked into a grade."),
}


@click.group(cls=LazyGroup, lazy=LAZY)
def judge() -> None:
    """Label rows, calibrate judges, attack them."""
