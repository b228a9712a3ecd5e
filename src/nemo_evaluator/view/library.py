"""Which runs are shown, and what changes while they write. Pages name them by keys, never by paths."""

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
# So that a page that is gone is noticed.
_BREATH: Final = 15


@dataclass(frozen=True, slots=True)
class ListedBenchmark:
    """One benchmark of a run as the list shows it; what is not known is None."""

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
    # The corrected score as the list of scores has it.
    corrected: JsonDict | None = None


class Library:
    """The runs, found anew at each look; nothing outside of its paths is ever opened."""

    def __init__(self, paths: Sequence[Path], *, registry: bool) -> None:
        self._paths = [path.resolve() for path in paths]
        self._registry = registry
        self._folders: dict[str, Path] = {}

    def look(self) -> dict[str, Path]:
        """The folders of runs by their keys."""
        found: list[Path] = []
        for path in self._paths:
            for folder in _run_folders(path):
                found.append(folder)
        if self._registry:
            for run in list_runs():
                if not run.remote and Path(run.output_dir).is_dir():
                    found.append(Path(run.output_dir))
        folders: dict[str, Path] = {}
        for path in dict.fromkeys(map(Path.resolve, found)):
            folders[digest_parts(str(path))[:12]] = path
        self._folders = folders
        return self._folders

    def run(self, key: str) -> RunFolder:
        """The run of a key. Raises UsageError for any other word."""
        if key not in self._folders and key not in self.look():
            raise UsageError(f"no run has the key {key!r}", hint="open the list of runs again")
        return RunFolder(self._folders[key])

    def benchmark(self, key: str, name: str) -> BenchmarkFolder:
        """A benchmark of a run. Raises UsageError where there is none, or its files lie outside of the run."""
        run = self.run(key)
        if name not in run.benchmarks:
            raise UsageError(
                f"the run has no benchmark {name!r}", hint=f"it has: {', '.join(run.benchmarks)}"
            )
        found = run.benchmarks[name]
        task = TaskPaths(run.benchmarks[name].path)
        for path in (task.journal, task.results, task.trajectories, task.labels, task.index):
            if path.is_symlink() and not path.resolve().is_relative_to(run.path):
                said = f"{path.name} of {name!r} leads out of the run's folder"
                raise UsageError(said, hint="open that folder itself")
        return found

    def listed(self) -> list[JsonDict]:
        """All runs, the newest first."""
        runs = [self.described(key) for key in self.look()]
        return sorted(runs, key=lambda run: (str(run["started"]), str(run["path"])), reverse=True)

    def described(self, key: str) -> JsonDict:
        """A run as the list shows it."""
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
        waiting = any(not line.finished for line in lines) or not lines
        return {
            "key": key,
            "path": str(run.path),
            "run_id": meta.run_id if meta else "",
            "model": ", ".join(dict.fromkeys(models)),
            "state": "running" if running else "unfinished" if waiting else "finished",
            "started": started,
            "age_seconds": age.total_seconds() if age else None,
            "benchmarks": [asdict(line) for line in lines],
            "cost_usd": sum(line.cost_usd or 0.0 for line in lines) or None,
        }

    def _lines(self, run: RunFolder, *, running: bool) -> Iterator[ListedBenchmark]:
        sessions = as_dict(read_checkpoint(run.path).get("sessions"))
        open_ones = {one.folder: one for one in find_unfinished(run.path)}
        for name, folder in run.benchmarks.items():
            try:
                files = TaskPaths(folder.path).bundles()
                if files:
                    yield _finished(name, files[-1], files[-1].stat().st_mtime_ns)
                else:
                    yield _unfinished(folder, as_dict(sessions.get(name)), running=running)
            except UsageError as error:
                yield ListedBenchmark(name, status=f"unreadable: {error.message}")
        for path, one in open_ones.items():
            if path.name not in run.benchmarks:
                yield ListedBenchmark(one.name, status="waiting" if running else "not started")


def _run_folders(root: Path) -> Iterator[Path]:
    """The folders of runs at and under a path: those that say so, and those above folders of benchmarks."""
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
    """Bundles do not change once they are written: each is read once, and again when its time differs."""
    bundle = load_bundle(path)
    head = bundle.headline
    cover = bundle.coverage
    line = ListedBenchmark(
        name,
        bundle.model,
        bundle.status,
        finished=bundle.timestamp or "-",
        cost_usd=bundle.runtime.cost_usd,
    )
    line = replace(
        line, coverage=cover.share, scored=cover.scored, failed=cover.failed, planned=cover.planned
    )
    if head is None:
        return line
    if bundle.corrected is not None:
        people: dict[str, Any] | None = asdict(bundle.corrected)
    else:
        people = None
    return replace(
        line,
        metric=head.name,
        score=head.value,
        lower=head.ci_lower,
        upper=head.ci_upper,
        corrected=people,
    )


def _unfinished(folder: BenchmarkFolder, session: JsonDict, *, running: bool) -> ListedBenchmark:
    done = folder.progress()
    planned = as_count(session.get("planned"))
    return ListedBenchmark(
        folder.name,
        status="running" if running else "not finished",
        metric="mean reward so far" if done.mean_reward is not None else None,
        score=done.mean_reward,
        coverage=done.scored / planned if planned else None,
        scored=done.scored,
        failed=done.failed,
        planned=planned,
        cost_usd=done.cost_usd,
    )


async def changes(library: Library, keys: Sequence[str]) -> AsyncIterator[JsonDict]:
    """The runs that changed since the last look, each as it is now; an empty one from time to time."""
    seen: dict[str, dict[str, int]] = {}
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


def _looked(library: Library, keys: Sequence[str]) -> dict[str, dict[str, int]]:
    if keys:
        folders: dict[str, Path] = {key: library.run(key).path for key in keys}
    else:
        folders = library.look()
    return {key: _marks(path) for key, path in folders.items()}


def _marks(run: Path) -> dict[str, int]:
    """Sizes of what grows and times of what is written anew, of a run and of its benchmarks."""
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
    described = library.described(key)
    run = library.run(key)
    running = described["state"] == "running"
    sessions = as_dict(read_checkpoint(run.path).get("sessions"))
    status: list[dict[str, Any]] = []
    for name, one in run.benchmarks.items():
        status.append(
            asdict(benchmark_status(one.path, as_dict(sessions.get(name)), running=running))
        )
    return described | {"status": status}
