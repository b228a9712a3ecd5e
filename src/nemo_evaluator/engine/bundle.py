"""The bundle: the summary of one finished benchmark, computed from its columns, and its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from nemo_evaluator._version import __version__
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.files import stored, write_json
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.engine.bundle_scores import (
    all_scores,
    cluster_counts,
    headline_bounds,
    rounded,
    scores_by_category,
    share_of,
)
from nemo_evaluator.engine.columns import Columns
from nemo_evaluator.runs.bundle import INVALID, VALID, Bundle, calibrated, config_hash
from nemo_evaluator.runs.calibration import PLACE
from nemo_evaluator.runs.tampering import Tampering
from nemo_evaluator.statistics import by_problem
from nemo_evaluator.statistics.clusters import LEAST_CLUSTERS
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.sums import FILE as SUMS
from nemo_evaluator.store.sums import MARK, record_sums
from nemo_evaluator.store.view_rows import TRUNCATED

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import (
        BenchmarkEntry,
        BundleDocument,
        ClustersEntry,
        ScoreEntry,
        StoppedEntry,
        ValidityEntry,
        ValueEntry,
    )
    from nemo_evaluator.store.journal_record import JudgeCheck


@dataclass(slots=True)
class BundleFacts:
    """The facts of a bundle that are not computed from rows.

    Attributes:
        name: The benchmark.
        repeats: The planned answers per problem.
        config: What was run.
        min_coverage: The share of scored rows below which the run is INVALID.
        elapsed: Seconds of all sessions.
        finished: When the last session ended.
        stopped: Why and how the run ended early, if it did.
        extra_scores: Scores that the benchmark computes over all rows.
        missing_shards: Shards that are not part of a merged run.
        canaries: How the judges graded a right and a wrong answer, and the cost of that.
        reported: The score of a harness that wrote no rows, with the harness's own interval.
    """

    name: str
    repeats: int
    config: JsonDict
    min_coverage: float
    elapsed: float
    finished: datetime
    stopped: StoppedEntry | None = None
    extra_scores: Mapping[str, ValueEntry] = field(default_factory=dict)
    missing_shards: list[str] = field(default_factory=list)
    canaries: dict[str, JudgeCheck] = field(default_factory=dict)
    reported: ScoreEntry | None = None


def build_bundle(columns: Columns, facts: BundleFacts, run_id: str) -> BundleDocument:
    """Build the document of a bundle: scores with intervals, coverage, runtime and failures of one benchmark."""
    bundle: BundleDocument = {
        "run_id": run_id,
        "config_hash": config_hash(facts.config),
        "sdk_version": __version__,
        "timestamp": facts.finished.isoformat(),
        "validity": _validity(columns, facts),
        "config": facts.config,
        "benchmark": _benchmark(columns, facts),
        "n_results": columns.scored + columns.failed,
    }
    if facts.stopped is not None:
        bundle["stopped"] = facts.stopped
    return bundle


def write_bundle(task: TaskPaths, columns: Columns, facts: BundleFacts) -> BundleDocument:
    """Write the bundle and its companion files.

    Returns:
        The bundle.
    """
    run_id = task.bundle(facts.name, facts.finished).stem
    bundle = kept_calibration(task, build_bundle(columns, facts, run_id))
    store_bundle(task, bundle, columns.digests)
    return bundle


def kept_calibration(task: TaskPaths, bundle: BundleDocument) -> BundleDocument:
    """Return the bundle with the calibration of the previous one, which is still valid or is marked as stale."""
    earlier_bundles = task.bundles()
    if not earlier_bundles:
        return bundle
    earlier_benchmark = as_dict(stored(earlier_bundles[-1]).get("benchmark"))
    calibration = as_dict(earlier_benchmark.get(PLACE))
    if not calibration:
        return bundle
    return cast("BundleDocument", calibrated(Bundle(task.root, bundle), calibration).document)


def store_bundle(task: TaskPaths, bundle: BundleDocument, digests: dict[Path, str]) -> None:
    """Write the files of a bundle.

    The bundle itself is written last, when all files that it names exist.

    Args:
        task: The files.
        bundle: The document.
        digests: Checksums of files that are already known.
    """
    scores = bundle["benchmark"]["scores"]
    write_json(task.runtime_stats, scores["runtime"])
    if scores["failures"]["total_failures"]:
        write_json(task.failure_analysis, scores["failures"])
    else:
        task.failure_analysis.unlink(missing_ok=True)
    bundle[MARK] = SUMS
    path = task.root / f"{bundle['run_id']}.json"
    write_json(path, bundle)
    for old_bundle in task.bundles():
        if old_bundle != path:
            old_bundle.unlink()
    files = (task.results, task.trajectories, task.runtime_stats, task.failure_analysis, path)
    record_sums(task.root, files, known=digests)


def _benchmark(columns: Columns, facts: BundleFacts) -> BenchmarkEntry:
    """Build the part of a bundle with the scores."""
    finish_reasons = columns.finish.counts()
    truncated = sum(finish_reasons[reason] for reason in TRUNCATED)
    unparsed = columns.unparsed.count(1)
    tampering = _tampering_of(columns)
    benchmark: BenchmarkEntry = {
        "name": facts.name,
        "samples": columns.samples if facts.reported is None else facts.reported["n"],
        "repeats": facts.repeats,
        "coverage": {
            "planned": columns.planned,
            "scored": columns.scored,
            "failed": columns.failed,
            "share": rounded(_coverage(columns)),
        },
        "truncated_share": share_of(truncated, columns.answered),
        "unparsed_share": share_of(unparsed, columns.scored),
        "notes": _notes(columns, facts, tampering),
        "bounds": headline_bounds(columns) if facts.reported is None else None,
        "scores": all_scores(
            columns,
            facts.extra_scores,
            repeats=facts.repeats,
            stopped=facts.stopped,
            elapsed=facts.elapsed,
            reported=facts.reported,
        ),
        "categories": scores_by_category(columns, facts.stopped),
    }
    clusters = cluster_counts(columns)
    if clusters is not None:
        benchmark["clusters"] = clusters
    if tampering is not None:
        benchmark["tamper"] = tampering.to_dict()
    if facts.canaries:
        benchmark["canaries"] = facts.canaries
    if columns.scored_by:
        benchmark["scored_by"] = dict(columns.scored_by)
    if columns.fallbacks:
        benchmark["fallback"] = dict(columns.fallbacks)
    return benchmark


def _coverage(columns: Columns) -> float:
    """Return the share of the plan that was scored."""
    return columns.scored / columns.planned if columns.planned else 0.0


def _notes(columns: Columns, facts: BundleFacts, tampering: Tampering | None) -> list[str]:
    """Return warnings that every report shows with the score."""
    notes: list[str] = []
    replaced_task = facts.config.get("replaces")
    if replaced_task:
        notes.append(
            f"a benchmark of nel in place of {replaced_task}: prompts and graders differ, so the score is not "
            "comparable with the harness's"
        )
    for kind, count in columns.fallbacks.most_common():
        notes.append(
            f"no judge: {count:,} of {columns.scored:,} rows scored by a fallback ({kind}); not comparable with judged "
            "scores"
        )
    clusters = cluster_counts(columns)
    if clusters is not None:
        notes.append(_cluster_note(clusters))
    for scorer, count in columns.scored_by.most_common():
        notes.append(f"scored by {scorer}, not by nel: {count:,} of {columns.scored:,} rows")
    if tampering is not None:
        notes.append(tampering.words)
    if columns.tripped:
        deeds = ", ".join(f"{deed} ({count:,})" for deed, count in columns.tripwires.most_common())
        notes.append(f"possible reward hacking in {counted(columns.tripped, 'row')}: {deeds}")
    generation = as_dict(facts.config.get("generation"))
    if facts.repeats > 1 and generation.get("temperature") == 0:
        notes.append(
            f"at temperature 0, {facts.repeats} repeats measure server nondeterminism, not sampling variance: "
            "pass@k hardly exceeds pass@1"
        )
    return notes


def _cluster_note(clusters: ClustersEntry) -> str:
    """Return how many problems belong to how many clusters, and whether these are enough for a decision."""
    problems = counted(clusters["problems"], "problem")
    groups = counted(clusters["clusters"], "cluster")
    note = f"{problems} in {groups} of up to {clusters['largest']:,}; the intervals allow for this"
    if clusters["clusters"] < LEAST_CLUSTERS:
        note += f"; nel compare and gate decide on {LEAST_CLUSTERS} clusters or more"
    return note


def _validity(columns: Columns, facts: BundleFacts) -> ValidityEntry:
    """Return VALID, or INVALID with the reasons."""
    reasons = []
    coverage = _coverage(columns)
    if not columns.planned:
        reasons.append("there were no problems to ask")
    elif coverage < facts.min_coverage:
        unscored = columns.planned - columns.scored
        reasons.append(
            f"coverage {coverage:.1%} is below the minimum of {facts.min_coverage:.0%}: "
            f"{unscored} of {columns.planned} steps not scored{_main_causes(columns)}"
        )
    tampering = _tampering_of(columns)
    if tampering is not None and tampering.too_much:
        reasons.append(tampering.words)
    if facts.missing_shards:
        reasons.append(f"shards are missing: {', '.join(facts.missing_shards)}")
    return {"status": INVALID if reasons else VALID, "reasons": reasons}


def _main_causes(columns: Columns) -> str:
    """Return the three most frequent causes of failed rows, in parentheses; empty if no row failed."""
    failures = ((cause, count) for cause, count in columns.cause.counts().most_common() if cause)
    causes = ", ".join(f"{count} {cause}" for cause, count in islice(failures, 3))
    return f" ({causes})" if causes else ""


def _tampering_of(columns: Columns) -> Tampering | None:
    """Summarise the rows that tampered with their own judging; None if there are none."""
    code = columns.cause.names.get(Cause.TAMPER)
    if code is None:
        return None
    is_tampered = np.asarray(columns.cause.codes) == code
    if not is_tampered.any():
        return None
    reward = np.where(is_tampered, 0.0, np.asarray(columns.reward))
    is_judged = ~np.isnan(reward)
    problems = np.asarray(columns.problem)[is_judged]
    score = float(by_problem(problems, reward[is_judged]).means.mean())
    return Tampering(tampered=int(is_tampered.sum()), judged=int(is_judged.sum()), score=score)
