"""The numbers of a bundle: headline, summary, categories, breakdowns, extra scorers and the bounds for missing rows.

All functions take columns of *scored* rows; failed rows are left out beforehand.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.statistics.alpha_spending import PLANNED, Spending
from nemo_evaluator.statistics.bootstrap import few_levels, resampled
from nemo_evaluator.statistics.groups import Floats, Ints, Problems, by_problem, is_binary
from nemo_evaluator.statistics.intervals import Interval


def headline_scores(
    problem: Ints,
    reward: Floats,
    *,
    repeats: int,
    clusters: Ints | None = None,
    spending: Spending = PLANNED,
) -> dict[str, JsonDict]:
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
    if not len(reward):
        return {}
    problems = by_problem(problem, reward)
    problem_clusters: Ints | None = None
    if clusters is not None:
        problem_clusters = np.asarray(clusters)[problems.first]
    binary = is_binary(reward)
    values = problems.means
    mean = spending.mean_interval(
        values, answers=problems.rows, binary=binary, clusters=problem_clusters
    )
    if not binary:
        return {"mean_reward": score(mean)}
    scores = {"pass@1": score(mean)}
    # The bootstrap cannot correct for looks at unfinished data.
    if spending == PLANNED and len(values) > 1 and few_levels(values):
        bootstrap_means = resampled(values).means
        lower, upper = np.quantile(bootstrap_means, [0.025, 0.975])
        scores["pass@1"]["bootstrap_ci_lower"] = _round(float(lower))
        scores["pass@1"]["bootstrap_ci_upper"] = _round(float(upper))
    for name, every in (("pass@", False), ("pass^", True)):
        for k in useful_ks(max(repeats, 1)):
            if k == 1:
                continue
            interval, _ = pass_intervals(
                problems, k, every=every, clusters=problem_clusters, spending=spending
            )
            if interval.n:
                scores[f"{name}{k}"] = score(interval)
    return scores


def score(interval: Interval) -> JsonDict:
    """An interval as an entry of ``scores``."""
    return {
        "value": _round(interval.value),
        "ci_lower": _round(interval.lower),
        "ci_upper": _round(interval.upper),
        "ci_method": interval.method,
        "n": interval.n,
    }


def scorer_score(problem: Ints, reward: Floats, spending: Spending = PLANNED) -> JsonDict:
    """The entry ``scorer:<name>`` of an additional scorer."""
    reward = np.asarray(reward, dtype=np.float64)
    entry = score(_mean_interval(problem, reward, spending))
    entry["correct"] = int((reward > 0).sum())
    entry["total"] = len(reward)
    return entry


def summary_scores(reward: Floats) -> JsonDict:
    """Mean, standard deviation, extremes and median over all scored rows."""
    reward = np.asarray(reward, dtype=np.float64)
    if not len(reward):
        return {"mean": None, "std": None, "min": None, "max": None, "median": None, "n": 0}
    return {
        "mean": float(reward.mean()),
        "std": float(reward.std(ddof=1)) if len(reward) > 1 else 0.0,
        "min": float(reward.min()),
        "max": float(reward.max()),
        "median": float(np.median(reward)),
        "n": len(reward),
    }


def category_scores(
    codes: Ints, names: Sequence[str], problem: Ints, reward: Floats, spending: Spending = PLANNED
) -> dict[str, JsonDict]:
    """The mean reward of each category.

    Args:
        codes: The category of each row, as an index into ``names``.
        names: The names of the categories.
        problem: The problem id of each row.
        reward: The reward of each row.
        spending: How the error is divided.

    Returns:
        ``{category: {mean_reward, n, ci_lower, ci_upper}}``; n counts rows.
    """
    scores: dict[str, JsonDict] = {}
    for code, entry in _scores_by_code(codes, problem, reward, spending=spending):
        scores[names[code]] = entry
    return scores


def breakdowns(
    fields: Mapping[str, tuple[Ints, Sequence[str]]],
    problem: Ints,
    reward: Floats,
    spending: Spending = PLANNED,
) -> dict[str, list[JsonDict]]:
    """The mean reward by the values of each field.

    Args:
        fields: For each field, the code of each row and the names of the codes.
        problem: The problem id of each row.
        reward: The reward of each row.
        spending: How the error is divided.

    Returns:
        ``{field: [{group, n, mean_reward, ci_lower, ci_upper}]}``; n counts rows.
    """
    scores: dict[str, list[JsonDict]] = {}
    for field, (codes, names) in fields.items():
        entries = _scores_by_code(codes, problem, reward, spending=spending)
        scores[field] = [{"group": names[code], **entry} for code, entry in entries]
    return scores


def _scores_by_code(
    codes: Ints, problem: Ints, reward: Floats, spending: Spending
) -> list[tuple[int, JsonDict]]:
    """Each code with the mean reward of its rows."""
    codes = np.asarray(codes)
    problem = np.asarray(problem)
    reward = np.asarray(reward, dtype=np.float64)
    if is_binary(reward) and len(by_problem(problem, reward)) == len(reward):
        return _single_answer_scores(codes, reward, spending)
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    scores: list[tuple[int, JsonDict]] = []
    for code, rows in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        entry = _mean_score(_mean_interval(problem[rows], reward[rows], spending))
        entry["n"] = len(rows)
        scores.append((int(code), entry))
    return scores


def _mean_score(interval: Interval) -> JsonDict:
    """The entry of an interval, with its value as ``mean_reward``."""
    entry = score(interval)
    return {"mean_reward": entry.pop("value"), **entry}


def _single_answer_scores(
    codes: Ints, reward: Floats, spending: Spending
) -> list[tuple[int, JsonDict]]:
    """``_scores_by_code`` for one 0/1 answer per problem: codes with equal counts share their interval."""
    present, code_of_row, counts = np.unique(codes, return_inverse=True, return_counts=True)
    right_answers = np.bincount(code_of_row, weights=reward, minlength=len(present))
    right = np.rint(right_answers).astype(np.int64)
    entries: dict[tuple[int, int], JsonDict] = {}
    scores: list[tuple[int, JsonDict]] = []
    for code, n, k in zip(present.tolist(), counts.tolist(), right.tolist(), strict=True):
        if (n, k) not in entries:
            values = np.repeat([1.0, 0.0], [k, n - k])
            entries[n, k] = _mean_score(spending.mean_interval(values, binary=True))
        scores.append((int(code), dict(entries[n, k])))
    return scores


def _mean_interval(
    problem: Ints, reward: Floats, spending: Spending, confidence: float = 0.95
) -> Interval:
    """The interval of the mean reward over problems."""
    problems = by_problem(problem, reward)
    return spending.mean_interval(
        problems.means, answers=problems.rows, binary=is_binary(reward), confidence=confidence
    )


def _round(value: float | None) -> float | None:
    """Return a number as bundles store it; None for an unknown one."""
    if value is None or math.isnan(value):
        return None
    return round(value, 6)


def headline_score_metrics(
    per_problem: Mapping[int, Sequence[float]], n_repeats: int
) -> dict[str, JsonDict]:
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


def category_breakdown(rows: Sequence[Mapping[str, Any]]) -> dict[str, JsonDict]:
    """``category_scores`` for result rows in the form of dicts; without ``metadata.category`` a row is ``unknown``."""
    labels: list[str] = []
    problems: list[int] = []
    rewards: list[float] = []
    for row in rows:
        if row.get("reward") is None:
            continue
        metadata = row.get("metadata") or {}
        labels.append(str(metadata.get("category", "unknown")))
        problems.append(int(row.get("problem_idx", len(problems))))
        rewards.append(float(row["reward"]))
    names = sorted(set(labels))
    code_of = {name: code for code, name in enumerate(names)}
    codes = np.array([code_of[label] for label in labels], dtype=np.int64)
    problem = np.array(problems, dtype=np.int64)
    reward = np.array(rewards, dtype=np.float64)
    return category_scores(codes, names, problem, reward=reward)


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
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """The probability that all of ``k`` answers are right: C(c, k) / C(n, k) (Yao et al. 2024).

    The arguments are those of ``pass_at_k``.
    """
    _check(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def _check(n: int, c: int, k: int) -> None:
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
    enough = problems.counts >= k
    counts = problems.counts[enough]
    if not len(counts):
        return Interval(math.nan, None, None, method="none", n=0), np.empty(0)
    correct = np.rint(problems.totals[enough]).astype(np.int64)
    width = int(counts.max()) + 1
    # The formula runs once per distinct (answers, right) pair.
    pairs, inverse = np.unique(counts * width + correct, return_inverse=True)
    estimate = pass_hat_k if every else pass_at_k
    pair_values = [estimate(pair // width, pair % width, k) for pair in pairs.tolist()]
    values = np.array(pair_values, dtype=np.float64)[inverse]
    # Each estimate uses k answers, so the answers hold at most 1 / k as many independent estimates.
    independent_estimates = max(int(counts.sum()) / k, len(counts))
    interval = spending.mean_interval(
        values,
        answers=independent_estimates,
        binary=True,
        clusters=None if clusters is None else clusters[enough],
        confidence=confidence,
    )
    return interval, values
