"""The runs that the viewer shows. Pages name runs by keys, never by paths."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import files_under
from nemo_evaluator.core.hashing import digest_parts
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.runs.find import task_folders
from nemo_evaluator.runs.folder import BenchmarkFolder, RunFolder
from nemo_evaluator.runs.unfinished import find_unfinished, read_checkpoint
from nemo_evaluator.store.layout import PREVIOUS, TaskPaths
from nemo_evaluator.store.lock import holder_of
from nemo_evaluator.store.run_registry import FILE, RunMeta, list_runs, load_run
from nemo_evaluator.view.listed_run import (
    ListedBenchmark,
    ListedRun,
    finished_benchmark,
    unfinished_benchmark,
)


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
            run_folders += _run_folders(path)
        if self._registry:
            run_folders += _registered_folders()
        folders: dict[str, Path] = {}
        for folder in run_folders:
            path = folder.resolve()
            folders[digest_parts(str(path))[:12]] = path
        self._folders = folders
        return folders

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
        folder = run.benchmarks[name]
        task = TaskPaths(folder.path)
        for path in (task.journal, task.results, task.trajectories, task.labels, task.index):
            if path.is_symlink() and not path.resolve().is_relative_to(run.path):
                message = f"{path.name} of {name!r} leads out of the run's folder"
                raise UsageError(message, hint="open that folder itself")
        return folder

    def listed_runs(self) -> list[ListedRun]:
        """Return all runs for the list, newest first."""
        runs = [self.listed_run(key) for key in self.look()]
        return sorted(runs, key=lambda run: (run.started, run.path), reverse=True)

    def listed_run(self, key: str) -> ListedRun:
        """Return one run for the list.

        Raises:
            UsageError: No run has that key.
        """
        run = self.run(key)
        record = load_run(run.path)
        running = holder_of(run.path) is not None
        benchmarks = list(_benchmarks(run, running=running))
        if record is not None:
            run_id = record.run_id
            started = record.started_at
            age = record.age(datetime.now(UTC))
        else:
            run_id = ""
            started = max((benchmark.finished for benchmark in benchmarks), default="")
            age = None
        return ListedRun(
            key=key,
            path=str(run.path),
            run_id=run_id,
            model=_models(record, benchmarks),
            state=_state(benchmarks, running=running),
            started=started,
            age_seconds=None if age is None else age.total_seconds(),
            benchmarks=benchmarks,
            cost_usd=sum(benchmark.cost_usd or 0.0 for benchmark in benchmarks) or None,
        )


def _models(record: RunMeta | None, benchmarks: list[ListedBenchmark]) -> str:
    """Return the names of a run's models: those of its bundles, or the one that its record names."""
    models = dict.fromkeys(benchmark.model for benchmark in benchmarks if benchmark.model)
    if models:
        return ", ".join(models)
    if record is None:
        return ""
    return str(record.details.get("model") or "")


def _state(benchmarks: list[ListedBenchmark], *, running: bool) -> str:
    """Return ``running``, ``finished`` if all benchmarks are, or ``unfinished``."""
    if running:
        return "running"
    if benchmarks and all(benchmark.finished for benchmark in benchmarks):
        return "finished"
    return "unfinished"


def _benchmarks(run: RunFolder, *, running: bool) -> Iterator[ListedBenchmark]:
    """Yield the benchmarks of a run for the list, including those that have not started."""
    sessions = as_dict(read_checkpoint(run.path).get("sessions"))
    unfinished_names = {benchmark.folder: benchmark.name for benchmark in find_unfinished(run.path)}
    for name, folder in run.benchmarks.items():
        try:
            bundle_files = TaskPaths(folder.path).bundles()
            if bundle_files:
                modified = bundle_files[-1].stat().st_mtime_ns
                yield finished_benchmark(name, bundle_files[-1], modified)
            else:
                yield unfinished_benchmark(folder, as_dict(sessions.get(name)), running=running)
        except UsageError as error:
            yield ListedBenchmark(name, status=f"unreadable: {error.message}")
    for path, name in unfinished_names.items():
        if path.name not in run.benchmarks:
            yield ListedBenchmark(name, status="waiting" if running else "not started")


def _run_folders(root: Path) -> Iterator[Path]:
    """Yield the folders of runs at and under a path: folders with a run record, and those above benchmark folders."""
    if root.is_file():
        root = root.parent
    for path in files_under(root, FILE):
        yield path.parent
    benchmark_folders = list(task_folders(root))
    for path in files_under(root, "eval-*.json"):
        benchmark_folders.append(path.parent)
    for folder in dict.fromkeys(benchmark_folders):
        if PREVIOUS in folder.relative_to(root).parts:
            continue
        yield folder if folder == root else folder.parent


def _registered_folders() -> Iterator[Path]:
    """Yield the folders of this user's registered runs that are on this machine."""
    for run in list_runs():
        folder = Path(run.output_dir)
        if not run.remote and folder.is_dir():
            yield folder
