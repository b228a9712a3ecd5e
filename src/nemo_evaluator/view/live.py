"""What changes while runs write: sizes of files are looked at, and the index takes in what is new."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.executors.status import benchmark_status
from nemo_evaluator.runs.unfinished import read_checkpoint
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.lock import FILE, holder_of
from nemo_evaluator.view.library import Library

_EVERY: Final = 1.0
# So that a page that is gone is noticed.
_BREATH: Final = 15

Marks = dict[str, int]


async def changes(library: Library, keys: Sequence[str]) -> AsyncIterator[JsonDict]:
    """The runs that changed since the last look, each as it is now; an empty one from time to time."""
    seen: dict[str, Marks] = {}
    quiet = 0
    while True:
        now = await asyncio.to_thread(_looked, library, keys)
        changed = [key for key, marks in now.items() if seen and seen.get(key) != marks]
        quiet = 0 if changed or not seen else quiet + 1
        if changed or not seen or quiet == _BREATH:
            quiet = 0
            told = keys if not seen and keys else changed
            yield {"runs": [await asyncio.to_thread(_told, library, key) for key in told]}
        seen = now
        await asyncio.sleep(_EVERY)


def _looked(library: Library, keys: Sequence[str]) -> dict[str, Marks]:
    folders = {key: library.run(key).path for key in keys} if keys else library.look()
    return {key: _marks(path) for key, path in folders.items()}


def _marks(run: Path) -> Marks:
    """Sizes of what grows and times of what is written anew, of a run and of its benchmarks."""
    marks: Marks = {FILE: int((run / FILE).exists())}
    for folder in (run, *(path for path in _listed(run) if path.is_dir())):
        task = TaskPaths(folder)
        for path in (task.journal, task.results, task.labels):
            try:
                marks[str(path)] = path.stat().st_size
            except OSError:
                continue
        marks[str(folder)] = len(task.bundles())
    return marks


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _told(library: Library, key: str) -> JsonDict:
    described = library.described(key)
    run = library.run(key)
    running = holder_of(run.path) is not None
    sessions = read_checkpoint(run.path).get("sessions") or {}
    status = [
        asdict(benchmark_status(one.path, sessions.get(name) or {}, running=running))
        for name, one in run.benchmarks.items()
    ]
    return described | {"status": status}
