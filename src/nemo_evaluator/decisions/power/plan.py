"""Planning a comparison: problems and repeats that find a drop, alone and in a suite, and what that costs."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.gate.data_needed import observed_spread
from nemo_evaluator.decisions.match import discover_bundles, match_bundles
from nemo_evaluator.decisions.pairing import pair
from nemo_evaluator.decisions.power.power_model import (
    Differences,
    assumed,
    measured,
    measured_flips,
)
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.find import find_runs
from nemo_evaluator.runs.row_table import RowTable, read_table
from nemo_evaluator.statistics import Spread, VarianceComponents, variance_components
from nemo_evaluator.statistics.groups import is_binary

DEFAULT_REPEATS: Final = (1, 2, 4, 8)
_FEW: Final = 30


@dataclass(frozen=True, slots=True)
class PowerQuestion:
    """The drop to detect and the error rates. ``benchmarks`` is the size of the suite, None for the planned ones."""

    drop: float
    power: float = 0.8
    confidence: float = 0.95
    correlation: float = 0.5
    benchmarks: int | None = None
    repeats: Sequence[int] = ()

    @property
    def alpha(self) -> float:
        """One-sided level of a comparison on its own."""
        return (1 - self.confidence) / 2

    @property
    def suite(self) -> int:
        """How many benchmarks are decided on together."""
        return self.benchmarks or 1


@dataclass(frozen=True, slots=True)
class AnswerPrice:
    """What one answer costs; unknown parts are None."""

    tokens: float | None = None
    usd: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One way to find the drop, or to rule it out; answers and what they cost are for one benchmark and one side."""

    repeats: int
    problems: int | None
    problems_to_rule_out: int | None
    problems_in_suite: int | None
    answers: int | None
    tokens: float | None
    usd: float | None
    hours: float | None


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """The plan for one benchmark."""

    benchmark: str
    question: PowerQuestion
    score: float
    sd: float
    basis: str
    lines: list[PlanLine]
    problems_now: int | None = None
    repeats_now: float | None = None
    detectable_now: float | None = None
    advice: str | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Basis:
    """What a plan is made from."""

    benchmark: str
    suite_name: str
    score: float
    differences: Differences
    words: str
    price: AnswerPrice
    problems: int | None = None
    repeats: float = 1.0
    # Whether answer noise is known, so that other numbers of repeats can be planned.
    noise_known: bool = False
    advice: str | None = None
    notes: tuple[str, ...] = ()


def plan_from_score(
    score: float,
    question: PowerQuestion,
    price: AnswerPrice | None = None,
    problems: int | None = None,
) -> PowerPlan:
    """A plan from an expected score and an assumed agreement of the two sides. Raises UsageError on the impossible."""
    if question.drop >= score:
        said = f"a score of {score:g} cannot drop by {question.drop:g}"
        raise UsageError(said, hint="--drop is in score units, below --score")
    if tuple(question.repeats) not in ((), (1,)):
        hint = "give a finished run with repeats, whose answers show their noise"
        raise UsageError("a single score does not show how much repeats help", hint=hint)
    words = f"assumptions: score {score:g}, answers of the two sides correlate by {question.correlation:g}"
    differences = assumed(score, question.correlation)
    return _plan(
        _Basis(
            "assumed",
            "assumed",
            score,
            differences=differences,
            words=words,
            price=price or AnswerPrice(),
            problems=problems,
        ),
        question,
    )


def plan_from_runs(
    baseline: Path, candidate: Path | None, question: PowerQuestion, usd: float | None = None
) -> list[PowerPlan]:
    """Plans from a finished run, or from two, which show how far they differ. Raises UsageError without any rows."""
    if candidate is None:
        runs = find_runs(baseline)
        names = Counter(run.name for run in runs)
        bases = [_of_run(run, names[run.name] > 1, question, usd=usd) for run in runs]
    else:
        matched = match_bundles(discover_bundles(baseline), discover_bundles(candidate))
        bases = [_of_pair(name, one, two, usd=usd) for name, (one, two) in matched.pairs.items()]
        if not bases and (matched.only_baseline or matched.only_candidate):
            sides = [
                ", ".join(names) or "nothing"
                for names in (matched.only_baseline, matched.only_candidate)
            ]
            said = f"no benchmark is in both: {sides[0]} against {sides[1]}"
            raise UsageError(said, hint="give two runs of one benchmark")
    if not bases:
        hint = "give the output directory of a finished run"
        raise UsageError(f"no bundle (eval-*.json) under {baseline}", hint=hint)
    # Two runs of one benchmark are no suite.
    suite = replace(
        question, benchmarks=question.benchmarks or len({basis.suite_name for basis in bases})
    )
    return [_plan(basis, suite) for basis in bases]


def _of_run(run: Bundle, shared: bool, question: PowerQuestion, usd: float | None) -> _Basis:
    rows = _scored_rows(run)
    rewards = rows.reward[rows.scored]
    parts = _components(rows)
    score = float(rewards.mean())
    lattice = is_binary(rewards)
    known = not math.isnan(parts.within)
    if lattice and not known:
        differences = assumed(score, question.correlation)
    else:
        noise = 2 * parts.within if known else 0.0
        spread = Spread(2 * parts.between * (1 - question.correlation), noise)
        if lattice:
            differences = measured_flips(spread, score, score)
        else:
            differences = measured(spread)
    if known:
        said = "answer noise from its repeats"
    else:
        said = "no repeats, so answer noise is not told apart"
    return _Basis(
        benchmark=f"{run.name} ({run.path.parent})" if shared else run.name,
        suite_name=run.name,
        score=score,
        differences=differences,
        words=f"one run ({said}); the sides are assumed to correlate by {question.correlation:g}",
        price=_price(run, rows, usd),
        problems=parts.problems,
        repeats=parts.repeats,
        noise_known=known,
        advice=parts.advice,
        notes=_doubts(run, parts.problems),
    )


