"""Where the files of a run are."""

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


class _File:
    """A file of a benchmark's folder, by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, task: "TaskPaths", owner: object) -> Path:
        return task.root / self._name


@dataclass(frozen=True, slots=True)
class TaskPaths:
    """The files of one benchmark."""

    root: Path

    journal = _File("journal.jsonl")  # The truth of the run.
    results = _File("results.jsonl")  # One row a step.
    trajectories = _File("trajectories.jsonl")  # One row a step, with the whole conversation.
    runtime_stats = _File("runtime_stats.json")  # Tokens, latency, throughput.
    failure_analysis = _File(
        "failure_analysis.json"
    )  # Failures by category; only there when there are any.
    traffic = _File("model_traffic.jsonl")  # Model calls on the wire, when kept.
    index = _File("index.sqlite")  # The index of the rows; it can be built anew at any time.
    labels = _File("labels.jsonl")  # What people said of rows.
    label_draw = _File(
        "label_draw.json"
    )  # Which rows were drawn to be labelled, each with its chance.
    noise = _File("noise.json")  # How far the run differs from itself when it is asked again.
    batches = _File("batches")  # What is known of batches at vendors, a folder per service.
    workspaces = _File(
        "workspaces"
    )  # What agents left in their working directories, as far as it was kept.

    def workspace(self, step: Step, seal: str) -> Path:
        """The work that belongs to one answer, which its record's checksum names."""
        return self.workspaces / f"{step.problem_idx}-{step.repeat}-{seal}.tar.gz"

    def bundle(self, name: str, at: datetime) -> Path:
        return self.root / f"eval-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{safe_name(name)}.json"

    def bundles(self) -> list[Path]:
        """The bundles in this folder, oldest first."""
        return sorted(self.root.glob("eval-*.json"))


def archive_previous(task: TaskPaths) -> str | None:
    """Move what an earlier run wrote to ``previous/<stamp>``, and say so; files that nel did not write stay."""
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
    return f"{task.root}: moved the earlier run ({counted(len(old), 'file')}) to {target.relative_to(task.root)}/"


def mark_rows_old(task: TaskPaths) -> None:
    """Make sure that the rows of an earlier session count as older than what is written into the journal from now on.

    They have a later time than the journal will have where the clock was set back in between.
    """
    if task.results.is_file() and task.results.stat().st_mtime > time.time():
        os.utime(task.results, (0, 0))


def previous_journals(task: TaskPaths) -> list[Path]:
    """The journals of runs that were moved aside, newest first."""
    return sorted((task.root / PREVIOUS).glob("*/journal.jsonl"), reverse=True)
