"""``nel power``: how many problems and repeats find a drop, and what the run would cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.decisions.power import (
    DEFAULT_REPEATS,
    Price,
    Question,
    plan_from_runs,
    plan_from_score,
)
from nemo_evaluator.reports.power import power_text

_UNIT = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command("power")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.argument("candidate", required=False, type=click.Path(path_type=Path))
@click.option("--drop", "-d", type=_UNIT, required=True, help="The drop to find, in score units.")
@click.option("--power", "chance", type=_UNIT, default=0.8, show_default=True, help="Chance to find it.")
@click.option("--confidence", type=click.FloatRange(0.5, 1, max_open=True), default=0.95, show_default=True)
@click.option("--score", type=_UNIT, help="Without a run: the expected score.")
@click.option("--problems", type=click.IntRange(min=2), help="Without a run: how many problems there are.")
@click.option(
    "--correlation",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.5,
    show_default=True,
    help="Assumed agreement of the two sides, unless two runs are given.",
)
@click.option("--repeats", type=click.IntRange(min=1), multiple=True, help="Repeats to plan for; may be given again.")
@click.option("--benchmarks", type=click.IntRange(min=1), default=1, show_default=True, help="Size of the suite.")
@click.option("--usd-per-answer", type=click.FloatRange(min=0), help="Price of one answer.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def power(run: Path | None, candidate: Path | None, drop: float, as_json: bool, **flags: Any) -> None:
    """Plan a comparison from a finished RUN, from two runs, or from --score alone."""
    question = Question(
        drop=drop,
        power=flags["chance"],
        confidence=flags["confidence"],
        correlation=flags["correlation"],
        benchmarks=flags["benchmarks"],
        repeats=tuple(sorted(set(flags["repeats"]))) or DEFAULT_REPEATS,
    )
    if run is not None:
        plans = plan_from_runs(run, candidate, question, flags["usd_per_answer"])
    elif flags["score"] is not None:
        plans = [plan_from_score(flags["score"], question, Price(usd=flags["usd_per_answer"]), flags["problems"])]
    else:
        raise UsageError("nothing to plan from", hint="give a finished run, or --score")
    if not plans:
        raise UsageError(f"no bundle (eval-*.json) under {run}", hint="give the output directory of a finished run")
    if as_json:
        click.echo(dumps([plan.to_dict() for plan in plans]))
    else:
        click.echo("\n".join(power_text(plan) for plan in plans), nl=False)