def _of_pair(name: str, one: Bundle, two: Bundle, usd: float | None) -> _Basis:
    rows = _scored_rows(one), _scored_rows(two)
    pairing = pair(rows[0], rows[1])
    values = pairing.differences
    if len(values) < 2:
        few = f"{name}: {counted(len(values), 'problem')} in both runs: too few to see a spread"
        raise UsageError(few, hint="give two runs of the same problems, or one run alone")
    sd = float(values.std(ddof=1))
    split = observed_spread(pairing, rows, sd)
    spread = split or Spread(true=sd * sd, noise=0.0)
    scores = float(pairing.baseline.rewards.mean()), float(pairing.candidate.rewards.mean())
    parts = _components(rows[0])
    return _Basis(
        benchmark=name,
        suite_name=name,
        score=scores[0],
        differences=measured_flips(spread, *scores) if pairing.lattice else measured(spread),
        words=f"two runs, {counted(len(pairing), 'problem')} paired by {pairing.by}",
        price=_price(one, rows[0], usd),
        problems=len(pairing),
        repeats=parts.repeats,
        noise_known=split is not None and split.noise > 0,
        advice=parts.advice,
        notes=tuple(dict.fromkeys(_doubts(one, len(pairing)) + _doubts(two, len(pairing)))),
    )


def _scored_rows(run: Bundle) -> RowTable:
    if not run.results.is_file():
        raise UsageError(
            f"{run.results} does not exist", hint="a plan needs the rows beside the bundle"
        )
    rows = read_table(run.results)
    if not rows.scored.any():
        raise UsageError(
            f"{run.name}: no row of {run.results} is scored", hint=f"nel check {run.path.parent}"
        )
    return rows


def _components(rows: RowTable) -> VarianceComponents:
    return variance_components(rows.problem[rows.scored], rows.reward[rows.scored])


def _doubts(run: Bundle, problems: int) -> tuple[str, ...]:
    if run.invalid:
        doubts = [f"{run.run_id} is INVALID: {'; '.join(run.invalid)}"]
    else:
        doubts = []
    if problems < _FEW:
        doubts.append(
            f"only {counted(problems, 'problem')} to judge the spread by: take the plan as a rough one"
        )
    return tuple(doubts)


def _plan(basis: _Basis, question: PowerQuestion) -> PowerPlan:
    differences = basis.differences
    now = basis.repeats
    asked = tuple(question.repeats)
    notes = list(basis.notes)
    # Without known answer noise more repeats promise nothing that the data could back.
    if basis.noise_known:
        choices = asked or DEFAULT_REPEATS
    else:
        choices = (max(1, round(now)),)
    if asked and not basis.noise_known and asked != choices:
        notes.append(
            "repeats are not planned: a run with repeats is needed to see how much they would help"
        )
    if differences.lattice and question.drop > basis.score:
        choices = ()
        notes.append(f"a score of {basis.score:.4f} cannot drop by {question.drop:g}")
    sd = math.sqrt(differences.variance(question.drop, now))
    lines = [_line(differences, choice, question, price=basis.price) for choice in choices]
    if lines and all(line.problems is None for line in lines):
        notes.append(
            "all differences seen are equal, or too many problems would be needed: nothing can be planned"
        )
    plan = PowerPlan(
        basis.benchmark,
        question,
        basis.score,
        sd=sd,
        basis=basis.words,
        lines=lines,
        problems_now=basis.problems,
        advice=basis.advice,
        notes=notes,
    )
    if not basis.problems:
        return plan
    found = differences.smallest_drop(
        basis.problems, now, power=question.power, alpha=question.alpha
    )
    return replace(plan, repeats_now=now, detectable_now=found)


def _line(
    differences: Differences, repeats: int, question: PowerQuestion, price: AnswerPrice
) -> PlanLine:
    drop = question.drop
    power = question.power
    alpha = question.alpha
    count = question.suite
    alone = differences.problems(drop, repeats, power=power, alpha=alpha)
    clear = differences.problems_to_rule_out(drop, repeats, power=power, alpha=alpha)
    # In a suite a breach is corrected for the number of benchmarks, and every one of them has to be found; to be clear,
    # each benchmark has to show it at its own level.
    every = power ** (1 / count)
    found = differences.problems(drop, repeats, power=every, alpha=alpha / count)
    excluded = differences.problems_to_rule_out(drop, repeats, power=every, alpha=alpha)
    if found is None or excluded is None:
        suite: int | None = None
    else:
        suite = max(found, excluded)
    answers = None if suite is None else suite * repeats

    def total(one: float | None) -> float | None:
        return None if one is None or answers is None else one * answers

    seconds = total(price.seconds)
    hours = None if seconds is None else seconds / 3600
    return PlanLine(
        repeats,
        alone,
        clear,
        problems_in_suite=suite,
        answers=answers,
        tokens=total(price.tokens),
        usd=total(price.usd),
        hours=hours,
    )


def _price(run: Bundle, rows: RowTable, usd: float | None) -> AnswerPrice:
    steps = run.runtime.total_steps or len(rows)
    elapsed = run.runtime.elapsed_seconds
    tokens = run.runtime.total_tokens
    if len(rows) and rows.cost.any():
        paid: float | None = float(rows.cost.mean())
    else:
        paid = None
    one_tokens, one_seconds = (
        total / steps if total and steps else None for total in (tokens, elapsed)
    )
    return AnswerPrice(one_tokens, usd if usd is not None else paid, one_seconds)
