"""``nel power``: plan the problems and repeats that detect a drop, and their cost."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from nemo_evaluator.cli._options import PATH, option
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.power.label_plan import (
    LabelPlan,
    judge_rates,
    plan_labels,
    problems_of,
)
from nemo_evaluator.decisions.power.plan import PowerPlan, plan_from_runs, plan_from_score
from nemo_evaluator.decisions.power.question import AnswerPrice, PowerQuestion
from nemo_evaluator.reports.texts import label_plan_text, plans_text

_PRICE = click.FloatRange(min=0, min_open=True)
_UNIT = click.FloatRange(0, 1, min_open=True, max_open=True)


@dataclass(frozen=True, slots=True)
class _PowerFlags:
    """The options of ``nel power``, by the names that click gives them; their help texts describe them."""

    drop: float
    chance: float
    confidence: float
    score: float | None
    problems: int | None
    correlation: float
    repeats: tuple[int, ...]
    benchmarks: int | None
    usd_per_answer: float | None
    labels_cost: float | None
    budget_usd: float | None
    as_json: bool

    @property
    def question(self) -> PowerQuestion:
        """The question that the plans answer."""
        return PowerQuestion(
            drop=self.drop,
            power=self.chance,
            repeats=tuple(sorted(set(self.repeats))),
            confidence=self.confidence,
            correlation=self.correlation,
            benchmarks=self.benchmarks,
        )


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
    context: click.Context, /, run: Path | None, candidate: Path | None, **flags: Any
) -> None:
    """Plan a comparison from a finished RUN, from two runs, or from --score alone."""
    options = _PowerFlags(**flags)
    _refuse_idle(context, run, candidate)
    if options.budget_usd and not options.labels_cost:
        raise UsageError(
            "--budget-usd is for planning labels", hint="give --labels-cost, or leave it out"
        )
    plans = _plans(run, candidate, options)
    label_plans: list[LabelPlan] = []
    if options.labels_cost:
        label_plans = [_label_plan(plan, run, options) for plan in plans]
    if options.as_json:
        click.echo(dumps(_documents(plans, label_plans)))
        return
    click.echo(_text(plans, label_plans, options.drop), nl=False)


def _plans(run: Path | None, candidate: Path | None, options: _PowerFlags) -> list[PowerPlan]:
    """Plan from the runs, or from the assumed score.

    Raises:
        UsageError: If there is neither a run nor a score.
    """
    if run is not None:
        return plan_from_runs(run, candidate, options.question, usd=options.usd_per_answer)
    if options.score is None:
        raise UsageError("nothing to plan from", hint="give a finished run, or --score")
    plan = plan_from_score(
        options.score,
        options.question,
        AnswerPrice(usd=options.usd_per_answer),
        problems=options.problems,
    )
    return [plan]


def _text(plans: list[PowerPlan], label_plans: list[LabelPlan], drop: float) -> str:
    """The plans as text, followed by the plans of labels."""
    text = plans_text(plans)
    for label_plan in label_plans:
        text += label_plan_text(label_plan, drop)
    return text


def _documents(plans: list[PowerPlan], label_plans: list[LabelPlan]) -> list[JsonDict]:
    """The plans as JSON data, each with its plan of labels if there is one."""
    documents = [asdict(plan) for plan in plans]
    if label_plans:
        for document, label_plan in zip(documents, label_plans, strict=True):
            document["labels"] = asdict(label_plan)
    return documents


def _label_plan(plan: PowerPlan, run: Path | None, options: _PowerFlags) -> LabelPlan:
    """Plan how to divide the budget between human labels and problems.

    Raises:
        UsageError: If the budget or the price of an answer is unknown.
    """
    answer_price = options.usd_per_answer or _answer_price(plan)
    if options.labels_cost is None or options.budget_usd is None or not answer_price:
        raise UsageError(
            "--labels-cost plans a budget, and needs the price of an answer",
            hint="give --budget-usd, and --usd-per-answer if the run does not know its price",
        )
    available = options.problems
    if run is not None:
        available = problems_of(run, plan.benchmark)
    return plan_labels(
        plan,
        options.question,
        options.budget_usd,
        label=options.labels_cost,
        answer=answer_price,
        rates=judge_rates(run),
        available=available,
    )


def _answer_price(plan: PowerPlan) -> float | None:
    """The price of an answer, from the first line of a plan that has a cost; None when no line has one."""
    for line in plan.lines:
        if line.usd and line.answers:
            return line.usd / line.answers
    return None


def _refuse_idle(context: click.Context, run: Path | None, candidate: Path | None) -> None:
    """Raise UsageError for an option that has no effect, because the runs show its value."""
    source_of_option: dict[str, str] = {}
    if run is not None:
        source_of_option["score"] = "the run"
        source_of_option["problems"] = "the run"
    if candidate is not None:
        source_of_option["correlation"] = "the two runs"
    for name, source in source_of_option.items():
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise UsageError(
                f"--{name} has no effect: nel measures it in {source}", hint=f"leave --{name} out"
            )
