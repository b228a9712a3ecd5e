"""Shards back into one: what one run would have written. The shards themselves are not touched."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_json
from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.engine.bundle import BundleFacts, write_bundle
from nemo_evaluator.engine.columns import write_views
from nemo_evaluator.engine.plan import Plan, make_plan
from nemo_evaluator.engine.trajectories import trajectory_of
from nemo_evaluator.store.index import StepIndex
from nemo_evaluator.store.journal import Journal, scan_records
from nemo_evaluator.store.layout import TaskPaths, newest_bundle
from nemo_evaluator.store.records import ANSWER, OUTCOME


def merge_shards(root: Path) -> list[JsonDict]:
    """Merge every benchmark found under ``root/shard_*/``; returns the merged bundles.

    Merging again gives the same files. Missing shards are named in the bundle's validity.
    """
    tasks: dict[str, list[Path]] = defaultdict(list)
    for shard in sorted(root.glob("shard_*")):
        for journal in sorted(shard.rglob("journal.jsonl")):
            if "previous" not in journal.relative_to(shard).parts:
                tasks[str(journal.parent.relative_to(shard))].append(journal.parent)
    if not tasks:
        hint = "shards are written by `nel eval run --shard I/N`"
        raise UsageError(f"there are no shard_*/ folders with results in {root}", hint=hint)
    return [_merge_task(root / name, folders) for name, folders in sorted(tasks.items())]


def _merge_task(target: Path, folders: list[Path]) -> JsonDict:
    bundles = [(folder, _bundle(folder)) for folder in folders]
    first = bundles[0][1]
    config: JsonDict = dict(first["config"])
    total = (config.pop("shard", None) or {}).get("total", len(folders))
    config.pop("shard_range", None)
    _check_same(bundles)
    plan = make_plan(
        config["shuffle"]["ds_full_size"],
        repeats=config["repeats"],
        max_problems=config.get("max_problems"),
        shuffle_seed=config.get("shuffle_seed"),
    )
    task = TaskPaths(target)
    task.journal.unlink(missing_ok=True)
    present = {bundle["config"].get("shard", {}).get("idx", 0) for _, bundle in bundles}
    missing = sorted(set(range(total)) - present)
    facts = BundleFacts(
        name=first["benchmark"]["name"],
        repeats=plan.repeats,
        config=config | {"n_shards": len(folders)},
        min_coverage=config.get("min_coverage", 0.95),
        elapsed=max(bundle["benchmark"]["scores"]["runtime"]["elapsed_seconds"] for _, bundle in bundles),
        finished=_latest(bundles),
    )
    return _write(task, plan, folders, facts, missing)


def _write(task: TaskPaths, plan: Plan, folders: list[Path], facts: BundleFacts, missing: list[int]) -> JsonDict:
    journal = Journal(task.journal)
    try:
        index = _gather(journal, plan, folders)
        columns = write_views(task, plan, journal, index, trajectory_of)
        facts.missing_shards = missing
        return write_bundle(task, columns, facts)
    finally:
        journal.close()


def _gather(journal: Journal, plan: Plan, folders: list[Path]) -> StepIndex:
    """Copy the newest answer and outcome of every step into one journal, shard by shard."""
    index = StepIndex(plan.dataset_size, plan.repeats)
    for folder in folders:
        for _, record in scan_records(TaskPaths(folder).journal):
            kind = record.get("kind")
            if kind not in (ANSWER, OUTCOME):
                continue
            step = Step(record["problem_idx"], record["repeat"])
            if step.repeat >= plan.repeats or step.problem_idx >= plan.dataset_size:
                continue
            offset = journal.append_now(record)
            (index.set_answer if kind == ANSWER else index.set_outcome)(step, offset)
    return index


def _bundle(folder: Path) -> JsonDict:
    path = newest_bundle(folder)
    if path is None:
        raise UsageError(f"{folder} has no bundle yet", hint="finish that shard with --resume, then merge again")
    bundle: JsonDict = read_json(path)
    return bundle


def _check_same(bundles: list[tuple[Path, JsonDict]]) -> None:
    first = bundles[0][1]["config"]
    for folder, bundle in bundles[1:]:
        for key in ("repeats", "fingerprints", "shuffle_seed", "max_problems"):
            if bundle["config"].get(key) != first.get(key):
                hint = "run all shards with the same config, or merge them apart"
                raise UsageError(f"{folder} was run with another {key} than {bundles[0][0]}", hint=hint)


def _latest(bundles: list[tuple[Path, JsonDict]]) -> datetime:
    """The end of the last shard: merging again gives the same file."""
    return max(datetime.fromisoformat(bundle["timestamp"]).astimezone(UTC) for _, bundle in bundles)
