"""``nel power``: plan the problems and repeats that detect a drop, and their cost."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from nemo_evaluator.cli._options import PATH, option
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.decisions.power.label_plan import (
    LabelPlan,
    judge_rates,
    plan_labels,
    problems_of,
)
from nemo_evaluator.decisions.power.plan import (
    AnswerPrice,
    PowerPlan,
    PowerQuestion,
    plan_from_runs,
    plan_from_score,
)
from nemo_evaluator.reports.texts import label_plan_text, plans_text

_PRICE = click.FloatRange(min=0, min_open=True)
_UNIT = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command("power")
@click.argument("run", required=False, type=PATH)
@click.argument("candidate", required=False, type=PATH)
@option(
    "--drop",
    "-d",
    type=click.FloatRange(0, min_open=True),
    required=True,
    help="Drop to detect, in score units.",
)
@option("--power", "chance", type=_UNIT, default=0.8, help="Probability of detecting the drop.")
@option("--confidence", type=click.FloatRange(0.5, 1, max_open=True), default=0.95)
@option("--score", type=_UNIT, help="Expected score, if no RUN is given.")
@option("--problems", type=click.IntRange(min=2), help="Number of problems, if no RUN is given.")
@option(
    "--correlation",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.5,
    help="Assumed correlation between the two sides' answers, if fewer than two runs are given.",
)
@option(
    "--repeats",
    type=click.IntRange(min=1),
    multiple=True,
    help="Number of repeats to plan for; repeatable.",
)
@option(
    "--benchmarks",
    type=click.IntRange(min=1),
    help="Number of benchmarks in the suite [default: as many as in RUN].",
)
@option("--usd-per-answer", type=click.FloatRange(min=0), help="Price of one answer, in USD.")
@option(
    "--labels-cost",
    type=_PRICE,
    help="Price of one human label, in USD; balances labels against problems.",
)
@option("--budget-usd", type=_PRICE, help="Budget for one side in USD, with --labels-cost.")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
@click.pass_context
def power(
    context: click.Context,
    /,
    run: Path | None,
    candidate: Path | None,
    drop: float,
    as_json: bool,
    **flags: Any,
) -> None:
    """Plan a comparison from a finished RUN, from two runs, or from --score alone."""
    shared_settings = {name: flags[name] for name in ("confidence", "correlation", "benchmarks")}
    question = PowerQuestion(
        drop=drop,
        power=flags["chance"],
        repeats=tuple(sorted(set(flags["repeats"]))),
        **shared_settings,
    )
    _refuse_idle(context, run, candidate)
    if flags["budget_usd"] and not flags["labels_cost"]:
        raise UsageError(
            "--budget-usd is for planning labels", hint="give --labels-cost, or leave it out"
        )
    if run is not None:
        plans = plan_from_runs(run, candidate, question, usd=flags["usd_per_answer"])
    elif flags["score"] is not None:
        plans = [
            plan_from_score(
                flags["score"],
                question,
                AnswerPrice(usd=flags["usd_per_answer"]),
                problems=flags["problems"],
            )
        ]
    else:
        raise UsageError("nothing to plan from", hint="give a finished run, or --score")
    if flags["labels_cost"]:
        label_plans: list[LabelPlan] = [_labels(plan, run, question, flags=flags) for plan in plans]
    else:
        label_plans = []
    if as_json:
        label_entries = [{"labels": asdict(label_plan)} for label_plan in label_plans] or [
            {} for _ in plans
        ]
        click.echo(
            dumps(
                [
                    asdict(plan) | label_entry
                    for plan, label_entry in zip(plans, label_entries, strict=True)
                ]
            )
        )
    else:
        click.echo(
            plans_text(plans)
            + "".join(label_plan_text(label_plan, drop) for label_plan in label_plans),
            nl=False,
        )


def _labels(
    plan: PowerPlan, run: Path | None, question: PowerQuestion, flags: dict[str, Any]
) -> LabelPlan:
    """Plan how to divide the budget between human labels and problems."""
    budget = flags["budget_usd"]
    answer_prices = [line.usd / line.answers for line in plan.lines if line.usd and line.answers]
    if budget is None or not (price := flags["usd_per_answer"] or next(iter(answer_prices), None)):
        hint = "give --budget-usd, and --usd-per-answer where the run does not know its price"
        raise UsageError(
            "--labels-cost plans a budget, and needs the price of an answer", hint=hint
        )
    if run is None:
        available: Any | int | None = flags["problems"]
    else:
        available = problems_of(run, plan.benchmark)
    return plan_labels(
        plan,
        question,
        budget,
        label=flags["labels_cost"],
        answer=price,
        rates=judge_rates(run),
        available=available,
    )


def _refuse_idle(context: click.Context, run: Path | None, candidate: Path | None) -> None:
    """Raise UsageError for an option that has no effect, because the runs show its value."""
    is_idle_by_option = {
        "score": run is not None,
        "problems": run is not None,
        "correlation": candidate is not None,
    }
    for name, is_idle in is_idle_by_option.items():
        if is_idle and context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            evidence = "two runs show" if name == "correlation" else "a run shows"
            raise UsageError(f"--{name} is what {evidence}", hint=f"leave --{name} out")
