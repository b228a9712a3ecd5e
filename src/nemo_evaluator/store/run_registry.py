"""The registry of runs: which runs were started, where, and by which executor."""

import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Self, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_regular, write_json
from nemo_evaluator.core.lazy import without_plugins
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import asdict, dataclass, field, replace

FILE: Final = "nel_run.json"
# A run's id is also the name of a folder.
_ID: Final = re.compile(r"\w[\w.-]*")
H = TypeVar("H")


@dataclass(frozen=True, slots=True)
class RunMeta:
    """The registry entry of one run."""

    run_id: str
    executor: str
    output_dir: str
    started_at: str
    config_summary: str
    details: JsonDict = field(default_factory=dict)

    def place(self, name: str) -> Path | None:
        """Return a folder that ``details`` names, or None if it does not exist.

        The recorded absolute path is tried first, then the path relative to the run's folder, in case both were moved.
        """
        absolute = self.details.get(name)
        relative = self.details.get(f"{name}_from_here")
        if absolute and Path(absolute).is_dir():
            return Path(absolute)
        if relative:
            folder = Path(self.output_dir, relative).resolve()
            if folder.is_dir():
                return folder
        return None

    @property
    def remote(self) -> bool:
        """Whether the run's folder is on a machine that is reached over the network."""
        return bool(self.details.get("hostname"))

    def noting(self, handle: Any) -> Self:
        """Return the same run with the fields of ``handle``, a dataclass of plain values that its executor needs."""
        return replace(self, details=self.details | asdict(handle))

    def handle(self, kind: type[H]) -> H | None:
        """Return the executor's data as ``kind``, or None if it is missing or of another kind."""
        try:
            handle: H = _adapter(cast(Any, kind)).validate_python(self.details)
        except ValidationError:
            return None
        return handle

    def age(self, now: datetime) -> timedelta | None:
        """Return the time since the run started, at least zero; None if the start time cannot be parsed."""
        try:
            started = datetime.fromisoformat(self.started_at)
        except ValueError:
            return None
        elapsed = now - (started if started.tzinfo else started.replace(tzinfo=UTC))
        return max(elapsed, timedelta(0))

    def save(self) -> None:
        """Write the run to its output folder and to the registry.

        A remote run is written only to the registry, a part of another run only to its folder.
        """
        if not self.remote:
            write_json(Path(self.output_dir) / FILE, asdict(self))
        if "part_of" not in self.details:
            write_json(registry_dir() / self.run_id / FILE, asdict(self))


def registry_dir() -> Path:
    """Return the folder that lists all runs of this user."""
    data_home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data_home) / "nel" / "runs"


def new_run_id(now: datetime | None = None) -> str:
    """Return a new run id, ``YYYYMMDD_HHMMSS_<8 hex digits>`` in UTC; ids within one second differ too."""
    now = now or datetime.now(UTC)
    return f"{now:%Y%m%d_%H%M%S}_{secrets.token_hex(4)}"


def invocation_of(run_id: str) -> str:
    """Return the hex digits at the end of a run's id, which also identify the run."""
    return run_id.rpartition("_")[2]


def places(output_dir: Path, **folders: Path) -> dict[str, str]:
    """Return folders for ``details``, each with its absolute path and its path relative to the run's folder."""
    absolute = {name: str(path.resolve()) for name, path in folders.items()}
    relative: dict[str, str] = {}
    for name, path in absolute.items():
        relative[f"{name}_from_here"] = os.path.relpath(path, output_dir.resolve())
    return absolute | relative


def summary_of(benchmarks: Sequence[str]) -> str:
    """Return the name of the first benchmark and the number of further ones."""
    if not benchmarks:
        return ""
    if len(benchmarks) == 1:
        return benchmarks[0]
    return f"{benchmarks[0]} (+{len(benchmarks) - 1} more)"


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """Return the pydantic adapter of a type."""
    with without_plugins():
        return TypeAdapter(kind)


