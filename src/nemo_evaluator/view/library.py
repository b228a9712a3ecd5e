"""The runs that the viewer shows, and their changes while they write. Pages name runs by keys, never by paths."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import files_under
from nemo_evaluator.core.hashing import digest_parts
from nemo_evaluator.core.json_coerce import as_count, as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launch.status import benchmark_status
from nemo_evaluator.runs.bundle import load_bundle
from nemo_evaluator.runs.find import task_folders
from nemo_evaluator.runs.folder import BenchmarkFolder, RunFolder
from nemo_evaluator.runs.unfinished import find_unfinished, read_checkpoint
from nemo_evaluator.store.layout import PREVIOUS, TaskPaths
from nemo_evaluator.store.lock import FILE as LOCK
from nemo_evaluator.store.lock import holder_of
from nemo_evaluator.store.run_registry import FILE, list_runs, load_run

_EVERY: Final = 1.0
# Send an empty message after this many quiet rounds, to notice that a page was closed.
_BREATH: Final = 15


@dataclass(frozen=True, slots=True)
class ListedBenchmark:
    """One benchmark of a run in the list of runs; unknown values are None."""

    name: str
    model: str = ""
    status: str = ""
    metric: str | None = None
    score: float | None = None
    lower: float | None = None
    upper: float | None = None
    coverage: float | None = None
    scored: int | None = None
    failed: int | None = None
    planned: int | None = None
    cost_usd: float | None = None
    finished: str = ""
    # The score corrected by labels, with the fields of a score.
    corrected: JsonDict | None = None


class Library:
    """The viewer's runs, searched again for each list; nothing outside of its paths is opened."""

    def __init__(self, paths: Sequence[Path], *, registry: bool) -> None:
        """Show the runs under some paths.

        Args:
            paths: Folders of runs, folders above them, or bundle files.
            registry: Also show the registered runs of this user.
        """
        self._paths = [path.resolve() for path in paths]
        self._registry = registry
        self._folders: dict[str, Path] = {}

    def look(self) -> dict[str, Path]:
        """Search for runs; returns their folders by key."""
        run_folders: list[Path] = []
        for path in self._paths:
            for folder in _run_folders(path):
                run_folders.append(folder)
        if self._registry:
            for run in list_runs():
                if not run.remote and Path(run.output_dir).is_dir():
                    run_folders.append(Path(run.output_dir))
        folders: dict[str, Path] = {}
        for path in dict.fromkeys(map(Path.resolve, run_folders)):
            folders[digest_parts(str(path))[:12]] = path
        self._folders = folders
        return self._folders

    def run(self, key: str) -> RunFolder:
        """Return the run of a key.

        Raises:
            UsageError: No run has that key.
        """
        if key not in self._folders and key not in self.look():
            raise UsageError(f"no run has the key {key!r}", hint="open the list of runs again")
        return RunFolder(self._folders[key])

    def benchmark(self, key: str, name: str) -> BenchmarkFolder:
        """Return a benchmark of a run.

        Raises:
            UsageError: The run has no such benchmark, or its files are outside of the run.
        """
        run = self.run(key)
        if name not in run.benchmarks:
            raise UsageError(
                f"the run has no benchmark {name!r}", hint=f"it has: {', '.join(run.benchmarks)}"
            )
        benchmark_folder = run.benchmarks[name]
        task = TaskPaths(run.benchmarks[name].path)
        for path in (task.journal, task.results, task.trajectories, task.labels, task.index):
            if path.is_symlink() and not path.resolve().is_relative_to(run.path):
                message = f"{path.name} of {name!r} leads out of the run's folder"
                raise UsageError(message, hint="open that folder itself")
        return benchmark_folder

    def listed(self) -> list[JsonDict]:
        """Return all runs for the list, newest first."""
        runs = [self.described(key) for key in self.look()]
        return sorted(runs, key=lambda run: (str(run["started"]), str(run["path"])), reverse=True)

    def described(self, key: str) -> JsonDict:
        """Return one run for the list."""
        run = self.run(key)
        meta = load_run(run.path)
        running = holder_of(run.path) is not None
        lines = list(self._lines(run, running=running))
        models = [line.model for line in lines if line.model] or [
            str(meta.details.get("model") or "") if meta else ""
        ]
        if meta:
            started = meta.started_at
        else:
            started = max((line.finished for line in lines), default="")
        if meta:
            age = meta.age(datetime.now(UTC))
        else:
            age = None
        has_unfinished = any(not line.finished for line in lines) or not lines
        return {
            "key": key,
            "path": str(run.path),
            "run_id": meta.run_id if meta else "",
            "model": ", ".join(dict.fromkeys(models)),
            "state": "running" if running else "unfinished" if has_unfinished else "finished",
            "started": started,
            "age_seconds": age.total_seconds() if age else None,
            "benchmarks": [asdict(line) for line in lines],
            "cost_usd": sum(line.cost_usd or 0.0 for line in lines) or None,
        }

    def _lines(self, run: RunFolder, *, running: bool) -> Iterator[ListedBenchmark]:
        """Yield the benchmarks of a run for the list, including those that have not started."""
        sessions = as_dict(read_checkpoint(run.path).get("sessions"))
        unfinished_by_folder = {
            unfinished.folder: unfinished for unfinished in find_unfinished(run.path)
        }
        for name, folder in run.benchmarks.items():
            try:
                files = TaskPaths(folder.path).bundles()
                if files:
                    yield _finished(name, files[-1], files[-1].stat().st_mtime_ns)
                else:
                    yield _unfinished(folder, as_dict(sessions.get(name)), running=running)
            except UsageError as error:
                yield ListedBenchmark(name, status=f"unreadable: {error.message}")
        for path, unfinished in unfinished_by_folder.items():
            if path.name not in run.benchmarks:
                yield ListedBenchmark(
                    unfinished.name, status="waiting" if running else "not started"
                )


