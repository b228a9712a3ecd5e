"""The registry of runs: what was started, where, and by which executor."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_json, write_json
from nemo_evaluator.core.types import JsonDict

FILE: Final = "nel_run.json"


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
        there, from_here = self.details.get(name), self.details.get(f"{name}_from_here")
        found = [Path(there)] if there else []
        found += [Path(self.output_dir, from_here).resolve()] if from_here else []
        return next((path for path in found if path.is_dir()), None)

    def save(self) -> None:
        """Write the run to its output folder and to the registry."""
        for folder in (Path(self.output_dir), registry_dir() / self.run_id):
            write_json(folder / FILE, asdict(self))


def registry_dir() -> Path:
    """Where all runs of this user are listed."""
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data) / "nel" / "runs"


def new_run_id(now: datetime | None = None) -> str:
    """``YYYYMMDD_HHMMSS_<8 hex>``, UTC; no two are alike, also within a second."""
    now = now or datetime.now(UTC)
    return f"{now:%Y%m%d_%H%M%S}_{secrets.token_hex(4)}"


def places(output_dir: Path, **folders: Path) -> JsonDict:
    """Folders for ``details``, each as it is and as seen from the run's folder."""
    return {
        key: value
        for name, path in folders.items()
        for key, value in (
            (name, str(path.resolve())),
            (f"{name}_from_here", os.path.relpath(path.resolve(), output_dir.resolve())),
        )
    }


def summary_of(benchmarks: Sequence[str]) -> str:
    """The first benchmark's name, and how many more."""
    more = f" (+{len(benchmarks) - 1} more)" if len(benchmarks) > 1 else ""
    return f"{benchmarks[0]}{more}" if benchmarks else ""


def load_run(folder: Path) -> RunMeta | None:
    """The run recorded in a folder, if there is one that can be read."""
    try:
        return RunMeta(**read_json(folder / FILE))
    except (OSError, TypeError, orjson.JSONDecodeError):
        return None


def run_in(folder: Path) -> RunMeta | None:
    """The run of a folder, which may have been moved since: its output is where it is now."""
    run = load_run(folder)
    return replace(run, output_dir=str(folder.resolve())) if run is not None else None


def list_runs() -> Iterator[RunMeta]:
    """All registered runs, newest first."""
    root = registry_dir()
    folders = sorted(root.iterdir(), reverse=True) if root.is_dir() else []
    for folder in folders:
        run = load_run(folder)
        if run is not None:
            yield run


def find_run(run_id: str | None = None, output_dir: str | Path | None = None) -> RunMeta:
    """The run with an id, or the one whose output folder this is (default: ``./eval_results``)."""
    if run_id is not None:
        run = load_run(registry_dir() / run_id)
        if run is None:
            raise UsageError(f"no run {run_id!r} is known", hint="`nel eval runs` lists them")
        if not Path(run.output_dir).is_dir():
            hint = "if it was moved, give -o with its folder of today"
            raise UsageError(f"the folder of run {run_id}, {run.output_dir}, is gone", hint=hint)
        return run
    folder = Path(output_dir or "eval_results")
    run = run_in(folder)
    if run is None:
        raise UsageError(f"no run was started in {folder}", hint="give -o DIR or -r RUN_ID; `nel eval runs` lists runs")
    return run


def forget_run(run_id: str) -> None:
    """Remove a run from the registry; its output stays."""
    shutil.rmtree(registry_dir() / run_id, ignore_errors=True)
