"""Where the files of a run are."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from nemo_evaluator.core.files import safe_name

PREVIOUS: Final = "previous"
_KEPT: Final = {PREVIOUS}


@dataclass(frozen=True, slots=True)
class TaskPaths:
    """The files of one benchmark."""

    root: Path

    @property
    def journal(self) -> Path:
        """The truth of the run."""
        return self.root / "journal.jsonl"

    @property
    def results(self) -> Path:
        """One row a step."""
        return self.root / "results.jsonl"

    @property
    def trajectories(self) -> Path:
        """One row a step, with the whole conversation."""
        return self.root / "trajectories.jsonl"

    @property
    def runtime_stats(self) -> Path:
        """Tokens, latency, throughput."""
        return self.root / "runtime_stats.json"

    @property
    def failure_analysis(self) -> Path:
        """Failures by category; only there when there are any."""
        return self.root / "failure_analysis.json"

    @property
    def traffic(self) -> Path:
        """Model calls on the wire, when kept."""
        return self.root / "model_traffic.jsonl"

    def bundle(self, name: str, at: datetime) -> Path:
        """The path of a new bundle."""
        return self.root / f"eval-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{safe_name(name)}.json"

    def bundles(self) -> list[Path]:
        """The bundles in this folder, oldest first."""
        return sorted(self.root.glob("eval-*.json"))


def archive_previous(task: TaskPaths) -> Path | None:
    """Move what an earlier run left in the folder to ``previous/<stamp>``: a fresh run is clean, nothing is lost."""
    if not task.root.is_dir():
        return None
    old = [path for path in task.root.iterdir() if path.name not in _KEPT]
    if not old:
        return None
    stamp = datetime.fromtimestamp(max(path.stat().st_mtime for path in old), UTC)
    target = task.root / PREVIOUS / f"{stamp:%Y%m%dT%H%M%SZ}"
    number = 1
    while target.exists():
        number += 1
        target = target.with_name(f"{stamp:%Y%m%dT%H%M%SZ}-{number}")
    target.mkdir(parents=True)
    for path in old:
        shutil.move(path, target / path.name)
    return target


def newest_bundle(folder: Path) -> Path | None:
    """The newest bundle of a task folder, by its stamp."""
    found = TaskPaths(folder).bundles()
    return found[-1] if found else None
