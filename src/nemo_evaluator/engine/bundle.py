"""The bundle: the summary of one finished benchmark, made from its columns."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from nemo_evaluator._version import __version__
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.files import stored, write_json
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.engine.columns import Columns, Labels
from nemo_evaluator.runs.bundle import INVALID, VALID, Bundle, calibrated, config_hash
from nemo_evaluator.runs.calibration import PLACE
from nemo_evaluator.runs.row_table import Ints
from nemo_evaluator.runs.tampering import Tampering
from nemo_evaluator.statistics import (
    breakdowns,
    by_problem,
    category_scores,
    headline_scores,
    missing_bounds,
    scorer_score,
    spending_of,
    summary_scores,
)
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.sums import FILE as SUMS
from nemo_evaluator.store.sums import MARK, record_sums
from nemo_evaluator.store.view_rows import TRUNCATED


@dataclass(slots=True)
class BundleFacts:
    """What a bundle says besides the numbers."""

    name: str
    repeats: int
    config: JsonDict
    min_coverage: float
    elapsed: float
    finished: datetime
    stopped: JsonDict | None = None
    extra_scores: JsonDict = field(default_factory=dict)
    missing_shards: list[str] = field(default_factory=list)
    # What the judges made of a right and a wrong answer, and what that cost.
    canaries: JsonDict = field(default_factory=dict)


def build_bundle(columns: Columns, facts: BundleFacts, run_id: str) -> JsonDict:
    """Scores with intervals, coverage, runtime and failures of one benchmark."""
    planned = columns.planned
    share = columns.scored / planned if planned else 0.0
    tampering = tampering_of(columns)
    truncated = sum(
        count for reason, count in columns.finish.counts().items() if reason in TRUNCATED
    )
    coverage = {
        "planned": planned,
        "scored": columns.scored,
        "failed": columns.failed,
        "share": _round(share),
    }
    bundle: JsonDict = {
        "run_id": run_id,
        "config_hash": config_hash(facts.config),
        "sdk_version": __version__,
        "timestamp": facts.finished.isoformat(),
        "validity": validity(columns, facts),
        "config": facts.config,
        "benchmark": {
            "name": facts.name,
            "samples": columns.samples,
            "repeats": facts.repeats,
            "coverage": coverage,
            "truncated_share": _round(truncated / columns.answered) if columns.answered else 0.0,
            "unparsed_share": _round(columns.unparsed.count(1) / columns.scored)
            if columns.scored
            else 0.0,
            "notes": _notes(columns, facts),
            "bounds": _bounds(columns),
            "scores": _scores(columns, facts),
            "categories": _categories(columns, facts),
        },
        "n_results": columns.scored + columns.failed,
    }
    if tampering is not None:
        bundle["benchmark"]["tamper"] = tampering.to_dict()
    if facts.canaries:
        bundle["benchmark"]["canaries"] = facts.canaries
    if columns.fallbacks:
        bundle["benchmark"]["fallback"] = dict(columns.fallbacks)
    if facts.stopped is not None:
        bundle["stopped"] = facts.stopped
    return bundle


def _notes(columns: Columns, facts: BundleFacts) -> list[str]:
    """What must be said wherever the score is shown."""
    notes: list[str] = []
    for how, count in columns.fallbacks.most_common():
        notes.append(
            f"no judge: {count:,} of {columns.scored:,} rows scored by a fallback ({how}); not comparable with judged "
            "scores"
        )
    tampering = tampering_of(columns)
    if tampering is not None:
        notes.append(tampering.words)
    if columns.tripped:
        words = ", ".join(f"{what} ({count:,})" for what, count in columns.tripwires.most_common())
        notes.append(
            f"agents reached for their own grading in {counted(columns.tripped, 'row')}: {words}"
        )
    generation = facts.config.get("generation")
    if facts.repeats > 1 and isinstance(generation, dict) and generation.get("temperature") == 0:
        notes.append(
            f"{facts.repeats} repeats at temperature 0 measure how far the server repeats itself, not what sampling "
            "would find: pass@k hardly exceeds pass@1"
        )
    return notes


def _bounds(columns: Columns) -> JsonDict | None:
    """The headline if every row without a score were worth 0, or 1; None for rewards beyond [0, 1]."""
    _, reward = columns.scores()
    if len(reward) and (reward.min() < 0 or reward.max() > 1):
        return None
    found = missing_bounds(float(reward.sum()), columns.scored, columns.planned)
    if found is None:
        return None
    return {"lower": _round(found.lower), "upper": _round(found.upper), "missing": found.missing}


def validity(columns: Columns, facts: BundleFacts) -> JsonDict:
    """VALID, or INVALID with the reasons."""
    reasons = []
    share = columns.scored / columns.planned if columns.planned else 0.0
    if not columns.planned:
        reasons.append("there were no problems to ask")
    elif share < facts.min_coverage:
        failed_by = (
            (cause, count) for cause, count in columns.cause.counts().most_common() if cause
        )
        causes = ", ".join(f"{count} {cause}" for cause, count in islice(failed_by, 3))
        missing = columns.planned - columns.scored
        reasons.append(
            f"coverage {share:.1%} is below the minimum of {facts.min_coverage:.0%}: "
            f"{missing} of {columns.planned} steps not scored" + (f" ({causes})" if causes else "")
        )
    tampering = tampering_of(columns)
    if tampering is not None and tampering.too_much:
        reasons.append(tampering.words)
    if facts.missing_shards:
        reasons.append(f"shards are missing: {', '.join(facts.missing_shards)}")
    return {"status": INVALID if reasons else VALID, "reasons": reasons}


def tampering_of(columns: Columns) -> Tampering | None:
    """The rows that tampered with their own judging; None where there are none."""
    code = columns.cause.names.get(Cause.TAMPER)
    tampered = np.asarray(columns.cause.codes) == code
    if code is None or not tampered.any():
        return None
    reward = np.where(tampered, 0.0, np.asarray(columns.reward))
    judged = ~np.isnan(reward)
    score = float(by_problem(np.asarray(columns.problem)[judged], reward[judged]).means.mean())
    return Tampering(tampered=int(tampered.sum()), judged=int(judged.sum()), score=score)


def write_bundle(task: TaskPaths, columns: Columns, facts: BundleFacts) -> JsonDict:
    """Write the bundle and its two companions; returns the bundle."""
    bundle = kept_calibration(
        task, build_bundle(columns, facts, task.bundle(facts.name, facts.finished).stem)
    )
    store_bundle(task, bundle, columns.digests)
    return bundle


def kept_calibration(task: TaskPaths, bundle: JsonDict) -> JsonDict:
    """The bundle with what labels made of the one before it: that stays, or shows to be stale."""
    earlier: list[dict[str, Any]] = []
    for path in task.bundles()[-1:]:
        earlier.append(as_dict(as_dict(stored(path).get("benchmark")).get(PLACE)))
    if any(earlier):
        return calibrated(Bundle(task.root, bundle), earlier[0]).document
    return bundle


def store_bundle(task: TaskPaths, bundle: JsonDict, digests: dict[Path, str]) -> None:
    """The files of a bundle; the bundle itself comes last, when everything that it speaks of is there."""
    scores = bundle["benchmark"]["scores"]
    write_json(task.runtime_stats, scores["runtime"])
    if scores["failures"]["total_failures"]:
        write_json(task.failure_analysis, scores["failures"])
    else:
        task.failure_analysis.unlink(missing_ok=True)
    bundle[MARK] = SUMS
    path = task.root / f"{bundle['run_id']}.json"
    write_json(path, bundle)
    for old in task.bundles():
        if old != path:
            old.unlink()
    views = (task.results, task.trajectories, task.runtime_stats, task.failure_analysis, path)
    record_sums(task.root, views, known=digests)


def _scores(columns: Columns, facts: BundleFacts) -> JsonDict:
    problem, reward = columns.scores()
    scores: JsonDict = {}
    spending = spending_of(facts.stopped)
    if len(reward):
        scores |= headline_scores(problem, reward, repeats=facts.repeats, spending=spending)
        for name, (rows, rewards) in columns.extra.items():
            scores[name] = scorer_score(np.asarray(rows), np.asarray(rewards), spending)
        scores["summary"] = summary_scores(reward)
        groups = {
            key: (_codes(labels), list(labels.names)) for key, labels in columns.groups.items()
        }
        scores["breakdowns"] = breakdowns(groups, problem, reward, spending=spending)
    for name, entry in facts.extra_scores.items():
        if name in scores:
            scores[name] = _restated(scores[name], entry)
        else:
            scores[name] = entry
    scores["runtime"] = _runtime(columns, facts.elapsed)
    scores["failures"] = _failures(columns)
    return scores


def _restated(entry: JsonDict, own: JsonDict) -> JsonDict:
    """A headline that its benchmark publishes clipped to [0, 1]: the bounds are clipped with it."""
    bounds = {key: entry[key] for key in ("ci_lower", "ci_upper") if entry.get(key) is not None}
    return {**entry, **{key: min(1.0, max(0.0, bound)) for key, bound in bounds.items()}, **own}


def _categories(columns: Columns, facts: BundleFacts) -> JsonDict:
    if not columns.has_category:
        return {}
    problem, reward = columns.scores()
    codes = _codes(columns.category)
    names = list(columns.category.names)
    return dict(
        category_scores(codes, names, problem, reward=reward, spending=spending_of(facts.stopped))
    )


def _codes(labels: Labels) -> Ints:
    return np.asarray(labels.codes)


def _runtime(columns: Columns, elapsed: float) -> JsonDict:
    steps = columns.scored + columns.failed
    total = columns.totals["total_tokens"]
    runtime: JsonDict = {
        "total_steps": steps,
        "total_tokens": total,
        "total_prompt_tokens": columns.totals["prompt_tokens"],
        "total_completion_tokens": columns.totals["completion_tokens"],
        "total_reasoning_tokens": columns.totals["reasoning_tokens"],
        "elapsed_seconds": round(elapsed, 3),
        "latency_percentiles_ms": _percentiles(columns.latency),
        "queue_percentiles_ms": _percentiles(columns.queue),
        "tokens_per_second": round(total / elapsed, 2) if elapsed else 0.0,
        "steps_per_second": round(steps / elapsed, 2) if elapsed else 0.0,
        "model_errors": columns.failed,
        "total_retries": max(0, columns.totals["attempts"] - columns.answered),
        "finish_reason_counts": {
            reason: count for reason, count in columns.finish.counts().items() if reason
        },
    }
    if columns.cost_usd:
        runtime["cost"] = round(columns.cost_usd, 6)
    return runtime


def _percentiles(column: array[float]) -> JsonDict:
    known = np.asarray(column)[~np.isnan(column)]
    p50, p90, p99 = np.percentile(known, [50, 90, 99]) if len(known) else (0.0, 0.0, 0.0)
    return {"p50": round(p50, 2), "p90": round(p90, 2), "p99": round(p99, 2)}


def _failures(columns: Columns) -> JsonDict:
    steps = columns.scored + columns.failed
    total = sum(columns.failures.values())
    return {
        "total_steps": steps,
        "total_failures": total,
        "failure_rate": _round(total / steps) if steps else 0.0,
        "categories": {
            name: {
                "count": count,
                "percentage": _round(count / steps) if steps else 0.0,
                "exemplars": columns.exemplars[name],
            }
            for name, count in columns.failures.most_common()
        },
    }


def _round(value: float) -> float:
    return round(value, 4)
