"""Watches runs while they write, so that the pages can follow them."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.launch.status import BenchmarkStatus, benchmark_status
from nemo_evaluator.runs.unfinished import read_checkpoint
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.lock import FILE as LOCK
from nemo_evaluator.view.library import Library
from nemo_evaluator.view.listed_run import ListedRun

_EVERY: Final = 1.0
# Send an empty message after this many rounds without a change, to notice that a page was closed.
_QUIET_ROUNDS: Final = 15

# Sizes of files and numbers of bundles, which differ whenever a run has changed.
Marks = Mapping[str, int]


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
    previous = await asyncio.to_thread(_marks_by_key, library, keys)
    yield await asyncio.to_thread(_watched_runs, library, keys)
    quiet_rounds = 0
    while True:
        await asyncio.sleep(_EVERY)
        latest = await asyncio.to_thread(_marks_by_key, library, keys)
        changed = [key for key, marks in latest.items() if previous.get(key) != marks]
        previous = latest
        quiet_rounds += 1
        if changed or quiet_rounds == _QUIET_ROUNDS:
            quiet_rounds = 0
            yield await asyncio.to_thread(_watched_runs, library, changed)


def _marks_by_key(library: Library, keys: Sequence[str]) -> dict[str, Marks]:
    """Return the marks of some runs, or of all runs if no keys are given."""
    if keys:
        folders = {key: library.run(key).path for key in keys}
    else:
        folders = library.look()
    return {key: _marks(path) for key, path in folders.items()}


def _marks(run: Path) -> Marks:
    """Return the marks of one run."""
    marks = {LOCK: int((run / LOCK).exists())}
    _, folder_names, _ = next(os.walk(run), ("", [], []))
    folders = [run]
    folders += [run / name for name in folder_names]
    for folder in folders:
        task = TaskPaths(folder)
        for path in (task.journal, task.results, task.labels):
            try:
                marks[str(path)] = path.stat().st_size
            except OSError:
                continue
        marks[str(folder)] = len(task.bundles())
    return marks


def _watched_runs(library: Library, keys: Sequence[str]) -> list[WatchedRun]:
    """Return runs with the progress of their benchmarks."""
    return [_watched_run(library, key) for key in keys]


def _watched_run(library: Library, key: str) -> WatchedRun:
    """Return one run with the progress of its benchmarks."""
    listed = library.listed_run(key)
    run = library.run(key)
    sessions = as_dict(read_checkpoint(run.path).get("sessions"))
    running = listed.state == "running"
    statuses: list[BenchmarkStatus] = []
    for name, folder in run.benchmarks.items():
        session = as_dict(sessions.get(name))
        statuses.append(benchmark_status(folder.path, session, running=running))
    return WatchedRun(
        key=listed.key,
        path=listed.path,
        run_id=listed.run_id,
        model=listed.model,
        state=listed.state,
        started=listed.started,
        age_seconds=listed.age_seconds,
        benchmarks=listed.benchmarks,
        cost_usd=listed.cost_usd,
        status=statuses,
    )
