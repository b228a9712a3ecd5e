"""The numbers of a bundle: headline, summary, categories, breakdowns, extra scorers, what failed rows could hide. All
take columns of *scored* rows; a failed row has no place here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """``pass@k`` and ``pass^k`` for rewards that are all 0 or 1, ``mean_reward`` otherwise; nothing without rows.
    ``clusters`` (one code per row) names problems that belong together, such as questions on one passage. ``spending``
    says whether the number of problems was settled beforehand."""
    reward = np.asarray(reward, dtype=np.float64)
    if not len(reward):
        return {}
    problems = by_problem(problem, reward)
    if clusters is None:
        groups: np.ndarray[tuple[Any, ...], np.dtype[np.integer[Any]]] | None = None
    else:
        groups = np.asarray(clusters)[problems.first]
    if not is_binary(reward):
        return {
            "mean_reward": score(
                spending.mean_interval(problems.means, answers=problems.rows, clusters=groups)
            )
        }
    values = problems.means
    scores = {
        "pass@1": score(
            spending.mean_interval(values, answers=problems.rows, binary=True, clusters=groups)
        )
    }
    # A bootstrap knows nothing of looks.
    if spending == PLANNED and len(values) > 1 and few_levels(values):
        lower, upper = np.quantile(resampled(values)[0], [0.025, 0.975])
        scores["pass@1"] |= {
            "bootstrap_ci_lower": _round(float(lower)),
            "bootstrap_ci_upper": _round(float(upper)),
        }
    ks = [k for k in useful_ks(max(repeats, 1)) if k > 1]
    for name, every in (("pass@", False), ("pass^", True)):
        for k in ks:
            interval, _ = pass_intervals(
                problems, k, every=every, clusters=groups, spending=spending
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
    """The entry ``scorer:<name>`` of a further scorer."""
    reward = np.asarray(reward, dtype=np.float64)
    entry = score(_interval_of(problem, reward, spending))
    return entry | {"correct": int((reward > 0).sum()), "total": len(reward)}


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
    """``{category: {mean_reward, n, ci_lower, ci_upper}}``; ``codes`` index ``names``, one per row; n counts rows."""
    mapping: dict[str, dict[str, Any]] = {}
    for code, entry in _groups(codes, problem, reward, spending=spending):
        mapping[names[code]] = entry
    return mapping


def breakdowns(
    fields: Mapping[str, tuple[Ints, Sequence[str]]],
    problem: Ints,
    reward: Floats,
    spending: Spending = PLANNED,
) -> dict[str, list[JsonDict]]:
    """Mean reward by the values of each field: ``{field: [{group, n, mean_reward, ci_lower, ci_upper}]}``."""
    mapping: dict[str, list[JsonDict]] = {}
    for field, (codes, names) in fields.items():
        mapping[field] = [
            {"group": names[code], **entry}
            for code, entry in _groups(codes, problem, reward, spending=spending)
        ]
    return mapping


def _groups(
    codes: Ints, problem: Ints, reward: Floats, spending: Spending
) -> list[tuple[int, JsonDict]]:
    """One mean reward per code."""
    codes = np.asarray(codes)
    problem = np.asarray(problem)
    reward = np.asarray(reward, dtype=np.float64)
    if is_binary(reward) and len(by_problem(problem, reward)) == len(reward):
        return _single_answers(codes, reward, spending)
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    results: list[tuple[int, JsonDict]] = []
    for code, rows in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        results.append(
            (
                int(code),
                _mean(_interval_of(problem[rows], reward[rows], spending)) | {"n": len(rows)},
            )
        )
    return results


def _mean(interval: Interval) -> JsonDict:
    entry = score(interval)
    return {"mean_reward": entry.pop("value"), **entry}


def _single_answers(codes: Ints, reward: Floats, spending: Spending) -> list[tuple[int, JsonDict]]:
    """The same for one 0/1 answer per problem: groups of equal size and score share their interval."""
    present, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
    right = np.rint(np.bincount(inverse, weights=reward, minlength=len(present))).astype(np.int64)
    known: dict[tuple[int, int], JsonDict] = {}
    out = []
    for code, n, k in zip(present.tolist(), counts.tolist(), right.tolist(), strict=True):
        if (n, k) not in known:
            known[n, k] = _mean(
                spending.mean_interval(np.repeat([1.0, 0.0], [k, n - k]), binary=True)
            )
        out.append((int(code), dict(known[n, k])))
    return out


def _interval_of(
    problem: Ints, reward: Floats, spending: Spending, confidence: float = 0.95
) -> Interval:
    found = by_problem(problem, reward)
    return spending.mean_interval(
        found.means, answers=found.rows, binary=is_binary(reward), confidence=confidence
    )


def _round(value: float | None) -> float | None:
    if value is None or math.isnan(value):
        return None
    return round(value, 6)


def headline_score_metrics(
    per_problem: Mapping[int, Sequence[float]], n_repeats: int
) -> dict[str, JsonDict]:
    """``headline_scores`` for rewards held as ``{problem: [reward, ...]}``."""
    return headline_scores(*_columns([*per_problem.values()]), repeats=n_repeats)


def sample_level_ci(per_problem: Sequence[Sequence[float]], *, ci_level: float = 0.95) -> Interval:
    """Interval of the mean score over problems, from the answers of each; see ``mean_interval``."""
    return _interval_of(*_columns(per_problem), PLANNED, ci_level)


def _columns(per_problem: Sequence[Sequence[float]]) -> tuple[Ints, Floats]:
    problem = np.repeat(np.arange(len(per_problem)), [len(rewards) for rewards in per_problem])
    return problem, np.array(
        [reward for rewards in per_problem for reward in rewards], dtype=np.float64
    )


def category_breakdown(rows: Sequence[Mapping[str, Any]]) -> dict[str, JsonDict]:
    """``category_scores`` for result rows held as dicts; a row without ``metadata.category`` is ``unknown``."""
    scored = [row for row in rows if row.get("reward") is not None]
    labels = [str((row.get("metadata") or {}).get("category", "unknown")) for row in scored]
    names = sorted(set(labels))
    place = {name: i for i, name in enumerate(names)}
    codes = np.array([place[label] for label in labels], dtype=np.int64)
    problem = np.array(
        [int(row.get("problem_idx", i)) for i, row in enumerate(scored)], dtype=np.int64
    )
    reward = np.array([float(row["reward"]) for row in scored], dtype=np.float64)
    return category_scores(codes, names, problem, reward=reward)


@dataclass(frozen=True, slots=True)
class MissingBounds:
    """The range of a mean over all planned rows."""

    lower: float
    upper: float
    missing: int


def missing_bounds(
    total: float, scored: int, planned: int, *, worst: float = 0.0, best: float = 1.0
) -> MissingBounds | None:
    """Bounds of the mean when ``planned - scored`` rows could have any reward in [worst, best]."""
    if planned <= 0:
        return None
    missing = max(planned - scored, 0)
    return MissingBounds(
        (total + missing * worst) / planned, (total + missing * best) / planned, missing
    )


# pass@k (at least one of k answers is right) and pass^k (all k are), estimated without bias from n answers.


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that one of ``k`` answers drawn from ``n``, ``c`` of them right, is right."""
    _check(n, c, k)
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """The chance that all of ``k`` answers drawn from ``n``, ``c`` of them right, are right."""
    _check(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def _check(n: int, c: int, k: int) -> None:
    if k < 1 or n < k:
        raise ValueError(f"cannot draw k={k} answers from n={n}")
    if not 0 <= c <= n:
        raise ValueError(f"c={c} right answers of n={n}")


def useful_ks(repeats: int) -> list[int]:
    """1, 2, 4, 8, ... up to ``repeats``, and ``repeats`` itself."""
    ks = {1 << i for i in range(repeats.bit_length()) if 1 << i <= repeats}
    return sorted(ks | {max(repeats, 1)})


def pass_intervals(
    problems: Problems,
    k: int,
    *,
    every: bool = False,
    clusters: Ints | None = None,
    confidence: float = 0.95,
    spending: Spending = PLANNED,
) -> tuple[Interval, Floats]:
    """pass@k (or pass^k with ``every``) over the problems with at least ``k`` answers, and that of each of them."""
    enough = problems.counts >= k
    counts = problems.counts[enough]
    if not len(counts):
        return Interval(math.nan, None, None, method="none", n=0), np.empty(0)
    correct = np.rint(problems.totals[enough]).astype(np.int64)
    width = int(counts.max()) + 1
    # The formula runs once per distinct (answers, right) pair.
    pairs, inverse = np.unique(counts * width + correct, return_inverse=True)
    estimate = pass_hat_k if every else pass_at_k
    values = np.array(
        [estimate(int(p) // width, int(p) % width, k) for p in pairs], dtype=np.float64
    )[inverse]
    found = spending.mean_interval(
        values,
        # With k answers used up per estimate, a problem holds at most answers / k independent ones.
        answers=max(int(counts.sum()) / k, len(counts)),
        binary=True,
        clusters=None if clusters is None else clusters[enough],
        confidence=confidence,
    )
    return found, values
