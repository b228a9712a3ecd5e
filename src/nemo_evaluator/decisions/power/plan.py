"""Planning a comparison: the problems and repeats that detect a drop, alone and in a suite, and their cost."""

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
    """The drop to detect, and the error rates.

    Attributes:
        drop: The drop, in score units.
        power: The probability of detecting it.
        confidence: Confidence level of the interval.
        correlation: The assumed correlation between the answers of the two sides.
        benchmarks: The size of the suite; None for the number of planned benchmarks.
        repeats: The numbers of repeats to plan for; empty for the default ones.
    """

    drop: float
    power: float = 0.8
    confidence: float = 0.95
    correlation: float = 0.5
    benchmarks: int | None = None
    repeats: Sequence[int] = ()

    @property
    def alpha(self) -> float:
        """The one-sided level of a comparison on its own."""
        return (1 - self.confidence) / 2

    @property
    def suite(self) -> int:
        """The number of benchmarks in the suite."""
        return self.benchmarks or 1


@dataclass(frozen=True, slots=True)
class AnswerPrice:
    """The cost of one answer; unknown parts are None."""

    tokens: float | None = None
    usd: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One way to detect the drop, or to rule it out.

    Attributes:
        repeats: Answers per problem.
        problems: Problems that detect the drop; None when they would be too many.
        problems_to_rule_out: Problems that rule the drop out when there is no difference.
        problems_in_suite: Problems that do both for every benchmark of the suite.
        answers: Answers for one benchmark and one side.
        tokens: Their tokens; None when unknown.
        usd: Their cost; None when unknown.
        hours: Their duration; None when unknown.
    """

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
    """The plan for one benchmark.

    Attributes:
        benchmark: Its name, with the folder where several runs share the name.
        question: The question that the plan answers.
        score: The baseline's score, expected or measured.
        sd: The standard deviation of a problem's difference at the present number of repeats.
        basis: What the plan is based on, as a sentence.
        lines: One line per number of repeats.
        problems_now: The problems of the benchmark or run at hand; None when unknown.
        repeats_now: Answers per problem there.
        detectable_now: The smallest drop that a run of this size detects; None when there is none.
        advice: Whether more problems or more repeats help more.
        notes: Warnings about the plan.
    """

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
    """The data a plan is computed from."""

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
    """Plan from an expected score and an assumed correlation of the two sides.

    Args:
        score: The expected score of the baseline.
        question: The drop to detect.
        price: The cost of an answer, if known.
        problems: How many problems the benchmark has, if known.

    Raises:
        UsageError: The drop is at least as large as the score, or repeats are requested.
    """
    if question.drop >= score:
        message = f"a score of {score:g} cannot drop by {question.drop:g}"
        raise UsageError(message, hint="--drop is in score units, below --score")
    if tuple(question.repeats) not in ((), (1,)):
        hint = "give a finished run with repeats, whose answers show their noise"
        raise UsageError("a single score does not show how much repeats help", hint=hint)
    assumptions = f"assumptions: score {score:g}, answers of the two sides correlate by {question.correlation:g}"
    differences = assumed(score, question.correlation)
    return _plan(
        _Basis(
            "assumed",
            "assumed",
            score,
            differences=differences,
            words=assumptions,
            price=price or AnswerPrice(),
            problems=problems,
        ),
        question,
    )


def plan_from_runs(
    baseline: Path, candidate: Path | None, question: PowerQuestion, usd: float | None = None
) -> list[PowerPlan]:
    """Plan from one finished run, or from two runs, which show how much they differ.

    Args:
        baseline: The folder of the baseline.
        candidate: The folder of the candidate; None to plan from the baseline alone.
        question: The drop to detect.
        usd: The cost of an answer; None to take it from the run.

    Returns:
        One plan per benchmark.

    Raises:
        UsageError: There is no run, no scored row, no common benchmark, or fewer than two common problems.
    """
    if candidate is None:
        runs = find_runs(baseline)
        runs_per_name = Counter(run.name for run in runs)
        bases = [_of_run(run, runs_per_name[run.name] > 1, question, usd=usd) for run in runs]
    else:
        matched = match_bundles(discover_bundles(baseline), discover_bundles(candidate))
        bases = [
            _of_pair(name, baseline_run, candidate_run, usd=usd)
            for name, (baseline_run, candidate_run) in matched.pairs.items()
        ]
        if not bases and (matched.only_baseline or matched.only_candidate):
            sides = [
                ", ".join(runs_per_name) or "nothing"
                for runs_per_name in (matched.only_baseline, matched.only_candidate)
            ]
            message = f"no benchmark is in both: {sides[0]} against {sides[1]}"
            raise UsageError(message, hint="give two runs of one benchmark")
    if not bases:
        hint = "give the output directory of a finished run"
        raise UsageError(f"no bundle (eval-*.json) under {baseline}", hint=hint)
    # Two runs of one benchmark are not a suite.
    suite = replace(
        question, benchmarks=question.benchmarks or len({basis.suite_name for basis in bases})
    )
    return [_plan(basis, suite) for basis in bases]


def _of_run(run: Bundle, shared: bool, question: PowerQuestion, usd: float | None) -> _Basis:
    """What one run shows: its score, and the variance within and between its problems."""
    rows = _scored_rows(run)
    rewards = rows.reward[rows.scored]
    components = _components(rows)
    score = float(rewards.mean())
    binary = is_binary(rewards)
    noise_known = not math.isnan(components.within)
    if binary and not noise_known:
        differences = assumed(score, question.correlation)
    else:
        noise = 2 * components.within if noise_known else 0.0
        variance_parts = Spread(2 * components.between * (1 - question.correlation), noise)
        if binary:
            differences = measured_flips(variance_parts, score, score)
        else:
            differences = measured(variance_parts)
    if noise_known:
        noise_basis = "answer noise from its repeats"
    else:
        noise_basis = "no repeats, so answer noise is not told apart"
    return _Basis(
        benchmark=f"{run.name} ({run.path.parent})" if shared else run.name,
        suite_name=run.name,
        score=score,
        differences=differences,
        words=f"one run ({noise_basis}); the sides are assumed to correlate by {question.correlation:g}",
        price=_price(run, rows, usd),
        problems=components.problems,
        repeats=components.repeats,
        noise_known=noise_known,
        advice=components.advice,
        notes=_doubts(run, components.problems),
    )


def _of_pair(name: str, one: Bundle, two: Bundle, usd: float | None) -> _Basis:
    """What two runs show: the variance of their differences on the problems they share."""
    rows = _scored_rows(one), _scored_rows(two)
    pairing = pair(rows[0], rows[1])
    values = pairing.differences
    if len(values) < 2:
        message = f"{name}: {counted(len(values), 'problem')} in both runs: too few to see a spread"
        raise UsageError(message, hint="give two runs of the same problems, or one run alone")
    deviation = float(values.std(ddof=1))
    measured_spread = observed_spread(pairing, rows, deviation)
    spread = measured_spread or Spread(true=deviation * deviation, noise=0.0)
    scores = float(pairing.baseline.rewards.mean()), float(pairing.candidate.rewards.mean())
    components = _components(rows[0])
    return _Basis(
        benchmark=name,
        suite_name=name,
        score=scores[0],
        differences=measured_flips(spread, *scores) if pairing.lattice else measured(spread),
        words=f"two runs, {counted(len(pairing), 'problem')} paired by {pairing.by}",
        price=_price(one, rows[0], usd),
        problems=len(pairing),
        repeats=components.repeats,
        noise_known=measured_spread is not None and measured_spread.noise > 0,
        advice=components.advice,
        notes=tuple(dict.fromkeys(_doubts(one, len(pairing)) + _doubts(two, len(pairing)))),
    )


def _scored_rows(run: Bundle) -> RowTable:
    """The rows of a run.

    Raises:
        UsageError: The file of rows does not exist, or no row is scored.
    """
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
    """The variance of the scored rewards within and between problems."""
    return variance_components(rows.problem[rows.scored], rows.reward[rows.scored])


def _doubts(run: Bundle, problems: int) -> tuple[str, ...]:
    """Warnings about an invalid run, and about too few problems to estimate a variance."""
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
    """Compute one line per number of repeats, and the drop that the present problems detect."""
    differences = basis.differences
    current_repeats = basis.repeats
    requested_repeats = tuple(question.repeats)
    notes = list(basis.notes)
    # When answer noise is unknown, the data cannot show that more repeats help.
    if basis.noise_known:
        choices = requested_repeats or DEFAULT_REPEATS
    else:
        choices = (max(1, round(current_repeats)),)
    if requested_repeats and not basis.noise_known and requested_repeats != choices:
        notes.append(
            "repeats are not planned: a run with repeats is needed to see how much they would help"
        )
    if differences.lattice and question.drop > basis.score:
        choices = ()
        notes.append(f"a score of {basis.score:.4f} cannot drop by {question.drop:g}")
    deviation = math.sqrt(differences.variance(question.drop, current_repeats))
    lines = [_line(differences, choice, question, price=basis.price) for choice in choices]
    if lines and all(line.problems is None for line in lines):
        notes.append(
            "all differences seen are equal, or too many problems would be needed: nothing can be planned"
        )
    plan = PowerPlan(
        basis.benchmark,
        question,
        basis.score,
        sd=deviation,
        basis=basis.words,
        lines=lines,
        problems_now=basis.problems,
        advice=basis.advice,
        notes=notes,
    )
    if not basis.problems:
        return plan
    detectable_drop = differences.smallest_drop(
        basis.problems, current_repeats, power=question.power, alpha=question.alpha
    )
    return replace(plan, repeats_now=current_repeats, detectable_now=detectable_drop)


def _line(
    differences: Differences, repeats: int, question: PowerQuestion, price: AnswerPrice
) -> PlanLine:
    """The problems that detect the drop with so many repeats, alone and in a suite, and their cost."""
    drop = question.drop
    power = question.power
    alpha = question.alpha
    suite_size = question.suite
    problems_alone = differences.problems(drop, repeats, power=power, alpha=alpha)
    problems_to_rule_out = differences.problems_to_rule_out(drop, repeats, power=power, alpha=alpha)
    # In a suite, a breach is corrected for the number of benchmarks, and each of them must be detected; to pass, each
    # benchmark must rule the drop out at the uncorrected level.
    power_of_each = power ** (1 / suite_size)
    problems_to_find = differences.problems(
        drop, repeats, power=power_of_each, alpha=alpha / suite_size
    )
    problems_to_exclude = differences.problems_to_rule_out(
        drop, repeats, power=power_of_each, alpha=alpha
    )
    if problems_to_find is None or problems_to_exclude is None:
        problems_in_suite: int | None = None
    else:
        problems_in_suite = max(problems_to_find, problems_to_exclude)
    answers = None if problems_in_suite is None else problems_in_suite * repeats

    def total(one: float | None) -> float | None:
        """The total of a quantity, given its amount for one answer."""
        return None if one is None or answers is None else one * answers

    seconds = total(price.seconds)
    hours = None if seconds is None else seconds / 3600
    return PlanLine(
        repeats,
        problems_alone,
        problems_to_rule_out,
        problems_in_suite=problems_in_suite,
        answers=answers,
        tokens=total(price.tokens),
        usd=total(price.usd),
        hours=hours,
    )


def _price(run: Bundle, rows: RowTable, usd: float | None) -> AnswerPrice:
    """The mean tokens, cost and seconds of an answer of the run; ``usd`` replaces the measured cost."""
    steps = run.runtime.total_steps or len(rows)
    elapsed = run.runtime.elapsed_seconds
    tokens = run.runtime.total_tokens
    if len(rows) and rows.cost.any():
        usd_per_answer: float | None = float(rows.cost.mean())
    else:
        usd_per_answer = None
    tokens_per_answer, seconds_per_answer = (
        amount / steps if amount and steps else None for amount in (tokens, elapsed)
    )
    return AnswerPrice(
        tokens_per_answer, usd if usd is not None else usd_per_answer, seconds_per_answer
    )
