"""The numbers of a bundle: headline, summary, categories, breakdowns, extra scorers and the bounds for missing rows.

All functions take columns of *scored* rows; failed rows are left out beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from nemo_evaluator.statistics.alpha_spending import PLANNED, Spending
from nemo_evaluator.statistics.bootstrap import few_levels, resampled
from nemo_evaluator.statistics.clusters import usable_clusters
from nemo_evaluator.statistics.groups import Floats, Ints, Problems, by_problem, is_binary
from nemo_evaluator.statistics.intervals import Interval

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import (
        BreakdownEntry,
        GroupEntry,
        ScoreEntry,
        SummaryEntry,
    )


def headline_scores(
    problem: Ints,
    reward: Floats,
    *,
    repeats: int,
    clusters: Ints | None = None,
    spending: Spending = PLANNED,
) -> dict[str, ScoreEntry]:
    """The headline scores of a run.

    Args:
        problem: The problem id of each row.
        reward: The reward of each row.
        repeats: Planned answers per problem.
        clusters: A code per row for problems that belong together, such as questions on one passage.
        spending: How the error is divided; see ``alpha_spending``.

    Returns:
        ``pass@k`` and ``pass^k`` when all rewards are 0 or 1, else ``mean_reward``; empty without rows.
    """
    reward = np.asarray(reward, dtype=np.float64)
    if len(reward) == 0:
        return {}
    problems = by_problem(problem, reward)
    problem_clusters: Ints | None = None
    if clusters is not None:
        problem_clusters = usable_clusters(np.asarray(clusters)[problems.first])
    binary = is_binary(reward)
    mean = spending.mean_interval(
        problems.means,
        answers=problems.rows,
        binary=binary,
        clusters=problem_clusters,
    )
    if not binary:
        return {"mean_reward": score(mean)}
    pass_at_1 = score(mean)
    # The bootstrap can correct neither for looks at unfinished data nor for clusters.
    if spending == PLANNED and problem_clusters is None:
        _add_bootstrap_bounds(pass_at_1, problems.means)
    scores = {"pass@1": pass_at_1}
    ks_beyond_1 = [k for k in useful_ks(max(repeats, 1)) if k > 1]
    for name, every in (("pass@", False), ("pass^", True)):
        for k in ks_beyond_1:
            interval, _ = pass_intervals(
                problems,
                k,
                every=every,
                clusters=problem_clusters,
                spending=spending,
            )
            if interval.n:
                scores[f"{name}{k}"] = score(interval)
    return scores


def _add_bootstrap_bounds(entry: ScoreEntry, values: Floats) -> None:
    """Add the bounds of the percentile bootstrap, unless it would be expensive or has no spread to show."""
    if len(values) < 2 or not few_levels(values):
        return
    bootstrap_means = resampled(values).means
    lower, upper = np.quantile(bootstrap_means, [0.025, 0.975])
    entry["bootstrap_ci_lower"] = _round(float(lower))
    entry["bootstrap_ci_upper"] = _round(float(upper))


def score(interval: Interval) -> ScoreEntry:
    """An interval as an entry of ``scores``."""
    return {
        "value": _round(interval.value),
        "ci_lower": _round(interval.lower),
        "ci_upper": _round(interval.upper),
        "ci_method": interval.method,
        "n": interval.n,
    }


def scorer_score(
    problem: Ints, reward: Floats, spending: Spending = PLANNED, *, clusters: Ints | None = None
) -> ScoreEntry:
    """The entry ``scorer:<name>`` of an additional scorer; the arguments are those of ``headline_scores``."""
    reward = np.asarray(reward, dtype=np.float64)
    entry = score(_mean_interval(problem, reward, spending, clusters=clusters))
    entry["correct"] = int((reward > 0).sum())
    entry["total"] = len(reward)
    return entry


def summary_scores(reward: Floats) -> SummaryEntry:
    """Mean, standard deviation, extremes and median over all scored rows."""
    reward = np.asarray(reward, dtype=np.float64)
    if not len(reward):
        return {"mean": None, "std": None, "min": None, "max": None, "median": None, "n": 0}
    standard_deviation = 0.0
    if len(reward) > 1:
        standard_deviation = float(reward.std(ddof=1))
    return {
        "mean": float(reward.mean()),
        "std": standard_deviation,
        "min": float(reward.min()),
        "max": float(reward.max()),
        "median": float(np.median(reward)),
        "n": len(reward),
    }


def category_scores(
    codes: Ints,
    names: Sequence[str],
    problem: Ints,
    reward: Floats,
    spending: Spending = PLANNED,
    *,
    clusters: Ints | None = None,
) -> dict[str, GroupEntry]:
    """The mean reward of each category.

    Args:
        codes: The category of each row, as an index into ``names``.
        names: The names of the categories.
        problem: The problem id of each row.
        reward: The reward of each row.
        spending: How the error is divided.
        clusters: A code per row for problems that belong together.

    Returns:
        ``{category: {mean_reward, n, ci_lower, ci_upper, ci_method}}``; n counts rows.
    """
    scores: dict[str, GroupEntry] = {}
    for code, entry in _scores_by_code(
        codes, problem, reward, spending=spending, clusters=clusters
    ):
        scores[names[code]] = entry
    return scores


def breakdowns(
    fields: Mapping[str, tuple[Ints, Sequence[str]]],
    problem: Ints,
    reward: Floats,
    spending: Spending = PLANNED,
    *,
    clusters: Ints | None = None,
) -> dict[str, list[BreakdownEntry]]:
    """The mean reward by the values of each field.

    Args:
        fields: For each field, the code of each row and the names of the codes.
        problem: The problem id of each row.
        reward: The reward of each row.
        spending: How the error is divided.
        clusters: A code per row for problems that belong together.

    Returns:
        ``{field: [{group, n, mean_reward, ci_lower, ci_upper, ci_method}]}``; n counts rows.
    """
    scores: dict[str, list[BreakdownEntry]] = {}
    for field, (codes, names) in fields.items():
        entries = _scores_by_code(codes, problem, reward, spending=spending, clusters=clusters)
        scores[field] = [{"group": names[code], **entry} for code, entry in entries]
    return scores


def _scores_by_code(
    codes: Ints, problem: Ints, reward: Floats, *, spending: Spending, clusters: Ints | None
) -> list[tuple[int, GroupEntry]]:
    """Each code with the mean reward of its rows."""
    codes = np.asarray(codes)
    problem = np.asarray(problem)
    reward = np.asarray(reward, dtype=np.float64)
    single_answers = len(by_problem(problem, reward)) == len(reward)
    if single_answers and clusters is None and is_binary(reward):
        return _single_answer_scores(codes, reward, spending)
    order = np.argsort(codes, kind="stable")
    present_codes, starts = np.unique(codes[order], return_index=True)
    rows_of_codes = np.split(order, starts[1:])
    scores: list[tuple[int, GroupEntry]] = []
    for code, rows in zip(present_codes.tolist(), rows_of_codes, strict=True):
        group_clusters = None if clusters is None else clusters[rows]
        interval = _mean_interval(problem[rows], reward[rows], spending, clusters=group_clusters)
        entry = _mean_score(interval)
        entry["n"] = len(rows)
        scores.append((int(code), entry))
    return scores


def _mean_score(interval: Interval) -> GroupEntry:
    """The entry of an interval, with its value as ``mean_reward``."""
    return {
        "mean_reward": _round(interval.value),
        "ci_lower": _round(interval.lower),
        "ci_upper": _round(interval.upper),
        "ci_method": interval.method,
        "n": interval.n,
    }


def _single_answer_scores(
    codes: Ints, reward: Floats, spending: Spending
) -> list[tuple[int, GroupEntry]]:
    """``_scores_by_code`` for one 0/1 answer per problem: codes with equal counts share their interval."""
    codes, code_of_row, counts = np.unique(codes, return_inverse=True, return_counts=True)
    sums = np.bincount(code_of_row, weights=reward, minlength=len(codes))
    right_counts = np.rint(sums).astype(np.int64)
    entry_of_counts: dict[tuple[int, int], GroupEntry] = {}
    scores: list[tuple[int, GroupEntry]] = []
    columns = zip(codes.tolist(), counts.tolist(), right_counts.tolist(), strict=True)
    for code, answers, right in columns:
        entry = entry_of_counts.get((answers, right))
        if entry is None:
            values = np.repeat([1.0, 0.0], [right, answers - right])
            interval = spending.mean_interval(values, binary=True)
            entry = _mean_score(interval)
            entry_of_counts[answers, right] = entry
        scores.append((int(code), entry.copy()))
    return scores


def _mean_interval(
    problem: Ints,
    reward: Floats,
    spending: Spending,
    *,
    clusters: Ints | None = None,
    confidence: float = 0.95,
) -> Interval:
    """The interval of the mean reward over problems."""
    problems = by_problem(problem, reward)
    problem_clusters = None if clusters is None else np.asarray(clusters)[problems.first]
    return spending.mean_interval(
        problems.means,
        answers=problems.rows,
        binary=is_binary(reward),
        clusters=problem_clusters,
        confidence=confidence,
    )


def _round(value: float | None) -> float | None:
    """Return a number as bundles store it; None for an unknown one."""
    if value is None or math.isnan(value):
        return None
    return round(value, 6)


def headline_score_metrics(
    per_problem: Mapping[int, Sequence[float]], n_repeats: int
) -> dict[str, ScoreEntry]:
    """``headline_scores`` for rewards in the form ``{problem: [reward, ...]}``."""
    problem, reward = _columns([*per_problem.values()])
    return headline_scores(problem, reward, repeats=n_repeats)


def sample_level_ci(per_problem: Sequence[Sequence[float]], *, ci_level: float = 0.95) -> Interval:
    """Interval of the mean score over problems, from the rewards of each; see ``intervals.mean_interval``."""
    problem, reward = _columns(per_problem)
    return _mean_interval(problem, reward, PLANNED, confidence=ci_level)


def _columns(per_problem: Sequence[Sequence[float]]) -> tuple[Ints, Floats]:
    """Problem numbers and rewards, one per row."""
    answers = [len(rewards) for rewards in per_problem]
    problem = np.repeat(np.arange(len(per_problem)), answers)
    reward = np.fromiter(chain.from_iterable(per_problem), dtype=np.float64)
    return problem, reward


def category_breakdown(rows: Sequence[Mapping[str, Any]]) -> dict[str, GroupEntry]:
    """``category_scores`` for result rows in the form of dicts; without ``metadata.category`` a row is ``unknown``."""
    categories: list[str] = []
    problems: list[int] = []
    rewards: list[float] = []
    for row in rows:
        if row.get("reward") is None:
            continue
        metadata = row.get("metadata") or {}
        categories.append(str(metadata.get("category", "unknown")))
        problems.append(int(row.get("problem_idx", len(problems))))
        rewards.append(float(row["reward"]))
    names = sorted(set(categories))
    code_of_name = {name: code for code, name in enumerate(names)}
    codes = [code_of_name[category] for category in categories]
    return category_scores(
        codes=np.array(codes, dtype=np.int64),
        names=names,
        problem=np.array(problems, dtype=np.int64),
        reward=np.array(rewards, dtype=np.float64),
    )


@dataclass(frozen=True, slots=True)
class MissingBounds:
    """The range of a mean over all planned rows, and how many of them are missing."""

    lower: float
    upper: float
    missing: int


def missing_bounds(
    total: float, scored: int, planned: int, *, worst: float = 0.0, best: float = 1.0
) -> MissingBounds | None:
    """Bounds of the mean when the missing rows could have any reward in [worst, best] (Manski 1990).

    Args:
        total: Sum of the scored rewards.
        scored: Number of scored rows.
        planned: Number of planned rows.
        worst: The lowest possible reward.
        best: The highest possible reward.

    Returns:
        The bounds; None when no rows were planned.
    """
    if planned <= 0:
        return None
    missing = max(planned - scored, 0)
    lower = (total + missing * worst) / planned
    upper = (total + missing * best) / planned
    return MissingBounds(lower, upper, missing)


# pass@k (at least one of k answers is right) and pass^k (all k are), estimated without bias from n answers.


def pass_at_k(n: int, c: int, k: int) -> float:
    """The probability that at least one of ``k`` answers is right: 1 - C(n - c, k) / C(n, k) (Chen et al. 2021).

    Args:
        n: Number of answers.
        c: Number of right answers.
        k: Number of answers drawn.

    Raises:
        ValueError: ``k`` or ``c`` is out of range.
    """
    _check(n, c, k)
    all_wrong = math.comb(n - c, k) / math.comb(n, k)
    return 1.0 - all_wrong


def pass_hat_k(n: int, c: int, k: int) -> float:
    """The probability that all of ``k`` answers are right: C(c, k) / C(n, k) (Yao et al. 2024).

    The arguments are those of ``pass_at_k``.
    """
    _check(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def _check(n: int, c: int, k: int) -> None:
    """Check the arguments of ``pass_at_k``.

    Raises:
        ValueError: ``k`` or ``c`` is out of range.
    """
    if k < 1 or n < k:
        raise ValueError(f"cannot draw k={k} answers from n={n}")
    if not 0 <= c <= n:
        raise ValueError(f"c={c} right answers of n={n}: c must be between 0 and n")


def useful_ks(repeats: int) -> list[int]:
    """1, 2, 4, 8, ... up to ``repeats``, and ``repeats`` itself."""
    powers_of_two = {1 << exponent for exponent in range(repeats.bit_length())}
    return sorted(powers_of_two | {max(repeats, 1)})


def pass_intervals(
    problems: Problems,
    k: int,
    *,
    every: bool = False,
    clusters: Ints | None = None,
    confidence: float = 0.95,
    spending: Spending = PLANNED,
) -> tuple[Interval, Floats]:
    """pass@k (or pass^k) over the problems with at least ``k`` answers.

    Args:
        problems: Rewards of 0 or 1, grouped by problem.
        k: Number of answers drawn.
        every: Estimate pass^k instead of pass@k.
        clusters: The cluster of each problem; None when problems are independent.
        confidence: Confidence level.
        spending: How the error is divided.

    Returns:
        The interval, and the estimate of each problem.
    """
    has_enough = problems.counts >= k
    counts = problems.counts[has_enough]
    if len(counts) == 0:
        return Interval.without_bounds(method="none"), np.empty(0)
    right_counts = np.rint(problems.totals[has_enough]).astype(np.int64)
    values = _pass_estimates(counts, right_counts, k, every=every)
    # Each estimate uses k answers, so the answers hold at most 1 / k as many independent estimates.
    independent_estimates = max(int(counts.sum()) / k, len(counts))
    interval = spending.mean_interval(
        values,
        answers=independent_estimates,
        binary=True,
        clusters=None if clusters is None else clusters[has_enough],
        confidence=confidence,
    )
    return interval, values


def _pass_estimates(counts: Ints, right_counts: Ints, k: int, *, every: bool) -> Floats:
    """The estimate of pass@k (or pass^k) of each problem; the formula runs once per distinct pair of counts.

    Args:
        counts: The number of answers to each problem, at least ``k``.
        right_counts: The number of those that are right.
        k: Number of answers drawn.
        every: Estimate pass^k instead of pass@k.
    """
    estimate = pass_hat_k if every else pass_at_k
    # One number stands for a pair of counts: answers * base + right.
    base = int(counts.max()) + 1
    pairs, pair_of_problem = np.unique(counts * base + right_counts, return_inverse=True)
    pair_estimates: list[float] = []
    for pair in pairs.tolist():
        answers, right = divmod(pair, base)
        pair_estimates.append(estimate(answers, right, k))
    return np.array(pair_estimates, dtype=np.float64)[pair_of_problem]
