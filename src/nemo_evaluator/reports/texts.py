"""Calibrations of judges and plans of comparisons as plain text."""

from collections.abc import Sequence

from nemo_evaluator.decisions.calibrate.report import CalibrationReport
from nemo_evaluator.decisions.power.label_plan import LabelPlan
from nemo_evaluator.decisions.power.plan import PowerPlan
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
    rows += [
        [
            f"{split.problems:,}",
            f"{split.labels:,}",
            f"±{split.half_width:.4f}",
            f"{split.detectable_drop:.4f}",
        ]
        for split in plan.splits
    ]
    return plain_text("labels.txt.j2", plan=plan, drop=drop, rows=rows)


def _table(plan: PowerPlan) -> list[list[str]]:
    """The rows of a plan's table, with a header; empty when nothing can be planned."""
    suite_size = plan.question.suite
    suite_column = [f"both, in a suite of {suite_size}"] if suite_size > 1 else []
    table = [
        ["repeats", "find it", "rule it out", *suite_column, "answers", "tokens", "cost", "time"]
    ]
    for line in plan.lines:
        problems = [
            line.problems,
            line.problems_to_rule_out,
            *([line.problems_in_suite] if suite_column else []),
        ]
        counts = [line.repeats, *problems, line.answers, line.tokens]
        table.append([*map(words.count, counts), *_cost(line.usd, line.hours)])
    return table if plan.lines else []


def _cost(usd: float | None, hours: float | None) -> list[str]:
    """The cells of cost and time."""
    return [
        words.NONE if usd is None else f"${usd:,.2f}",
        words.seconds(None if hours is None else 3600 * hours),
    ]


def _total(plans: Sequence[PowerPlan]) -> list[str]:
    """The cost of the whole suite for one side, with the cheapest line of each benchmark; empty when it is unknown."""
    suite_size = plans[0].question.suite
    possible_lines = [[line for line in plan.lines if line.answers is not None] for plan in plans]
    if suite_size == 1 or len(plans) not in (1, suite_size) or not all(possible_lines):
        return []
    cheapest = [min(lines, key=lambda line: line.answers or 0) for lines in possible_lines]

    def total(name: str) -> float | None:
        """The sum of one quantity over the suite; None when a benchmark does not have it."""
        amounts = [value for line in cheapest if (value := getattr(line, name)) is not None]
        return suite_size / len(plans) * sum(amounts) if len(amounts) == len(cheapest) else None

    totals = [f"{words.count(total(name))} {name}" for name in ("answers", "tokens")]
    totals += _cost(total("usd"), total("hours"))
    total_words = ", ".join(part for part in totals if not part.startswith(words.NONE))
    condition = "each as above" if len(plans) == 1 else "each with the fewest answers"
    return [f"all {suite_size} benchmarks, one side, {condition}: {total_words}"]


def calibrations_text(found: Sequence[CalibrationReport]) -> str:
    """All calibrations as plain text; with several models, also the judge's bias by model."""
    biases = {
        report.run.model: report.judges[0].agreement.bias for report in found if report.judges
    }
    rows = [[model, f"{bias:+.4f}"] for model, bias in biases.items()] if len(biases) > 1 else []
    return plain_text("calibration.txt.j2", found=found, biases=words.columns(rows))
