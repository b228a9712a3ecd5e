"""Plans of comparisons for people."""

from collections.abc import Sequence

from nemo_evaluator.decisions.power.label_plan import LabelPlan
from nemo_evaluator.decisions.power.plan import Plan, PlanLine
from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports._page import plain_text


def plans_text(plans: Sequence[Plan]) -> str:
    """All plans as plain text, what they cost together, and how to read them."""
    tables = [(plan, _table(plan)) for plan in plans]
    return plain_text("power.txt.j2", plans=tables, total=_total(plans), share="{:.0%}".format)


def label_plan_text(plan: LabelPlan, drop: float) -> str:
    """What a budget buys, the best split first; and that it does not find ``drop``, where it does not."""
    rows = [["problems", "labels", "corrected score known to", "finds a drop of"]]
    rows += [
        [f"{one.problems:,}", f"{one.labels:,}", f"±{one.half_width:.4f}", f"{one.detectable_drop:.4f}"]
        for one in plan.splits
    ]
    return plain_text("labels.txt.j2", plan=plan, drop=drop, rows=rows)


def _table(plan: Plan) -> list[list[str]]:
    count = plan.question.suite
    suite = [f"both, in a suite of {count}"] if count > 1 else []
    rows = [_row(line, bool(suite)) for line in plan.lines]
    return [["repeats", "find it", "rule it out", *suite, "answers", "tokens", "cost", "time"], *rows] if rows else []


def _row(line: PlanLine, suite: bool) -> list[str]:
    return [
        str(line.repeats),
        words.count(line.problems),
        words.count(line.problems_to_rule_out),
        *([words.count(line.problems_in_suite)] if suite else []),
        words.count(line.answers),
        *_cost(line.tokens, line.usd, line.hours),
    ]


def _cost(tokens: float | None, usd: float | None, hours: float | None) -> list[str]:
    return [
        words.count(tokens),
        words.NONE if usd is None else f"${usd:,.2f}",
        words.NONE if hours is None else words.seconds(3600 * hours),
    ]


def _total(plans: Sequence[Plan]) -> list[str]:
    """What the whole suite costs one side, each benchmark with the fewest answers that do."""
    suite = plans[0].question.suite
    known = [[line for line in plan.lines if line.answers is not None] for plan in plans]
    if suite == 1 or len(plans) not in (1, suite) or not all(known):
        return []
    cheapest = [min(lines, key=lambda line: line.answers or 0) for lines in known]
    times = suite / len(plans)

    def total(values: Sequence[float | None]) -> float | None:
        told = [value for value in values if value is not None]
        return times * sum(told) if len(told) == len(values) else None

    tokens, usd, time = _cost(
        total([line.tokens for line in cheapest]),
        total([line.usd for line in cheapest]),
        total([line.hours for line in cheapest]),
    )
    parts = [f"{words.count(total([line.answers for line in cheapest]))} answers"]
    parts += [text for text in (f"{tokens} tokens", usd, time) if not text.startswith(words.NONE)]
    each = "each as above" if len(plans) == 1 else "each with the fewest answers"
    return [f"all {suite} benchmarks, one side, {each}: {', '.join(parts)}"]