def _run_folders(root: Path) -> Iterator[Path]:
    """Yield the folders of runs at and under a path: folders with a run record, and those above benchmark folders."""
    if root.is_file():
        root = root.parent
    tasks = [*task_folders(root), *(path.parent for path in files_under(root, "eval-*.json"))]
    for path in files_under(root, FILE):
        yield path.parent
    for task in dict.fromkeys(tasks):
        if PREVIOUS not in task.relative_to(root).parts:
            yield task if task == root else task.parent


@lru_cache(maxsize=10_000)
def _finished(name: str, path: Path, stamp: int) -> ListedBenchmark:
    """Return the line of a finished benchmark; cached, and read again when the bundle's ``stamp`` differs."""
    bundle = load_bundle(path)
    headline = bundle.headline
    coverage = bundle.coverage
    line = ListedBenchmark(
        name,
        bundle.model,
        bundle.status,
        finished=bundle.timestamp or "-",
        cost_usd=bundle.runtime.cost_usd,
    )
    line = replace(
        line,
        coverage=coverage.share,
        scored=coverage.scored,
        failed=coverage.failed,
        planned=coverage.planned,
    )
    if headline is None:
        return line
    if bundle.corrected is not None:
        corrected: dict[str, Any] | None = asdict(bundle.corrected)
    else:
        corrected = None
    return replace(
        line,
        metric=headline.name,
        score=headline.value,
        lower=headline.ci_lower,
        upper=headline.ci_upper,
        corrected=corrected,
    )


def _unfinished(folder: BenchmarkFolder, session: JsonDict, *, running: bool) -> ListedBenchmark:
    """Return the line of a benchmark without a bundle."""
    progress = folder.progress()
    planned = as_count(session.get("planned"))
    return ListedBenchmark(
        folder.name,
        status="running" if running else "not finished",
        metric="mean reward so far" if progress.mean_reward is not None else None,
        score=progress.mean_reward,
        coverage=progress.scored / planned if planned else None,
        scored=progress.scored,
        failed=progress.failed,
        planned=planned,
        cost_usd=progress.cost_usd,
    )


async def changes(library: Library, keys: Sequence[str]) -> AsyncIterator[JsonDict]:
    """Yield the runs that have changed, once per second at most, and an empty list of runs from time to time.

    Args:
        library: The runs.
        keys: The runs to watch; all runs if empty.
    """
    previous: dict[str, dict[str, int]] = {}
    quiet_rounds = 0
    while True:
        latest = await asyncio.to_thread(_looked, library, keys)
        changed = [key for key, marks in latest.items() if previous and previous.get(key) != marks]
        quiet_rounds = 0 if changed or not previous else quiet_rounds + 1
        if changed or not previous or quiet_rounds == _BREATH:
            quiet_rounds = 0
            reported_keys = keys if not previous and keys else changed
            yield {"runs": [await asyncio.to_thread(_told, library, key) for key in reported_keys]}
        previous = latest
        await asyncio.sleep(_EVERY)


def _looked(library: Library, keys: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the change marks of some runs, or of all."""
    if keys:
        folders: dict[str, Path] = {key: library.run(key).path for key in keys}
    else:
        folders = library.look()
    return {key: _marks(path) for key, path in folders.items()}


def _marks(run: Path) -> dict[str, int]:
    """Return the file sizes and bundle counts of a run, which differ whenever it has changed."""
    marks = {LOCK: int((run / LOCK).exists())}
    _, folders, _ = next(os.walk(run), ("", [], []))
    for folder in (run, *(run / name for name in folders)):
        task = TaskPaths(folder)
        for path in (task.journal, task.results, task.labels):
            try:
                marks[str(path)] = path.stat().st_size
            except OSError:
                continue
        marks[str(folder)] = len(task.bundles())
    return marks


def _told(library: Library, key: str) -> JsonDict:
    """Return one run for the list with the status of its benchmarks."""
    described = library.described(key)
    run = library.run(key)
    running = described["state"] == "running"
    sessions = as_dict(read_checkpoint(run.path).get("sessions"))
    status: list[dict[str, Any]] = []
    for name, folder in run.benchmarks.items():
        status.append(
            asdict(benchmark_status(folder.path, as_dict(sessions.get(name)), running=running))
        )
    return described | {"status": status}
