"""Shards back into one: what one run would have written. The shards themselves are not touched."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

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

# Scores that follow from the rows alone.
_FROM_ROWS: Final = ("pass@", "pass^", "mean_reward", "scorer:", *NOT_SCORES)
# Further scores over all rows: from the task folder of a shard and the merged results.
Aggregate = Callable[[Path, Path], JsonDict]


def merge_shards(root: Path, aggregate: Aggregate | None = None) -> list[JsonDict]:
    """Merge every benchmark found under ``root/shard_*/``; returns the merged bundles.

    Merging again gives the same files. Missing shards are named in the bundle's validity. Raises UsageError, before
    anything is written, when a shard has not ended or when shards were run with different settings.
    """
    tasks = find_shards(root)
    for shards in tasks.values():
        check_same(shards)
    results: list[dict[str, Any]] = []
    for name, shards in tasks.items():
        results.append(_merge_task(TaskPaths(root / name), shards, aggregate))
    return results


def _merge_task(
    task: TaskPaths, shards: Sequence[ShardResult], aggregate: Aggregate | None
) -> JsonDict:
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
        made = TaskPaths(_workplace(task))
        columns = _write_rows(made, shards, plan)
        if aggregate is not None and columns.scored:
            facts.extra_scores = aggregate(shards[0].folder, made.results)
        bundle = build_bundle(columns, facts, task.bundle(facts.name, facts.finished).stem)
        bundle = kept_calibration(task, bundle)
        lost = _lost_scores(shards, facts.extra_scores)
        if lost:
            bundle["scores_not_merged"] = lost
        # From here on there are only renames, and no bundle until everything that it speaks of is in its place.
        for old in task.bundles():
            old.unlink()
        for path in (made.journal, made.results, made.trajectories, made.traffic):
            if path.exists():
                path.replace(task.root / path.name)
            else:
                (task.root / path.name).unlink(missing_ok=True)
        store_bundle(
            task,
            bundle,
            {task.root / path.name: digest for path, digest in columns.digests.items()},
        )
        shutil.rmtree(made.root)
    return bundle


def _facts(shards: Sequence[ShardResult], plan: Plan) -> BundleFacts:
    config: dict[str, Any] = {}
    for key, value in shards[0].config.items():
        if key not in ("shard", "shard_range", "resumed"):
            config[key] = value
    return BundleFacts(
        name=shards[0].name,
        repeats=plan.repeats,
        config=config | plan.describe() | {"n_shards": len(shards)},
        min_coverage=config.get("min_coverage", 0.95),
        elapsed=max(shard.runtime.elapsed_seconds or 0.0 for shard in shards),
        # The end of the last shard: merging again gives the same file.
        finished=max(shard.finished for shard in shards),
        stopped=stopped(shards),
        missing_shards=missing_shards(shards, plan.selected),
    )


def _write_rows(made: TaskPaths, shards: Sequence[ShardResult], plan: Plan) -> Columns:
    gathering = Gathering(plan)
    for shard in shards:
        gathering.add(shard.folder)
    index = gathering.write(made.journal)
    traffic = [path for shard in shards if (path := TaskPaths(shard.folder).traffic).is_file()]
    if traffic:
        with made.traffic.open("wb") as out:
            for path in traffic:
                with path.open("rb") as source:
                    shutil.copyfileobj(source, out)
    journal = Journal(made.journal)
    try:
        return write_views(
            made, plan, journal, index=index, full=shards[0].config.get("rows") == "full"
        )
    finally:
        journal.close()


def _workplace(task: TaskPaths) -> Path:
    """An empty folder in the benchmark's. A run of its own that lies where the merged one goes is kept first, under
    ``previous/``, as a new run would do, unless an earlier merge was killed here: then what lies around is its."""
    room = task.root / ".merging"
    if not room.exists():
        bundle = newest_bundle(task.root)
        if bundle is None or "n_shards" not in bundle.config:
            archive_previous(task)
    room.mkdir(parents=True, exist_ok=True)
    for path in room.iterdir():
        path.unlink()
    return room


def _lost_scores(shards: Sequence[ShardResult], found: JsonDict) -> list[str]:
    """Scores of the shards that are no sums of rows, and that could not be computed over all of them."""
    names: set[Any] = set()
    for shard in shards:
        for name in shard.benchmark["scores"]:
            names.add(name)
    return sorted(name for name in names if name not in found and not name.startswith(_FROM_ROWS))
