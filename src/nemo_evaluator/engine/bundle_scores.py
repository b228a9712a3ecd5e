"""The numbers of a bundle: scores with intervals, categories, runtime and failures, computed from the columns."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.engine.columns import Columns, ExtraColumn, Labels
from nemo_evaluator.runs.row_table import Ints
from nemo_evaluator.statistics import (
    Spending,
    breakdowns,
    category_scores,
    headline_scores,
    missing_bounds,
    scorer_score,
    spending_of,
    summary_scores,
)
from nemo_evaluator.statistics.clusters import codes_of_clusters

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import (
        BoundsEntry,
        ClustersEntry,
        FailureAnalysis,
        FailureCategory,
        GroupEntry,
        Percentiles,
        RuntimeEntry,
        ScoreEntry,
        StoppedEntry,
        ValueEntry,
    )


def all_scores(
    columns: Columns,
    extra_scores: Mapping[str, ValueEntry],
    *,
    repeats: int,
    stopped: StoppedEntry | None,
    elapsed: float,
    reported: ScoreEntry | None = None,
) -> JsonDict:
    """Return the ``scores`` of a bundle.

    Args:
        columns: The rows.
        extra_scores: Scores that the benchmark computes over all rows; they override scores of the same name.
        repeats: The planned answers per problem.
        stopped: How the run ended early; a stop rule widens the intervals.
        elapsed: Seconds of the whole run.
        reported: The score of a harness that wrote no rows: one row has no interval, spread or breakdown.
    """
    problem, reward = columns.scores()
    clusters = columns.clusters()
    spending = spending_of(stopped)
    scores: JsonDict = {}
    if reported is not None:
        scores["mean_reward"] = reported
    elif len(reward):
        scores |= headline_scores(
            problem, reward, repeats=repeats, clusters=clusters, spending=spending
        )
        for name, column in columns.extra.items():
            scores[name] = _extra_score(column, spending)
        scores["summary"] = summary_scores(reward)
        groups = {}
        for key, labels in columns.groups.items():
            groups[key] = (_codes(labels), list(labels.names))
        scores["breakdowns"] = breakdowns(
            groups, problem, reward, spending=spending, clusters=clusters
        )
    for name, entry in extra_scores.items():
        if name in scores:
            scores[name] = _clipped(scores[name], entry)
        else:
            scores[name] = entry
    scores["runtime"] = _runtime(columns, elapsed)
    scores["failures"] = _failures(columns)
    return scores


def scores_by_category(columns: Columns, stopped: StoppedEntry | None) -> dict[str, GroupEntry]:
    """Return the score of each category; empty if the problems have none."""
    if not columns.has_category:
        return {}
    problem, reward = columns.scores()
    return category_scores(
        _codes(columns.category),
        list(columns.category.names),
        problem,
        reward=reward,
        spending=spending_of(stopped),
        clusters=columns.clusters(),
    )


def _extra_score(column: ExtraColumn, spending: Spending) -> ScoreEntry:
    """Return the score of a further scorer."""
    problem = np.asarray(column.problem)
    clusters = codes_of_clusters(np.asarray(column.cluster), problem)
    return scorer_score(problem, np.asarray(column.reward), spending, clusters=clusters)


def cluster_counts(columns: Columns) -> ClustersEntry | None:
    """Return how many scored problems belong to how many clusters; None if each is a cluster of its own."""
    problem, _ = columns.scores()
    clusters = columns.clusters()
    if clusters is None:
        return None
    _, first_rows = np.unique(problem, return_index=True)
    _, sizes = np.unique(clusters[first_rows], return_counts=True)
    if len(sizes) == len(first_rows):
        return None
    return {
        "problems": len(first_rows),
        "clusters": len(sizes),
        "largest": int(sizes.max()),
    }


def headline_bounds(columns: Columns) -> BoundsEntry | None:
    """Return the headline if every row without a score counted as 0, or as 1; None for rewards outside [0, 1]."""
    _, reward = columns.scores()
    has_scores = len(reward) > 0
    if has_scores and (reward.min() < 0 or reward.max() > 1):
        return None
    bounds = missing_bounds(float(reward.sum()), columns.scored, columns.planned)
    if bounds is None:
        return None
    return {
        "lower": rounded(bounds.lower),
        "upper": rounded(bounds.upper),
        "missing": bounds.missing,
    }


def share_of(count: int, total: int) -> float:
    """Return ``count`` divided by ``total`` with four decimals; 0 if the total is 0."""
    return rounded(count / total) if total else 0.0


def rounded(value: float) -> float:
    """Round a share to four decimals."""
    return round(value, 4)


def _clipped(entry: JsonDict, published: ValueEntry) -> JsonDict:
    """Merge a published score, which is clipped to [0, 1], into an entry whose bounds are clipped as well."""
    clipped = dict(entry)
    for key in ("ci_lower", "ci_upper"):
        if entry.get(key) is not None:
            clipped[key] = min(1.0, max(0.0, entry[key]))
    return {**clipped, **published}


def _codes(labels: Labels) -> Ints:
    return np.asarray(labels.codes)


def _runtime(columns: Columns, elapsed: float) -> RuntimeEntry:
    """Return tokens, times and retries of the run."""
    steps = columns.scored + columns.failed
    totals = columns.totals
    total_tokens = totals["total_tokens"]
    finish_reasons = {name: count for name, count in columns.finish.counts().items() if name}
    tokens_per_second = 0.0
    steps_per_second = 0.0
    if elapsed:
        tokens_per_second = round(total_tokens / elapsed, 2)
        steps_per_second = round(steps / elapsed, 2)
    runtime: RuntimeEntry = {
        "total_steps": steps,
        "total_tokens": total_tokens,
        "total_prompt_tokens": totals["prompt_tokens"],
        "total_completion_tokens": totals["completion_tokens"],
        "total_reasoning_tokens": totals["reasoning_tokens"],
        "elapsed_seconds": round(elapsed, 3),
        "latency_percentiles_ms": _percentiles(columns.latency),
        "queue_percentiles_ms": _percentiles(columns.queue),
        "tokens_per_second": tokens_per_second,
        "steps_per_second": steps_per_second,
        "model_errors": columns.failed,
        "total_retries": max(0, totals["attempts"] - columns.answered),
        "finish_reason_counts": finish_reasons,
    }
    if columns.cost_usd:
        runtime["cost"] = round(columns.cost_usd, 6)
    return runtime


def _percentiles(column: array[float]) -> Percentiles:
    """Return three percentiles of the known values of a column; 0 if there are none."""
    values = np.asarray(column)[~np.isnan(column)]
    if not len(values):
        return {"p50": 0.0, "p90": 0.0, "p99": 0.0}
    p50, p90, p99 = np.percentile(values, [50, 90, 99])
    return {"p50": round(p50, 2), "p90": round(p90, 2), "p99": round(p99, 2)}


def _failures(columns: Columns) -> FailureAnalysis:
    """Return the failures by category, the most frequent first, with examples."""
    steps = columns.scored + columns.failed
    total = sum(columns.failures.values())
    categories: dict[str, FailureCategory] = {}
    for name, count in columns.failures.most_common():
        categories[name] = {
            "count": count,
            "percentage": share_of(count, steps),
            "exemplars": columns.exemplars[name],
        }
    return {
        "total_steps": steps,
        "total_failures": total,
        "failure_rate": share_of(total, steps),
        "categories": categories,
    }
