"""Calibrations of judges and plans of comparisons as plain text."""

import math
from collections.abc import Sequence

from nemo_evaluator.decisions.calibrate.report import CalibrationReport
from nemo_evaluator.decisions.power.label_plan import LabelPlan
from nemo_evaluator.decisions.power.plan import PlanLine, PowerPlan
from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports._page import plain_text


def plans_text(plans: Sequence[PowerPlan]) -> str:
    """All plans as plain text, with their total cost and an explanation of the columns."""
    tables = [(plan, _table(plan)) for plan in plans]
    return plain_text("power.txt.j2", plans=tables, total=_total(plans), share="{:.0%}".format)


def label_plan_text(plan: LabelPlan, drop: float) -> str:
    """A label plan as plain text, the best split first.

    Args:
        plan: The plan.
        drop: The drop to detect; the text states when no split detects it.
    """
    rows = [["problems", "labels", "corrected score known to", "finds a drop of"]]
    for split in plan.splits:
        row = [
            f"{split.problems:,}",
            f"{split.labels:,}",
            f"±{split.half_width:.4f}",
            f"{split.detectable_drop:.4f}",
        ]
        rows.append(row)
    return plain_text("labels.txt.j2", plan=plan, drop=drop, rows=rows)


def _table(plan: PowerPlan) -> list[list[str]]:
    """The rows of a plan's table, with a header; empty when nothing can be planned."""
    if not plan.lines:
        return []
    suite_size = plan.question.suite
    in_suite = suite_size > 1
    header = ["repeats", "find it", "rule it out"]
    if in_suite:
        header.append(f"both, in a suite of {suite_size}")
    header += ["answers", "tokens", "cost", "time"]
    table = [header]
    for line in plan.lines:
        counts: list[float | None] = [line.repeats, line.problems, line.problems_to_rule_out]
        if in_suite:
            counts.append(line.problems_in_suite)
        counts += [line.answers, line.tokens]
        row = [words.count(number) for number in counts]
        row += _cost(line.usd, line.hours)
        table.append(row)
    return table


def _cost(usd: float | None, hours: float | None) -> list[str]:
    """The cells of cost and time."""
    cost_text = words.NONE
    if usd is not None:
        cost_text = f"${usd:,.2f}"
    time_text = words.NONE
    if hours is not None:
        time_text = words.seconds(3600 * hours)
    return [cost_text, time_text]


def _total(plans: Sequence[PowerPlan]) -> list[str]:
    """The cost of the whole suite for one side, with the cheapest line of each benchmark; empty when it is unknown."""
    suite_size = plans[0].question.suite
    if suite_size == 1 or len(plans) not in (1, suite_size):
        return []
    cheapest_lines: list[PlanLine] = []
    for plan in plans:
        cheapest = _cheapest_line(plan)
        if cheapest is None:
            return []
        cheapest_lines.append(cheapest)
    # A single plan stands for all benchmarks of the suite.
    benchmarks_per_plan = suite_size / len(plans)
    totals: list[str] = []
    answers = _sum_of_all([line.answers for line in cheapest_lines], benchmarks_per_plan)
    if answers is not None:
        totals.append(f"{words.count(answers)} answers")
    tokens = _sum_of_all([line.tokens for line in cheapest_lines], benchmarks_per_plan)
    if tokens is not None:
        totals.append(f"{words.count(tokens)} tokens")
    usd = _sum_of_all([line.usd for line in cheapest_lines], benchmarks_per_plan)
    hours = _sum_of_all([line.hours for line in cheapest_lines], benchmarks_per_plan)
    for cost_text in _cost(usd, hours):
        if cost_text != words.NONE:
            totals.append(cost_text)
    if len(plans) == 1:
        condition = "each as above"
    else:
        condition = "each with the fewest answers"
    return [f"all {suite_size} benchmarks, one side, {condition}: {', '.join(totals)}"]


def _cheapest_line(plan: PowerPlan) -> PlanLine | None:
    """The line of a plan with the fewest answers; None when no line knows its number of answers."""
    cheapest = None
    fewest_answers = math.inf
    for line in plan.lines:
        if line.answers is not None and line.answers < fewest_answers:
            cheapest = line
            fewest_answers = line.answers
    return cheapest


def _sum_of_all(amounts: Sequence[float | None], factor: float) -> float | None:
    """The sum of the amounts times a factor; None when one of them is unknown."""
    total = 0.0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return factor * total


def calibrations_text(found: Sequence[CalibrationReport]) -> str:
    """All calibrations as plain text; with several models, also the judge's bias by model."""
    bias_of_model: dict[str, float] = {}
    for report in found:
        if report.judges:
            bias_of_model[report.run.model] = report.judges[0].agreement.bias
    rows: list[list[str]] = []
    if len(bias_of_model) > 1:
        rows = [[model, f"{bias:+.4f}"] for model, bias in bias_of_model.items()]
    return plain_text("calibration.txt.j2", found=found, biases=words.columns(rows))
