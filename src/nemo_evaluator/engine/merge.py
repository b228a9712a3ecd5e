"""Merges shards into what a single run would have written. The shards themselves are not changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.engine.bundle import BundleFacts, build_bundle, kept_calibration, store_bundle
from nemo_evaluator.engine.columns import Columns
from nemo_evaluator.engine.merge_journals import Gathering
from nemo_evaluator.engine.plan import Plan, make_plan
from nemo_evaluator.engine.shards import (
    ShardResult,
    check_same,
    find_shards,
    missing_shards,
    stopped,
)
from nemo_evaluator.engine.views import write_views
from nemo_evaluator.runs.bundle import newest_bundle
from nemo_evaluator.runs.scores import NOT_SCORES
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.layout import TaskPaths, archive_previous
from nemo_evaluator.store.lock import folder_lock

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import BundleDocument, ValueEntry

# Prefixes of scores that can be computed from the rows alone.
_FROM_ROWS: Final = ("pass@", "pass^", "mean_reward", "scorer:", *NOT_SCORES)
# Computes aggregate scores from the task folder of a shard and the merged results.
Aggregate: TypeAlias = "Callable[[Path, Path], dict[str, ValueEntry]]"


def merge_shards(root: Path, aggregate: Aggregate | None = None) -> list[BundleDocument]:
    """Merge every benchmark found under ``root/shard_*/``.

    Merging again produces the same files. Missing shards are named in the bundle's validity.

    Args:
        root: The folder of the run.
        aggregate: Computes the scores that need all rows.

    Returns:
        The merged bundles.

    Raises:
        UsageError: Before anything is written, if a shard has not ended or shards have different settings.
    """
    tasks = find_shards(root)
    for shards in tasks.values():
        check_same(shards)
    bundles: list[BundleDocument] = []
    for name, shards in tasks.items():
        bundles.append(_merge_task(TaskPaths(root / name), shards, aggregate))
    return bundles


def _merge_task(
    task: TaskPaths, shards: Sequence[ShardResult], aggregate: Aggregate | None
) -> BundleDocument:
    """Merge the shards of one benchmark in a staging folder, then move the files into place."""
    config = shards[0].config
    plan = make_plan(
        config["shuffle"]["ds_full_size"],
        repeats=config["repeats"],
        max_problems=config.get("max_problems"),
        shuffle_seed=config.get("shuffle_seed"),
        only=config.get("only"),
    )
    facts = _facts(shards, plan)
    with folder_lock(task.root):
        staging = TaskPaths(_staging_folder(task))
        columns = _write_rows(staging, shards, plan)
        if aggregate is not None and columns.scored:
            facts.extra_scores = aggregate(shards[0].folder, staging.results)
        run_id = task.bundle(facts.name, facts.finished).stem
        bundle = kept_calibration(task, build_bundle(columns, facts, run_id))
        lost_scores = _lost_scores(shards, facts.extra_scores)
        if lost_scores:
            bundle["scores_not_merged"] = lost_scores
        # From here on files are only renamed, and there is no bundle until all files that it names exist.
        for old_bundle in task.bundles():
            old_bundle.unlink()
        _move_into_place(staging, task)
        digests = {task.root / path.name: digest for path, digest in columns.digests.items()}
        store_bundle(task, bundle, digests)
        shutil.rmtree(staging.root)
    return bundle


def _move_into_place(staging: TaskPaths, task: TaskPaths) -> None:
    """Replace the benchmark's files by those of the staging folder; a file that it does not have is deleted."""
    for path in (staging.journal, staging.results, staging.trajectories, staging.traffic):
        target = task.root / path.name
        if path.exists():
            path.replace(target)
        else:
            target.unlink(missing_ok=True)


def _facts(shards: Sequence[ShardResult], plan: Plan) -> BundleFacts:
    """Return the facts of the merged bundle that are not computed from rows."""
    config: JsonDict = {}
    for key, value in shards[0].config.items():
        if key not in ("shard", "shard_range", "resumed"):
            config[key] = value
    longest_time = max(shard.runtime.elapsed_seconds or 0.0 for shard in shards)
    # The end of the last shard, so that merging again produces the same file.
    last_end = max(shard.finished for shard in shards)
    return BundleFacts(
        name=shards[0].name,
        repeats=plan.repeats,
        config={**config, **plan.describe(), "n_shards": len(shards)},
        min_coverage=config.get("min_coverage", 0.95),
        elapsed=longest_time,
        finished=last_end,
        stopped=stopped(shards),
        missing_shards=missing_shards(shards, plan.selected),
    )


def _write_rows(staging: TaskPaths, shards: Sequence[ShardResult], plan: Plan) -> Columns:
    """Write journal, traffic and views of all shards to the staging folder."""
    gathering = Gathering(plan)
    for shard in shards:
        gathering.add(shard.folder)
    index = gathering.write(staging.journal)
    traffic_files: list[Path] = []
    for shard in shards:
        traffic = TaskPaths(shard.folder).traffic
        if traffic.is_file():
            traffic_files.append(traffic)
    if traffic_files:
        with staging.traffic.open("wb") as merged_file:
            for path in traffic_files:
                with path.open("rb") as source:
                    shutil.copyfileobj(source, merged_file)
    full = shards[0].config.get("rows") == "full"
    journal = Journal(staging.journal)
    try:
        return write_views(staging, plan, journal, index=index, full=full)
    finally:
        journal.close()


def _staging_folder(task: TaskPaths) -> Path:
    """Create an empty folder inside the benchmark's folder for the merged files.

    An unsharded run in the benchmark's folder is moved to ``previous/`` first, as a new run would do. After a merge
    that was killed, the files in the folder are its own.
    """
    staging = task.root / ".merging"
    if not staging.exists():
        bundle = newest_bundle(task.root)
        if bundle is None or "n_shards" not in bundle.config:
            archive_previous(task)
    staging.mkdir(parents=True, exist_ok=True)
    for path in staging.iterdir():
        path.unlink()
    return staging


def _lost_scores(shards: Sequence[ShardResult], found: Container[str]) -> list[str]:
    """Return the scores of shards that cannot be computed from the rows and were not aggregated over all rows."""
    lost_names: set[str] = set()
    for shard in shards:
        for name in shard.benchmark["scores"]:
            if name not in found and not name.startswith(_FROM_ROWS):
                lost_names.add(name)
    return sorted(lost_names)
