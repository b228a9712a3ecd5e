"""The registry of runs: what was started, where, and by which executor."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
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

    def save(self) -> None:
        """Write the run to its output folder and to the registry."""
        for folder in (Path(self.output_dir), registry_dir() / self.run_id):
            write_json(folder / FILE, asdict(self))


def registry_dir() -> Path:
    """Where all runs of this user are listed."""
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data) / "nel" / "runs"


def new_run_id(benchmarks: Sequence[str], models: Sequence[str], now: datetime | None = None) -> str:
    """``YYYYMMDD_HHMMSS_<8 hex>``, UTC."""
    now = now or datetime.now(UTC)
    short = hashlib.sha256("|".join([*benchmarks, *models]).encode()).hexdigest()[:8]
    return f"{now:%Y%m%d_%H%M%S}_{short}"


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
        return run
    folder = Path(output_dir or "eval_results")
    run = load_run(folder)
    if run is None:
        raise UsageError(f"no run was started in {folder}", hint="give -o DIR or -r RUN_ID; `nel eval runs` lists runs")
    return run


def forget_run(run_id: str) -> None:
    """Remove a run from the registry; its output stays."""
    shutil.rmtree(registry_dir() / run_id, ignore_errors=True)
