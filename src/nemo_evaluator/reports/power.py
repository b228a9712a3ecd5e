"""Plans of comparisons for people."""

from collections.abc import Sequence

from nemo_evaluator.decisions.power.label_plan import LabelPlan
from nemo_evaluator.decisions.power.plan import Plan, PlanLine
from nemo_evaluator.reports import _words as words

_LEGEND = """\
find it: the interval of `nel compare` lies below zero when the drop is there
rule it out: the interval lies above the drop when there is no difference
answers and what follows are for one benchmark and one side, with enough problems for both
"""


def plans_text(plans: Sequence[Plan]) -> str:
    """All plans as plain text, what they cost together, and how to read them."""
    return "\n".join([*map(_plan, plans), *_total(plans), _LEGEND])


def label_plan_text(plan: LabelPlan, drop: float) -> str:
    """What a budget buys, the best split first; and that it does not find ``drop``, where it does not."""
    source = "assumed" if plan.assumed else "measured by this run's labels"
    head = (
        f"labels against problems for ${plan.budget_usd:,.2f} a side (a label ${plan.usd_per_label:g}, an answer "
        f"${plan.usd_per_answer:.4g}); the judge's sensitivity {plan.sensitivity:.2f} and specificity "
        f"{plan.specificity:.2f} are {source}"
    )
    rows = [["problems", "labels", "corrected score known to", "finds a drop of"]]
    rows += [
        [f"{one.problems:,}", f"{one.labels:,}", f"±{one.half_width:.4f}", f"{one.detectable_drop:.4f}"]
        for one in plan.splits
    ]
    told = words.columns(rows)
    if not plan.settles:
        limit = f", and the benchmark has {plan.available:,} problems" if plan.available is not None else ""
        best = f"the best split finds {plan.splits[0].detectable_drop:.4f}"
        told.append(f"a drop of {drop:g} cannot be settled with that: {best}{limit}")
    return words.printable("\n".join([head, *told])) + "\n"


def _plan(plan: Plan) -> str:
    asked = plan.question
    lines = [
        f"{plan.benchmark}: to find a drop of {asked.drop:g} with {asked.power:.0%} chance at {asked.confidence:.0%}"
        " confidence, or to rule it out (paired comparison)",
        f"  from {plan.basis}",
        f"  score {plan.score:.4f}, per-problem SD of the difference {plan.sd:.4f}",
    ]
    if plan.problems_now is not None:
        found = "no drop" if plan.detectable_now is None else f"a drop of {plan.detectable_now:.4f}"
        lines.append(f"  the {plan.problems_now:,} problems there are find {found} with that chance")
    if plan.advice:
        lines.append(f"  to narrow the score itself: {plan.advice}")
    lines += [f"  note: {note}" for note in plan.notes]
    suite = [f"both, in a suite of {asked.suite}"] if asked.suite > 1 else []
    rows = [_row(line, bool(suite)) for line in plan.lines]
    if rows:
        rows.insert(0, ["repeats", "find it", "rule it out", *suite, "answers", "tokens", "cost", "time"])
    return words.printable("\n".join([*lines, *words.columns(rows)])) + "\n"


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
    return [f"all {suite} benchmarks, one side, {each}: {', '.join(parts)}\n"]
