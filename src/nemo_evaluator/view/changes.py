"""Watches runs while they write, so that the pages can follow them."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.launch.status import BenchmarkStatus, benchmark_status
from nemo_evaluator.runs.unfinished import read_checkpoint
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.lock import FILE as LOCK
from nemo_evaluator.view.library import Library
from nemo_evaluator.view.listed_run import ListedRun, extended

_SECONDS_BETWEEN_LOOKS: Final = 1.0
# A list is sent after this many looks without a change, although it is empty: sending fails when the page was closed.
_QUIET_LOOKS: Final = 15

#: Facts that differ whenever a run has changed: sizes of files, numbers of bundles, whether the run is locked.
Marks: TypeAlias = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class WatchedRun(ListedRun):
    """A run as in the list of runs, with the progress of its benchmarks."""

    status: list[BenchmarkStatus] = field(default_factory=list)


async def changes(library: Library, keys: Sequence[str]) -> AsyncIterator[list[WatchedRun]]:
    """Yield the runs that have changed, once per second at most, and an empty list from time to time.

    The first list has the watched runs, changed or not; it is empty if all runs are watched.

    Args:
        library: The runs.
        keys: The runs to watch; all runs if empty.

    Raises:
        UsageError: No run has one of the keys.
    """
    previous_marks = await asyncio.to_thread(_marks_by_key, library, keys)
    yield await asyncio.to_thread(_watched_runs, library, keys)
    quiet_looks = 0
    while True:
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
        latest_marks = await asyncio.to_thread(_marks_by_key, library, keys)
        changed_keys: list[str] = []
        for key, marks in latest_marks.items():
            if marks != previous_marks.get(key):
                changed_keys.append(key)
        previous_marks = latest_marks
        quiet_looks += 1
        if changed_keys or quiet_looks == _QUIET_LOOKS:
            quiet_looks = 0
            yield await asyncio.to_thread(_watched_runs, library, changed_keys)


def _marks_by_key(library: Library, keys: Sequence[str]) -> dict[str, Marks]:
    """Return the marks of some runs, or of all runs if no keys are given."""
    if keys:
        folders = {key: library.run(key).path for key in keys}
    else:
        folders = library.look()
    return {key: _marks(path) for key, path in folders.items()}


def _marks(run: Path) -> Marks:
    """Return the marks of the run in a folder."""
    marks = {LOCK: int((run / LOCK).exists())}
    for folder in (run, *_subfolders(run)):
        task = TaskPaths(folder)
        marks[str(folder)] = len(task.bundles())
        for file in (task.journal, task.results, task.labels):
            try:
                marks[str(file)] = file.stat().st_size
            except OSError:
                # The file does not exist yet.
                continue
    return marks


def _subfolders(folder: Path) -> list[Path]:
    """Return the folders inside a folder; none if it was removed meanwhile."""
    _, names, _ = next(os.walk(folder), ("", [], []))
    return [folder / name for name in names]


def _watched_runs(library: Library, keys: Sequence[str]) -> list[WatchedRun]:
    """Return runs with the progress of their benchmarks."""
    return [_watched_run(library, key) for key in keys]


def _watched_run(library: Library, key: str) -> WatchedRun:
    """Return one run with the progress of its benchmarks."""
    listed = library.listed_run(key)
    run = library.run(key)
    running = listed.state == "running"
    sessions = as_dict(read_checkpoint(run.path).get("sessions"))
    statuses: list[BenchmarkStatus] = []
    for name, folder in run.benchmarks.items():
        session = as_dict(sessions.get(name))
        statuses.append(benchmark_status(folder.path, session, running=running))
    return extended(WatchedRun, listed, status=statuses)
