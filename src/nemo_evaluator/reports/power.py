"""Plans of comparisons for people."""

from __future__ import annotations

from nemo_evaluator.decisions.power import Plan, PlanLine
from nemo_evaluator.reports import _words as words


def power_text(plan: Plan) -> str:
    """One plan as plain text."""
    asked = plan.question
    lines = [
        f"{plan.benchmark}: to find a drop of {asked.drop:g} with {asked.power:.0%} chance at {asked.confidence:.0%}"
        " confidence (paired comparison)",
        f"  from {plan.basis}",
        f"  score {plan.score:.4f}, a problem's difference varies by {plan.sd:.4f} (standard deviation)",
    ]
    if plan.detectable_now is not None:
        lines.append(f"  the {plan.problems_now:,} problems there are find a drop of {plan.detectable_now:.4f}")
    if plan.advice:
        lines.append(f"  to narrow the score itself: {plan.advice}")
    suite = [f"in a suite of {asked.benchmarks}"] if asked.benchmarks > 1 else []
    rows = [["  repeats", "problems", *suite, "answers", "tokens", "cost", "hours"]]
    rows += [_row(line, bool(suite)) for line in plan.lines]
    return words.printable("\n".join([*lines, *words.columns(rows, indent="")])) + "\n"


def _row(line: PlanLine, suite: bool) -> list[str]:
    return [
        f"  {line.repeats}",
        _count(line.problems),
        *([_count(line.problems_in_suite)] if suite else []),
        _count(line.answers),
        _count(line.tokens),
        words.NONE if line.usd is None else f"${line.usd:,.2f}",
        words.NONE if line.hours is None else f"{line.hours:,.1f}",
    ]


def _count(value: float | None) -> str:
    return words.NONE if value is None else f"{value:,.0f}"