def load_run(folder: Path) -> RunMeta | None:
    """Return the run recorded in a folder, or None if there is no readable record."""
    try:
        run: RunMeta = _adapter(RunMeta).validate_json(read_regular(folder / FILE))
    except (OSError, ValidationError):
        return None
    if _ID.fullmatch(run.run_id):
        return run
    return None


def run_in(folder: Path) -> RunMeta | None:
    """Return the run of a folder, with its current path as the output folder if the run is local."""
    run = load_run(folder)
    if run is None or run.remote:
        return run
    return replace(run, output_dir=str(folder.resolve()))


def refreshed(run: RunMeta) -> RunMeta:
    """Return a run as its folder records it now, or ``run`` itself if the folder is gone or holds another run."""
    current = run_in(Path(run.output_dir))
    if current is not None and current.run_id == run.run_id:
        return current
    return run


def list_runs() -> Iterator[RunMeta]:
    """Yield all registered runs, newest first."""
    root = registry_dir()
    if not root.is_dir():
        return
    newest_first = sorted(root.iterdir(), reverse=True)
    for _, same_second in groupby(newest_first, key=_second_of):
        runs: list[RunMeta] = []
        for folder in same_second:
            run = load_run(folder)
            if run is not None and run.run_id == folder.name:
                runs.append(run)
        # Within a second, the order of the ids is random.
        runs.sort(key=lambda run: run.started_at, reverse=True)
        yield from map(refreshed, runs)


def _second_of(folder: Path) -> str:
    """Return the date and time at the beginning of a run folder's name."""
    return folder.name.rpartition("_")[0]


def known_run(which: str) -> RunMeta:
    """Find a registered run.

    Args:
        which: The run's id, the beginning of the id, or the beginning of the id's hex digits.

    Raises:
        UsageError: No run matches, or more than one.
    """
    runs = list(list_runs())
    matches = [run for run in runs if run.run_id.startswith(which)]
    for run in matches:
        if run.run_id == which:
            return run
    if not matches:
        matches = [run for run in runs if invocation_of(run.run_id).startswith(which.lower())]
    if not matches:
        raise UsageError(f"no run {which!r} is known", hint="`nel eval runs` lists them")
    if len(matches) > 1:
        ids = ", ".join(run.run_id for run in matches[:5])
        raise UsageError(
            f"{len(matches)} runs begin with {which!r}", hint=f"give more of the id: {ids}"
        )
    return matches[0]


def find_run(which: str | None = None, output_dir: str | Path | None = None) -> RunMeta:
    """Find a run by its id, the beginning of its id, or its folder (default: ``./eval_results``).

    Args:
        which: The id, the beginning of an id, or a folder.
        output_dir: The folder of the run; takes precedence over ``which``.

    Raises:
        UsageError: No run matches, or its folder is gone or holds a later run.
    """
    folder = Path(output_dir or which or "eval_results")
    run = run_in(folder)
    if run is not None:
        return run
    if (folder / FILE).is_file():
        raise UsageError(
            f"{folder / FILE} is damaged: it does not describe a run",
            hint="the results are not affected; `nel eval resume` writes it again",
        )
    if which is None or output_dir is not None or folder.is_dir():
        raise UsageError(
            f"no run was started in {folder}",
            hint="name a run by its id or folder; see `nel eval runs`",
        )
    run = known_run(which)
    if run.remote:
        return run
    if not Path(run.output_dir).is_dir():
        hint = "if it was moved, name it by its folder of today"
        raise UsageError(f"the folder of run {run.run_id}, {run.output_dir}, is gone", hint=hint)
    current = load_run(Path(run.output_dir))
    if current is not None and current.run_id != run.run_id:
        hint = f"that one is run {current.run_id}"
        raise UsageError(
            f"the folder of run {run.run_id}, {run.output_dir}, holds a later run", hint=hint
        )
    return run


def forget_run(run_id: str) -> None:
    """Remove a run from the registry; its output stays."""
    shutil.rmtree(registry_dir() / run_id, ignore_errors=True)
