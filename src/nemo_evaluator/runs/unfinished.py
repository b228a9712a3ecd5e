"""Finds benchmarks that were planned or started but have no bundle, which a search for bundles would overlook."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import files_under, lines_from, safe_name, stored
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.runs.bundle import newest_bundle
from nemo_evaluator.runs.find import task_folders
from nemo_evaluator.store.layout import PREVIOUS, TaskPaths

_STARTED: Final = (
    "has no bundle: it is still running, or was killed (`nel eval resume` continues it)"
)
_WAITING: Final = (
    "was never started: an earlier benchmark of the run is still running, or the run was killed"
)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A benchmark without a bundle: the reason, and the boundary that broke if it is known."""

    name: str
    folder: Path
    reason: str
    cause: str | None = None


def find_unfinished(root: Path) -> list[Unfinished]:
    """Return the unfinished benchmarks of every run at or under a folder, without archived runs and merged shards."""
    if not root.is_dir():
        return []
    unfinished_by_folder: dict[Path, Unfinished] = {}
    for path in files_under(root, "checkpoint.json"):
        if PREVIOUS not in path.parent.relative_to(root).parts:
            unfinished_by_folder |= {
                benchmark.folder: benchmark
                for benchmark in _of_run(path.parent, read_checkpoint(path.parent))
            }
    for folder in task_folders(root):
        if folder not in unfinished_by_folder and not TaskPaths(folder).bundles():
            # The user may have named this folder directly; the run that it belongs to may know more.
            of_parent_run: dict[Path, Unfinished] = {}
            for benchmark in _of_run(folder.parent, read_checkpoint(folder.parent)):
                of_parent_run[benchmark.folder] = benchmark
            unfinished_by_folder[folder] = of_parent_run.get(folder) or Unfinished(
                folder.name, folder, _STARTED
            )
    return [
        benchmark for benchmark in unfinished_by_folder.values() if not _merged(benchmark.folder)
    ]


def _of_run(folder: Path, state: JsonDict) -> Iterator[Unfinished]:
    """Yield the planned or failed benchmarks of a run that have no bundle."""
    failed = as_dict(state.get("failed_benchmarks"))
    for key in dict.fromkeys(map(str, [*failed, *as_list(state.get("planned_benchmarks"))])):
        task = TaskPaths(folder / safe_name(key))
        if task.bundles():
            continue
        entry = as_dict(failed.get(key))
        if task.journal.is_file():
            default = _STARTED
        else:
            default = _WAITING
        yield Unfinished(
            key, task.root, str(entry.get("error") or default), cause=entry.get("cause")
        )


def _merged(task: Path) -> bool:
    """Return whether a shard's benchmark has a merged bundle, in which case the merge reports what is missing."""
    shard = task.parent
    return shard.name.startswith("shard_") and bool(TaskPaths(shard.parent / task.name).bundles())


def read_checkpoint(folder: Path) -> JsonDict:
    """Return ``checkpoint.json`` of an output folder; empty if it is missing or incomplete."""
    return stored(folder / "checkpoint.json")


def unfinished_answers(task: TaskPaths) -> int:
    """Return the number of answers in the journal of an unfinished run; 0 if the run finished."""
    if not task.journal.is_file():
        return 0
    try:
        bundle = newest_bundle(task.root)
    except UsageError:
        return 0
    if bundle is not None and bundle.stopped.get("kind") in (None, "rule"):
        return 0
    return sum(line.startswith(b'{"kind":"answer"') for _, line in lines_from(task.journal))
