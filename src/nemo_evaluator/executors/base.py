"""The contract of executors: where a run happens. Commands and the list of runs know nothing else of them.
A run is started from a request. Wherever that happens, what runs there is the worker of ``launch/``, and what it
writes is the same run folder. So an executor only has to start the worker, to know whether it lives, and to stop it."""

from __future__ import annotations

import shlex
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

from nemo_evaluator.config import LoadedConfig
from nemo_evaluator.config.groups import CLUSTERS
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, safe_name
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.core.wording import counted
from nemo_evaluator.executors.request import RunRequest
from nemo_evaluator.models.batch.ledger import open_batches
from nemo_evaluator.runs.find import task_folders
from nemo_evaluator.runs.unfinished import unfinished_answers
from nemo_evaluator.store.layout import LOG, PREVIOUS, TaskPaths
from nemo_evaluator.store.run_registry import RunMeta, forget_run, refreshed, run_in

if TYPE_CHECKING:
    from nemo_evaluator.suite.results import SuitePool

State = Literal[
    "pending",
    "starting",
    "running",
    "finished",
    "failed",
    "stopped",
    "killed",
    "not started",
    "ended",
    "unknown",
]
# The worker's exit codes. An INVALID run has come to its end, too; a spent budget has not.
EXIT_STATES: Final[dict[int, State]] = {
    0: "finished",
    3: "finished",
    4: "stopped",
    5: "stopped",
    130: "stopped",
}
_LOOK: Final = 0.2


@dataclass(frozen=True, slots=True)
class Job:
    """A request that was checked: what an executor starts."""

    request: RunRequest
    loaded: LoadedConfig
    run: RunMeta

    @property
    def folder(self) -> Path:
        """Where the run writes."""
        return Path(self.run.output_dir)

    def refuse_submit(self) -> None:
        """For executors without a queue."""
        if self.request.submit:
            hint = "use --background to run detached"
            raise UsageError(f"the {self.run.executor} cluster has nothing to submit to", hint=hint)

    def tell_started(self, what: str, facts: JsonDict, *, event: str = "started") -> None:
        """Print that the run continues elsewhere, and the commands that manage it."""
        told = {
            "event": event,
            "run_id": self.run.run_id,
            **facts,
            "output_dir": self.run.output_dir,
        }
        lines = [f"{what}, run {self.run.run_id}"]
        for command in ("status", "logs -f", "stop"):
            lines.append(f"  nel eval {command} {self.run.run_id}")
        print(dumps(told).decode() if self.request.as_json else "\n".join(lines), flush=True)

    def refuse_unfinished(self) -> None:
        """Raise UsageError for an unfinished run in the folder: it is never overwritten silently."""
        if self.request.resume or self.request.fresh:
            return
        names = [safe_name(bench.key) for bench in self.loaded.config.benchmarks]
        folders = [self.folder, *sorted(self.folder.glob("shard_*"))]
        for folder in folders:
            for name in names:
                self._refuse_unfinished_task(TaskPaths(folder / name))

    def _refuse_unfinished_task(self, task: TaskPaths) -> None:
        unfinished = open_batches(task.batches)
        answers = unfinished_answers(task)
        if answers:
            unfinished = [counted(answers, "answer"), *unfinished]
        if not unfinished:
            return
        command = shlex.join(["nel", *self.request.command])
        hint = (
            f"choose what to do with it:\n    {command} --resume   # continue; finished answers are reused\n"
            f"    {command} --fresh    # start over; the earlier run is moved to {task.root / PREVIOUS}/"
        )
        raise UsageError(
            f"{task.root} holds an unfinished run with {'; '.join(unfinished)}", hint=hint
        )


@dataclass(frozen=True, slots=True)
class Life:
    """Whether a run lives, where (for people, and as ``facts`` for scripts), or how it ended."""

    state: State
    where: str = ""
    facts: JsonDict = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """True while something may still be written."""
        return self.state in ("pending", "starting", "running")


class Executor(ABC):
    """Where runs happen. It keeps no state of its own: what it must know of a run later is the run's handle."""

    @abstractmethod
    def start(self, job: Job) -> int | None:
        """Start a run, and wait for its end unless the request says otherwise.

        Returns:
            The exit code. None: the run is to happen here and now, in the process that asks.
        """

    @abstractmethod
    def life(self, run: RunMeta) -> Life | None:
        """Where a run lives; None when it does not."""

    @abstractmethod
    def stop(self, run: RunMeta) -> None:
        """Ask a living run to close, wait until it has, and insist if need be."""

    def plan(self, job: Job) -> tuple[str, JsonDict] | None:
        """What would be started, for people and for programs; None: the run itself, here."""
        return None

    def pool(self, job: Job) -> SuitePool | None:
        """Processes elsewhere that run the steps of a run; None when the worker does that itself."""
        return None

    def resume(self, job: Job) -> int | None:
        """Continue a run. As a rule it is started again, since the worker finds the earlier answers."""
        return self.start(job)

    def status(self, run: RunMeta) -> Life:
        """Where a run lives, or how it ended."""
        return self.life(run) or ended(refreshed(run))

    def shard(self, run: RunMeta, index: int) -> RunMeta:
        """One shard of a run, as a run. Raises UsageError when there is no such shard."""
        part = run_in(Path(run.output_dir) / f"shard_{index}")
        if part is None:
            raise UsageError(
                f"run {run.run_id} has no shard {index}", hint="shards are counted from 0"
            )
        return part

    def logs(self, run: RunMeta, *, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """The lines of a run's log, or the last of them; with ``follow`` until the run ends."""
        path = Path(run.output_dir) / LOG
        while follow and not path.is_file() and self.life(run) is not None:
            time.sleep(_LOOK)  # It has only just been started.
        if not path.is_file():
            raise UsageError(f"{path} does not exist", hint="the run has not logged anything yet")
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from file if tail is None else deque(file, maxlen=tail)
            while follow:
                over = self.life(run) is None
                yield from file  # What it wrote before it ended is read after that was seen.
                if over:
                    return
                time.sleep(_LOOK)

    def clean(self, run: RunMeta) -> None:
        """Remove the traces of a run outside its folder."""
        forget_run(run.run_id)


def not_running(run: RunMeta) -> UsageError:
    """The error of ``stop`` for a run that has ended."""
    return UsageError(
        f"run {run.run_id} is not running", hint=f"see `nel eval status {run.run_id}`"
    )


def executor_of(word: str) -> Executor:
    """The executor of a cluster type. Raises UsageError when there is none, or not in this version."""
    return cast(Executor, CLUSTERS.build(word))


def status_of(run: RunMeta) -> Life:
    """The status of a run, also of one whose executor is not there any more."""
    try:
        return executor_of(run.executor).status(run)
    except UsageError as error:
        return Life("unknown", error.message)


def clean(run: RunMeta) -> None:
    """Take an ended run off the list, also one whose executor is not there any more."""
    if run.executor in CLUSTERS.ready():
        executor_of(run.executor).clean(run)
    else:
        forget_run(run.run_id)


def ended(run: RunMeta) -> Life:
    """How a run that does not live ended, by what it noted itself."""
    code = run.details.get("exit_code")
    folder = Path(run.output_dir)
    if isinstance(code, int):
        return Life(EXIT_STATES.get(code, "failed"), facts={"exit_code": code})
    if not task_folders(folder):
        return Life("not started")
    # Before exit codes were noted, every run ended like this.
    return Life("killed" if "host" in run.details else "ended")
