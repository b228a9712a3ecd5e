"""Where the files of a run are."""

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.types import Step
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.core.wording import counted

# Tracebacks of what benchmarks, scorers and solvers raised.
ERRORS: Final = "errors.log"
PREVIOUS: Final = "previous"
LOG: Final = "nel_eval.log"
# The files of a benchmark that nel writes; whatever else lies in its folder is somebody's own.
OWN: Final = re.compile(
    r"journal(\.damaged)?\.jsonl|results\.jsonl|trajectories(_enriched)?\.jsonl|model_traffic\.jsonl|labels\.jsonl"
    r"|(label_draw|noise)\.json|runtime_stats\.json|failure_analysis\.json|SHA256SUMS|errors\.log|index\.sqlite(-journal)?"
    r"|eval-.+\.json|.+_inspect\.(eval|json)|workspaces|batches"
)


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

    @property
    def index(self) -> Path:
        """The index of the rows; it can be built anew at any time."""
        return self.root / "index.sqlite"

    @property
    def labels(self) -> Path:
        """What people said of rows."""
        return self.root / "labels.jsonl"

    @property
    def label_draw(self) -> Path:
        """Which rows were drawn to be labelled, each with its chance."""
        return self.root / "label_draw.json"

    @property
    def noise(self) -> Path:
        """How far the run differs from itself when it is asked again."""
        return self.root / "noise.json"

    @property
    def batches(self) -> Path:
        """What is known of batches at vendors, a folder per service."""
        return self.root / "batches"

    @property
    def workspaces(self) -> Path:
        """What agents left in their working directories, as far as it was kept."""
        return self.root / "workspaces"

    def workspace(self, step: Step, seal: str) -> Path:
        """The work that belongs to one answer, which its record's checksum names."""
        return self.workspaces / f"{step.problem_idx}-{step.repeat}-{seal}.tar.gz"

    def bundle(self, name: str, at: datetime) -> Path:
        """The path of a new bundle."""
        return self.root / f"eval-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{safe_name(name)}.json"

    def bundles(self) -> list[Path]:
        """The bundles in this folder, oldest first."""
        return sorted(self.root.glob("eval-*.json"))


@dataclass(frozen=True, slots=True)
class Moved:
    """What was moved out of the way of a new run, and where it is now."""

    files: int
    target: Path

    def __str__(self) -> str:
        folder = self.target.parent.parent
        return f"{folder}: moved the earlier run ({counted(self.files, 'file')}) to {self.target.relative_to(folder)}/"


def archive_previous(task: TaskPaths) -> Moved | None:
    """Move what an earlier run wrote to ``previous/<stamp>``: a fresh run is clean, nothing is lost.

    Files that nel did not write stay where they are.
    """
    if not task.root.is_dir():
        return None
    old = [path for path in task.root.iterdir() if OWN.fullmatch(path.name)]
    if not old or not (task.journal.exists() or task.results.exists() or task.bundles()):
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
    return Moved(len(old), target)


def previous_journals(task: TaskPaths) -> list[Path]:
    """The journals of runs that were moved aside, newest first."""
    return sorted((task.root / PREVIOUS).glob("*/journal.jsonl"), reverse=True)
