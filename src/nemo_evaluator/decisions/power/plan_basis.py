"""The data that a plan is computed from: what one finished run shows, or what two runs show."""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.gate.data_needed import observed_spread
from nemo_evaluator.decisions.pairing import pair
from nemo_evaluator.decisions.power.power_model import (
    Differences,
    assumed,
    measured,
    measured_flips,
)
from nemo_evaluator.decisions.power.question import AnswerPrice, PowerQuestion
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import RowTable, read_table
from nemo_evaluator.statistics import (
    Spread,
    VarianceComponents,
    by_problem,
    variance_components,
)
from nemo_evaluator.statistics.clusters import codes_of_clusters, design_effect
from nemo_evaluator.statistics.groups import Ints, is_binary

_FEW: Final = 30


@dataclass(frozen=True, slots=True)
class PlanBasis:
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


def basis_of_run(
    run: Bundle, question: PowerQuestion, *, shares_name: bool, usd: float | None
) -> PlanBasis:
    """What one run shows: its score, and the variance within and between its problems.

    Args:
        run: The run.
        question: The drop to detect.
        shares_name: Whether another run has the same benchmark.
        usd: The cost of an answer; None to take it from the run.

    Raises:
        UsageError: The run has no scored rows.
    """
    rows = _scored_rows(run)
    rewards = rows.reward[rows.scored]
    components = _components(rows)
    score = float(rewards.mean())
    binary = is_binary(rewards)
    noise_known = not math.isnan(components.within)
    noise = 2 * components.within if noise_known else 0.0
    spread = Spread(2 * components.between * (1 - question.correlation), noise)
    if binary and not noise_known:
        differences = assumed(score, question.correlation)
    elif binary:
        differences = measured_flips(spread, score, score)
    else:
        differences = measured(spread)
    clusters = _clusters(rows)
    differences = replace(differences, design_effect=_design_effect(rows, clusters))
    noise_basis = "no repeats, so answer noise is not told apart"
    if noise_known:
        noise_basis = "answer noise from its repeats"
    return PlanBasis(
        benchmark=f"{run.name} ({run.path.parent})" if shares_name else run.name,
        suite_name=run.name,
        score=score,
        differences=differences,
        words=(
            f"one run ({noise_basis}{_clusters_words(clusters)}); "
            f"the sides are assumed to correlate by {question.correlation:g}"
        ),
        price=_price(run, rows, usd),
        problems=components.problems,
        repeats=components.repeats,
        noise_known=noise_known,
        advice=components.advice,
        notes=_doubts(run, components.problems),
    )


def basis_of_pair(
    name: str, baseline: Bundle, candidate: Bundle, *, usd: float | None
) -> PlanBasis:
    """What two runs show: the variance of their differences on the problems they share.

    Args:
        name: The benchmark's name.
        baseline: The baseline.
        candidate: The candidate.
        usd: The cost of an answer; None to take it from the baseline.

    Raises:
        UsageError: A run has no scored rows, or the runs share fewer than two problems.
    """
    baseline_rows = _scored_rows(baseline)
    candidate_rows = _scored_rows(candidate)
    pairing = pair(baseline_rows, candidate_rows)
    values = pairing.differences
    if len(values) < 2:
        message = f"{name}: {counted(len(values), 'problem')} in both runs: too few to see a spread"
        raise UsageError(message, hint="give two runs of the same problems, or one run alone")
    deviation = float(values.std(ddof=1))
    measured_spread = observed_spread(pairing, (baseline_rows, candidate_rows), deviation)
    spread = measured_spread or Spread(true=deviation * deviation, noise=0.0)
    baseline_score = float(pairing.baseline.rewards.mean())
    candidate_score = float(pairing.candidate.rewards.mean())
    if pairing.lattice:
        differences = measured_flips(spread, baseline_score, candidate_score)
    else:
        differences = measured(spread)
    cluster_effect = design_effect(values, pairing.clusters)
    differences = replace(differences, design_effect=cluster_effect)
    components = _components(baseline_rows)
    doubts = _doubts(baseline, len(pairing)) + _doubts(candidate, len(pairing))
    return PlanBasis(
        benchmark=name,
        suite_name=name,
        score=baseline_score,
        differences=differences,
        words=f"two runs, {counted(len(pairing), 'problem')} paired by {pairing.by}",
        price=_price(baseline, baseline_rows, usd),
        problems=len(pairing),
        repeats=components.repeats,
        noise_known=measured_spread is not None and measured_spread.noise > 0,
        advice=components.advice,
        notes=tuple(dict.fromkeys(doubts)),
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


def _clusters(rows: RowTable) -> Ints | None:
    """The cluster of each scored row; None when every problem is a cluster of its own."""
    return codes_of_clusters(rows.cluster[rows.scored], rows.problem[rows.scored])


def _clusters_words(clusters: Ints | None) -> str:
    """The number of clusters, as part of a sentence."""
    if clusters is None:
        return ""
    return f", {counted(len(np.unique(clusters)), 'cluster')}"


def _design_effect(rows: RowTable, clusters: Ints | None) -> float:
    """How many problems of a run are worth one independent problem."""
    problems = by_problem(rows.problem[rows.scored], rows.reward[rows.scored])
    if clusters is None:
        return 1.0
    return design_effect(problems.means, clusters[problems.first])


def _components(rows: RowTable) -> VarianceComponents:
    """The variance of the scored rewards within and between problems."""
    return variance_components(rows.problem[rows.scored], rows.reward[rows.scored])


def _doubts(run: Bundle, problems: int) -> tuple[str, ...]:
    """Warnings about an invalid run, and about too few problems to estimate a variance."""
    doubts: list[str] = []
    if run.invalid:
        doubts.append(f"{run.run_id} is INVALID: {'; '.join(run.invalid)}")
    if problems < _FEW:
        doubts.append(
            f"only {counted(problems, 'problem')} to judge the spread by: take the plan as a rough one"
        )
    return tuple(doubts)


def _price(run: Bundle, rows: RowTable, usd: float | None) -> AnswerPrice:
    """The mean tokens, cost and seconds of an answer of the run; ``usd`` replaces the measured cost."""
    steps = run.runtime.total_steps or len(rows)
    if usd is None and len(rows) and rows.cost.any():
        usd = float(rows.cost.mean())
    return AnswerPrice(
        tokens=_per_step(run.runtime.total_tokens, steps),
        usd=usd,
        seconds=_per_step(run.runtime.elapsed_seconds, steps),
    )


def _per_step(total: float | None, steps: int) -> float | None:
    """The mean of a quantity; None when it is unknown."""
    if not total or not steps:
        return None
    return total / steps
