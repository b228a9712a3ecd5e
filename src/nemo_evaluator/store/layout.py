"""The names and places of a run's files."""

import os
import re
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.types import Step
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.core.wording import counted

# Tracebacks of exceptions from benchmarks, scorers and solvers.
ERRORS: Final = "errors.log"
PREVIOUS: Final = "previous"
LOG: Final = "nel_eval.log"
# The files of a benchmark that nel writes; all other files in its folder belong to the user.
OWN: Final = re.compile(
    r"journal(\.damaged)?\.jsonl|results\.jsonl|trajectories(_enriched)?\.jsonl|model_traffic\.jsonl|labels\.jsonl"
    r"|(label_draw|noise)\.json|runtime_stats\.json|failure_analysis\.json|SHA256SUMS|errors\.log|index\.sqlite(-journal)?"
    r"|eval-.+\.json|.+_inspect\.(eval|json)|workspaces|batches"
)


class _File:
    """A file in a benchmark's folder, as a descriptor of ``TaskPaths``."""

    def __init__(self, name: str) -> None:
        """Name the file within the benchmark's folder."""
        self._name = name

    def __get__(self, task: "TaskPaths", owner: object) -> Path:
        """Return the path of the file for the paths of one benchmark."""
        return task.root / self._name


@dataclass(frozen=True, slots=True)
class TaskPaths:
    """The paths of one benchmark's files."""

    root: Path

    # The source of truth of the run.
    journal = _File("journal.jsonl")
    # One row per sample.
    results = _File("results.jsonl")
    # One row per sample, with the whole conversation.
    trajectories = _File("trajectories.jsonl")
    # Tokens, latency, throughput.
    runtime_stats = _File("runtime_stats.json")
    # Failures by category; exists only if there are any.
    failure_analysis = _File("failure_analysis.json")
    # Model calls on the wire, when kept.
    traffic = _File("model_traffic.jsonl")
    # The index of the rows; it can be rebuilt at any time.
    index = _File("index.sqlite")
    # People's labels of rows.
    labels = _File("labels.jsonl")
    # The rows sampled for labelling, each with its probability.
    label_draw = _File("label_draw.json")
    # The run-to-run noise.
    noise = _File("noise.json")
    # The state of vendor batches, one folder per service.
    batches = _File("batches")
    # The working directories of agents, if they were kept.
    workspaces = _File("workspaces")

    def workspace(self, step: Step, seal: str) -> Path:
        """Return the archive of an answer's working directory; ``seal`` is the checksum of the answer's record."""
        return self.workspaces / f"{step.problem_idx}-{step.repeat}-{seal}.tar.gz"

    def bundle(self, name: str, at: datetime) -> Path:
        """Return the path for a bundle of a benchmark that finished at ``at``."""
        return self.root / f"eval-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{safe_name(name)}.json"

    def bundles(self) -> list[Path]:
        """Return the bundles in this folder, oldest first."""
        return sorted(self.root.glob("eval-*.json"))


def archive_previous(task: TaskPaths) -> str | None:
    """Move the files of an earlier run to ``previous/<stamp>``; files that nel did not write stay.

    Returns:
        A message about the move, or None if there was nothing to move.
    """
    if not task.root.is_dir():
        return None
    files = [path for path in task.root.iterdir() if OWN.fullmatch(path.name)]
    if not files or not (task.journal.exists() or task.results.exists() or task.bundles()):
        return None
    stamp = datetime.fromtimestamp(max(path.stat().st_mtime for path in files), UTC)
    target = task.root / PREVIOUS / f"{stamp:%Y%m%dT%H%M%SZ}"
    number = 1
    while target.exists():
        number += 1
        target = target.with_name(f"{stamp:%Y%m%dT%H%M%SZ}-{number}")
    target.mkdir(parents=True)
    for path in files:
        shutil.move(path, target / path.name)
    return f"{task.root}: moved the earlier run ({counted(len(files), 'file')}) to {target.relative_to(task.root)}/"


def mark_rows_old(task: TaskPaths) -> None:
    """Make the rows of an earlier session older than everything that is written to the journal from now on.

    Their modification time can be in the future if the clock was set back in between.
    """
    if task.results.is_file() and task.results.stat().st_mtime > time.time():
        os.utime(task.results, (0, 0))


def previous_journals(task: TaskPaths) -> list[Path]:
    """Return the journals of archived runs, newest first."""
    return sorted((task.root / PREVIOUS).glob("*/journal.jsonl"), reverse=True)
