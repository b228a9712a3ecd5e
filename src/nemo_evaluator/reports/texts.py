"""Calibrations of judges and plans of comparisons, as plain text for people."""

from collections.abc import Sequence

from nemo_evaluator.decisions.calibrate.report import CalibrationReport
from nemo_evaluator.decisions.power.label_plan import LabelPlan
from nemo_evaluator.decisions.power.plan import PowerPlan
from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports._page import plain_text


def plans_text(plans: Sequence[PowerPlan]) -> str:
    """All plans as plain text, what they cost together, and how to read them."""
    tables = [(plan, _table(plan)) for plan in plans]
    return plain_text("power.txt.j2", plans=tables, total=_total(plans), share="{:.0%}".format)


def label_plan_text(plan: LabelPlan, drop: float) -> str:
    """What a budget buys, the best split first; and that it does not find ``drop``, where it does not."""
    rows = [["problems", "labels", "corrected score known to", "finds a drop of"]]
    rows += [
        [
            f"{one.problems:,}",
            f"{one.labels:,}",
            f"±{one.half_width:.4f}",
            f"{one.detectable_drop:.4f}",
        ]
        for one in plan.splits
    ]
    return plain_text("labels.txt.j2", plan=plan, drop=drop, rows=rows)


def _table(plan: PowerPlan) -> list[list[str]]:
    count = plan.question.suite
    suite = [f"both, in a suite of {count}"] if count > 1 else []
    rows = [["repeats", "find it", "rule it out", *suite, "answers", "tokens", "cost", "time"]]
    for line in plan.lines:
        problems = [
            line.problems,
            line.problems_to_rule_out,
            *([line.problems_in_suite] if suite else []),
        ]
        counts = [line.repeats, *problems, line.answers, line.tokens]
        rows.append([*map(words.count, counts), *_cost(line.usd, line.hours)])
    return rows if plan.lines else []


def _cost(usd: float | None, hours: float | None) -> list[str]:
    return [
        words.NONE if usd is None else f"${usd:,.2f}",
        words.seconds(None if hours is None else 3600 * hours),
    ]


def _total(plans: Sequence[PowerPlan]) -> list[str]:
    """What the whole suite costs one side, each benchmark with the fewest answers that do."""
    suite = plans[0].question.suite
    known = [[line for line in plan.lines if line.answers is not None] for plan in plans]
    if suite == 1 or len(plans) not in (1, suite) or not all(known):
        return []
    cheapest = [min(lines, key=lambda line: line.answers or 0) for lines in known]

    def total(name: str) -> float | None:
        told = [value for line in cheapest if (value := getattr(line, name)) is not None]
        return suite / len(plans) * sum(told) if len(told) == len(cheapest) else None

    parts = [f"{words.count(total(name))} {name}" for name in ("answers", "tokens")]
    parts += _cost(total("usd"), total("hours"))
    said = ", ".join(part for part in parts if not part.startswith(words.NONE))
    each = "each as above" if len(plans) == 1 else "each with the fewest answers"
    return [f"all {suite} benchmarks, one side, {each}: {said}"]


def calibrations_text(found: Sequence[CalibrationReport]) -> str:
    """All calibrations as plain text; with several models, the judge's bias by model."""
    biases = {
        report.run.model: report.judges[0].agreement.bias for report in found if report.judges
    }
    rows = [[model, f"{bias:+.4f}"] for model, bias in biases.items()] if len(biases) > 1 else []
    return plain_text("calibration.txt.j2", found=found, biases=words.columns(rows))
