"""Benchmarks that were planned or begun and left no bundle: what a look at bundles alone would overlook."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import files_under, safe_name, stored
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.runs.bundle import newest_bundle
from nemo_evaluator.runs.find import task_folders
from nemo_evaluator.store.layout import PREVIOUS, TaskPaths

_STARTED: Final = "has no bundle: it is still running, or it was ended from outside (`nel eval resume` goes on with it)"
_WAITING: Final = (
    "was never started: the run is still busy with an earlier benchmark, or it was ended"
)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """One benchmark without a bundle, why that is, and the boundary that broke where it is known."""

    name: str
    folder: Path
    reason: str
    cause: str | None = None


def find_unfinished(root: Path) -> list[Unfinished]:
    """The unfinished benchmarks of every run at or under a folder; past runs and merged shards are left out."""
    if not root.is_dir():
        return []
    found: dict[Path, Unfinished] = {}
    for path in files_under(root, "checkpoint.json"):
        if PREVIOUS not in path.parent.relative_to(root).parts:
            found |= {one.folder: one for one in _of_run(path.parent, read_checkpoint(path.parent))}
    for folder in task_folders(root):
        if folder not in found and not TaskPaths(folder).bundles():
            # A folder that was pointed at directly: the run it belongs to may know more.
            of_run: dict[Path, Unfinished] = {}
            for one in _of_run(folder.parent, read_checkpoint(folder.parent)):
                of_run[one.folder] = one
            found[folder] = of_run.get(folder) or Unfinished(folder.name, folder, _STARTED)
    return [one for one in found.values() if not _merged(one.folder)]


def _of_run(folder: Path, state: JsonDict) -> Iterator[Unfinished]:
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
    """Whether this is a benchmark of a shard whose whole is there: the merge says what is missing."""
    shard = task.parent
    return shard.name.startswith("shard_") and bool(TaskPaths(shard.parent / task.name).bundles())


def read_checkpoint(folder: Path) -> JsonDict:
    """``checkpoint.json`` of an output folder; empty where it is absent or cut off."""
    return stored(folder / "checkpoint.json")


def unfinished_answers(task: TaskPaths) -> int:
    """How many answers an earlier run left here without having come to its end; 0 when it has."""
    if not task.journal.is_file():
        return 0
    try:
        bundle = newest_bundle(task.root)
    except UsageError:
        return 0
    if bundle is not None and bundle.stopped.get("kind") in (None, "rule"):
        return 0
    with task.journal.open("rb") as file:
        return sum(line.startswith(b'{"kind":"answer"') for line in file)
