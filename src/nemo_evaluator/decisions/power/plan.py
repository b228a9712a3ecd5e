"""Planning a comparison: the problems and repeats that detect a drop, alone and in a suite, and their cost."""

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.decisions.match import discover_bundles, match_bundles
from nemo_evaluator.decisions.power.plan_basis import PlanBasis, basis_of_pair, basis_of_run
from nemo_evaluator.decisions.power.power_model import Differences, assumed
from nemo_evaluator.decisions.power.question import AnswerPrice, PowerQuestion
from nemo_evaluator.runs.find import find_runs

DEFAULT_REPEATS: Final = (1, 2, 4, 8)


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
    problems_in_suite: int | None = None
    answers: int | None = None
    tokens: float | None = None
    usd: float | None = None
    hours: float | None = None


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
        PlanBasis(
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
        bases = _bases_of_runs(baseline, question, usd)
    else:
        bases = _bases_of_pairs(baseline, candidate, usd)
    if not bases:
        hint = "give the output directory of a finished run"
        raise UsageError(f"no bundle (eval-*.json) under {baseline}", hint=hint)
    # Two runs of one benchmark are not a suite.
    suite_names = {basis.suite_name for basis in bases}
    suite_question = replace(question, benchmarks=question.benchmarks or len(suite_names))
    return [_plan(basis, suite_question) for basis in bases]


def _bases_of_runs(folder: Path, question: PowerQuestion, usd: float | None) -> list[PlanBasis]:
    """What each run under a folder shows on its own."""
    runs = find_runs(folder)
    runs_per_name = Counter(run.name for run in runs)
    bases: list[PlanBasis] = []
    for run in runs:
        shares_name = runs_per_name[run.name] > 1
        bases.append(basis_of_run(run, question, shares_name=shares_name, usd=usd))
    return bases


def _bases_of_pairs(baseline: Path, candidate: Path, usd: float | None) -> list[PlanBasis]:
    """What each benchmark of two runs shows.

    Raises:
        UsageError: The runs have no benchmark in common.
    """
    matched = match_bundles(discover_bundles(baseline), discover_bundles(candidate))
    bases: list[PlanBasis] = []
    for name, (baseline_run, candidate_run) in matched.pairs.items():
        bases.append(basis_of_pair(name, baseline_run, candidate_run, usd=usd))
    if not bases and (matched.only_baseline or matched.only_candidate):
        baseline_names = ", ".join(matched.only_baseline) or "nothing"
        candidate_names = ", ".join(matched.only_candidate) or "nothing"
        raise UsageError(
            f"no benchmark is in both: {baseline_names} against {candidate_names}",
            hint="give two runs of one benchmark",
        )
    return bases


def _plan(basis: PlanBasis, question: PowerQuestion) -> PowerPlan:
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
    if differences.lattice and detectable_drop is not None and detectable_drop > basis.score:
        # The score cannot drop by that much.
        detectable_drop = None
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
    line = PlanLine(
        repeats=repeats, problems=problems_alone, problems_to_rule_out=problems_to_rule_out
    )
    if problems_to_find is None or problems_to_exclude is None:
        return line
    problems_in_suite = max(problems_to_find, problems_to_exclude)
    answers = problems_in_suite * repeats
    seconds = _total(price.seconds, answers)
    return replace(
        line,
        problems_in_suite=problems_in_suite,
        answers=answers,
        tokens=_total(price.tokens, answers),
        usd=_total(price.usd, answers),
        hours=None if seconds is None else seconds / 3600,
    )


def _total(of_one_answer: float | None, answers: int) -> float | None:
    """The total of a quantity for all answers; None when it is unknown."""
    return None if of_one_answer is None else of_one_answer * answers
