"""Planning a comparison: problems and repeats that find a drop, alone and in a suite, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.bundles import Run, find_runs, match_bundles
from nemo_evaluator.decisions.pairing import pair
from nemo_evaluator.decisions.remedy import observed_spread
from nemo_evaluator.decisions.rows import Rows, read_rows
from nemo_evaluator.metrics import (
    Spread,
    detectable_effect,
    problems_needed,
    spread_from_score,
    variance_components,
)

DEFAULT_REPEATS: Final = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be found, and how surely."""

    drop: float
    power: float = 0.8
    confidence: float = 0.95
    correlation: float = 0.5
    benchmarks: int = 1
    repeats: Sequence[int] = DEFAULT_REPEATS

    @property
    def alpha(self) -> float:
        """One-sided level of a comparison on its own."""
        return (1 - self.confidence) / 2


@dataclass(frozen=True, slots=True)
class Price:
    """What one answer costs; unknown parts are None."""

    tokens: float | None = None
    usd: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One way to find the drop."""

    repeats: int
    problems: int | None
    problems_in_suite: int | None
    answers: int | None
    tokens: float | None
    usd: float | None
    hours: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for one benchmark."""

    benchmark: str
    question: Question
    score: float
    sd: float
    basis: str
    lines: list[PlanLine]
    problems_now: int | None = None
    repeats_now: float | None = None
    detectable_now: float | None = None
    advice: str | None = None

    def to_dict(self) -> JsonDict:
        """The plan as JSON."""
        return asdict(self)


def plan_from_score(score: float, question: Question, price: Price | None = None, problems: int | None = None) -> Plan:
    """A plan from an expected score and an assumed agreement of the two sides."""
    spread = spread_from_score(score, question.correlation)
    basis = f"assumptions: score {score:g}, the sides agree to {question.correlation:g}"
    return _plan("assumed", score, spread, basis, question, price or Price(), problems, 1.0, None)


def plan_from_runs(baseline: Path, candidate: Path | None, question: Question, usd: float | None = None) -> list[Plan]:
    """Plans from a finished run, or from two: then the spread of their difference is known instead of assumed."""
    runs = {run.name: run for run in find_runs(baseline)}
    if candidate is None:
        return [_plan_of_run(run, question, usd) for run in runs.values()]
    pairs = match_bundles(runs, {run.name: run for run in find_runs(candidate)}).pairs
    return [_plan_of_pair(name, one, two, question, usd) for name, (one, two) in pairs.items()]


def _plan_of_run(run: Run, question: Question, usd: float | None) -> Plan:
    rows = read_rows(run.results)
    scored = rows.scored
    parts = variance_components(rows.problem[scored], rows.reward[scored])
    score = float(rows.reward[scored].mean()) if scored.any() else math.nan
    known = not math.isnan(parts.within)
    spread = Spread(true=2 * parts.between * (1 - question.correlation), noise=2 * parts.within if known else 0.0)
    noise = "answer noise from its repeats" if known else "no repeats, so answer noise is not told apart"
    basis = f"one run ({noise}); the sides are assumed to agree to {question.correlation:g}"
    price = _price(run, rows, usd)
    return _plan(run.name, score, spread, basis, question, price, parts.problems, parts.repeats, parts.advice)


def _plan_of_pair(name: str, one: Run, two: Run, question: Question, usd: float | None) -> Plan:
    rows = read_rows(one.results), read_rows(two.results)
    pairing = pair(rows[0], rows[1])
    values = pairing.differences
    sd = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    spread = observed_spread(pairing, rows, sd) or Spread(true=sd * sd, noise=0.0)
    scored = rows[0].scored
    parts = variance_components(rows[0].problem[scored], rows[0].reward[scored])
    score = float(pairing.baseline.rewards.mean()) if len(pairing) else math.nan
    basis = f"two runs, {len(pairing)} problems paired by {pairing.by}"
    price = _price(one, rows[0], usd)
    return _plan(name, score, spread, basis, question, price, len(pairing), parts.repeats, parts.advice)


def _plan(
    benchmark: str,
    score: float,
    spread: Spread,
    basis: str,
    question: Question,
    price: Price,
    problems: int | None,
    repeats: float,
    advice: str | None,
) -> Plan:
    sd = spread.sd(repeats)
    # Without known answer noise more repeats promise nothing that the data could back.
    choices = list(question.repeats) if spread.noise > 0 else [max(1, round(repeats))]
    return Plan(
        benchmark=benchmark,
        question=question,
        score=score,
        sd=sd,
        basis=basis,
        lines=[_line(spread, choice, question, price) for choice in choices],
        problems_now=problems,
        repeats_now=repeats if problems else None,
        detectable_now=detectable_effect(sd, problems, power=question.power, alpha=question.alpha)
        if problems and math.isfinite(sd)
        else None,
        advice=advice,
    )


def _line(spread: Spread, repeats: int, question: Question, price: Price) -> PlanLine:
    sd = spread.sd(repeats)
    alone = problems_needed(question.drop, sd, power=question.power, alpha=question.alpha) if sd > 0 else 2
    count = question.benchmarks
    # In a suite a breach is corrected for the number of benchmarks, and every one of them has to be found.
    power, alpha = question.power ** (1 / count), question.alpha / count
    suite = problems_needed(question.drop, sd, power=power, alpha=alpha) if sd > 0 else 2
    wanted = suite if count > 1 else alone
    answers = None if wanted is None else wanted * repeats

    def total(one: float | None) -> float | None:
        return None if one is None or answers is None else one * answers

    seconds = total(price.seconds)
    hours = None if seconds is None else seconds / 3600
    return PlanLine(repeats, alone, suite, answers, total(price.tokens), total(price.usd), hours)


def _price(run: Run, rows: Rows, usd: float | None) -> Price:
    runtime = (run.benchmark.get("scores") or {}).get("runtime") or {}
    steps = runtime.get("total_steps") or len(rows)
    elapsed, tokens = runtime.get("elapsed_seconds"), runtime.get("total_tokens")
    paid = float(rows.cost.mean()) if len(rows) and rows.cost.any() else None
    return Price(
        tokens=tokens / steps if tokens and steps else None,
        usd=usd if usd is not None else paid,
        seconds=elapsed / steps if elapsed and steps else None,
    )
