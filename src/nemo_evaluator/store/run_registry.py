"""The registry of runs: what was started, where, and by which executor."""

import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, Self, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_regular, write_json
from nemo_evaluator.core.lazy import without_plugins
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import asdict, dataclass, field, replace

FILE: Final = "nel_run.json"
# It becomes the name of a folder.
_ID: Final = re.compile(r"\w[\w.-]*")
H = TypeVar("H")


@dataclass(frozen=True, slots=True)
class RunMeta:
    """One run."""

    run_id: str
    executor: str
    output_dir: str
    started_at: str
    config_summary: str
    details: JsonDict = field(default_factory=dict)

    def place(self, name: str) -> Path | None:
        """A folder that ``details`` names: where it was, or as seen from the run's folder when both were moved."""
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
        """True when its folder is on a machine that is reached over the network."""
        return bool(self.details.get("hostname"))

    def noting(self, handle: Any) -> Self:
        """The same run, with what its executor must know of it later: a dataclass of plain values."""
        return replace(self, details=self.details | asdict(handle))

    def handle(self, kind: type[H]) -> H | None:
        """What its executor has noted; None when that is missing, or not of this kind."""
        try:
            noted: H = _adapter(cast(Any, kind)).validate_python(self.details)
        except ValidationError:
            return None
        return noted

    def age(self, now: datetime) -> timedelta | None:
        """How long ago it was started, where that can be read; never less than nothing, whatever the clock says."""
        try:
            started = datetime.fromisoformat(self.started_at)
        except ValueError:
            return None
        age = now - (started if started.tzinfo else started.replace(tzinfo=UTC))
        return max(age, timedelta(0))

    def save(self) -> None:
        """Write the run to its output folder and to the registry; what is elsewhere or part of a run to one of them."""
        if not self.remote:
            write_json(Path(self.output_dir) / FILE, asdict(self))
        if "part_of" not in self.details:
            write_json(registry_dir() / self.run_id / FILE, asdict(self))


def registry_dir() -> Path:
    """Where all runs of this user are listed."""
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data) / "nel" / "runs"


def new_run_id(now: datetime | None = None) -> str:
    """``YYYYMMDD_HHMMSS_<8 hex>``, UTC; no two are alike, also within a second."""
    now = now or datetime.now(UTC)
    return f"{now:%Y%m%d_%H%M%S}_{secrets.token_hex(4)}"


def invocation_of(run_id: str) -> str:
    """The hex digits at the end of a run's id, which name it, too."""
    return run_id.rpartition("_")[2]


def places(output_dir: Path, **folders: Path) -> JsonDict:
    """Folders for ``details``, each as it is and as seen from the run's folder."""
    absolute = {name: str(path.resolve()) for name, path in folders.items()}
    relative: dict[str, str] = {}
    for name, path in absolute.items():
        relative[f"{name}_from_here"] = os.path.relpath(path, output_dir.resolve())
    return absolute | relative


def summary_of(benchmarks: Sequence[str]) -> str:
    """The first benchmark's name, and how many more."""
    if not benchmarks:
        return ""
    if len(benchmarks) == 1:
        return benchmarks[0]
    return f"{benchmarks[0]} (+{len(benchmarks) - 1} more)"


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    with without_plugins():
        return TypeAdapter(kind)


def load_run(folder: Path) -> RunMeta | None:
    """The run recorded in a folder, if there is one that can be read."""
    try:
        run: RunMeta = _adapter(RunMeta).validate_json(read_regular(folder / FILE))
    except (OSError, ValidationError):
        return None
    if _ID.fullmatch(run.run_id):
        return run
    return None


def run_in(folder: Path) -> RunMeta | None:
    """The run of a folder, which may have been moved since: its output is where it is now."""
    run = load_run(folder)
    if run is None or run.remote:
        return run
    return replace(run, output_dir=str(folder.resolve()))


def refreshed(run: RunMeta) -> RunMeta:
    """A run as its folder records it now; the folder may be gone or hold another run."""
    current = run_in(Path(run.output_dir))
    if current is not None and current.run_id == run.run_id:
        return current
    return run


def list_runs() -> Iterator[RunMeta]:
    """All registered runs, newest first."""
    root = registry_dir()
    if not root.is_dir():
        return
    for folder in sorted(root.iterdir(), reverse=True):
        run = load_run(folder)
        if run is not None and run.run_id == folder.name:
            yield refreshed(run)


def known_run(which: str) -> RunMeta:
    """Find a registered run.

    Args:
        which: Its id, the beginning of its id, or the beginning of the id's hex digits.

    Raises:
        UsageError: When no run, or more than one, is meant.
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
    """The run with an id, the beginning of one, or a folder (default: ``./eval_results``). Raises UsageError."""
    folder = Path(output_dir or which or "eval_results")
    run = run_in(folder)
    if run is not None:
        return run
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
    present = load_run(Path(run.output_dir))
    if present is not None and present.run_id != run.run_id:
        hint = f"that one is run {present.run_id}"
        raise UsageError(
            f"the folder of run {run.run_id}, {run.output_dir}, holds a later run", hint=hint
        )
    return run


def forget_run(run_id: str) -> None:
    """Remove a run from the registry; its output stays."""
    shutil.rmtree(registry_dir() / run_id, ignore_errors=True)
