"""The interface of executors, which start runs on a cluster type. Commands and the run list know only this interface.

Wherever a run is started, it is the worker of ``launch/`` that runs there, and it writes the same run folder. So an
executor only has to start the worker, to find out whether it is running, and to stop it.
"""

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
# The worker's exit codes. An INVALID run is finished, too; a run whose budget is spent is not.
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
    """A checked request, ready to be started by an executor."""

    request: RunRequest
    loaded: LoadedConfig
    run: RunMeta

    @property
    def folder(self) -> Path:
        """The output folder of the run."""
        return Path(self.run.output_dir)

    def refuse_submit(self) -> None:
        """Raise UsageError if ``--submit`` is given: for executors without a queue."""
        if self.request.submit:
            hint = "use --background to run detached"
            raise UsageError(f"the {self.run.executor} cluster has nothing to submit to", hint=hint)

    def tell_started(self, what: str, facts: JsonDict, *, event: str = "started") -> None:
        """Print that the run continues elsewhere, with the commands that manage it, or as JSON if requested.

        Args:
            what: What was started, as the first words of the message.
            facts: Facts about it, for the JSON output.
            event: The name of the event in the JSON output.
        """
        event_facts = {
            "event": event,
            "run_id": self.run.run_id,
            **facts,
            "output_dir": self.run.output_dir,
        }
        lines = [f"{what}, run {self.run.run_id}"]
        for command in ("status", "logs -f", "stop"):
            lines.append(f"  nel eval {command} {self.run.run_id}")
        message = "\n".join(lines)
        if self.request.as_json:
            message = dumps(event_facts).decode()
        print(message, flush=True)

    def refuse_unfinished(self) -> None:
        """Raise UsageError if the folder holds an unfinished run: it is never overwritten silently."""
        if self.request.resume or self.request.fresh:
            return
        names = [safe_name(bench.key) for bench in self.loaded.config.benchmarks]
        folders = [self.folder, *sorted(self.folder.glob("shard_*"))]
        for folder in folders:
            for name in names:
                self._refuse_unfinished_task(TaskPaths(folder / name))

    def _refuse_unfinished_task(self, task: TaskPaths) -> None:
        """Raise UsageError if the folder of one benchmark holds answers or open batches of an unfinished run."""
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
class PlanDescription:
    """What an executor would start, for ``--dry-run``.

    Attributes:
        text: The plan for people.
        data: The complete plan, for ``--json``.
    """

    text: str
    data: JsonDict


@dataclass(frozen=True, slots=True)
class Life:
    """The state of a run.

    Attributes:
        state: Whether the run waits, is running, or how it ended.
        where: Where it is running, for people.
        facts: The same and its exit code, for scripts.
    """

    state: State
    where: str = ""
    facts: JsonDict = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """True while the run may still write to its folder."""
        return self.state in ("pending", "starting", "running")


class Executor(ABC):
    """Starts, finds and stops runs on one type of cluster.

    It has no state of its own: what it must know about a run later is stored in the run's handle.
    """

    @abstractmethod
    def start(self, job: Job) -> int | None:
        """Start a run, and wait for its end unless the request asks for the background.

        Returns:
            The exit code; None if the calling process is to execute the run itself.
        """

    @abstractmethod
    def life(self, run: RunMeta) -> Life | None:
        """Return where a run is waiting or running; None if it is neither."""

    @abstractmethod
    def stop(self, run: RunMeta) -> None:
        """Ask a run to stop, wait until it has, and kill it if it does not.

        Raises:
            UsageError: If the run is not running.
        """

    def plan(self, job: Job) -> PlanDescription | None:
        """Describe what would be started; None if the run is executed by the calling process."""
        return None

    def pool(self, job: Job) -> SuitePool | None:
        """Return the remote processes that run the steps; None if the worker runs them itself."""
        return None

    def resume(self, job: Job) -> int | None:
        """Continue a run. By default it is started again, since the worker finds the earlier answers."""
        return self.start(job)

    def status(self, run: RunMeta) -> Life:
        """Return where a run is running, or how it ended."""
        return self.life(run) or ended(refreshed(run))

    def shard(self, run: RunMeta, index: int) -> RunMeta:
        """Return one shard as a run of its own.

        Raises:
            UsageError: If there is no such shard.
        """
        shard_run = run_in(Path(run.output_dir) / f"shard_{index}")
        if shard_run is None:
            raise UsageError(
                f"run {run.run_id} has no shard {index}", hint="shards are counted from 0"
            )
        return shard_run

    def logs(self, run: RunMeta, *, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """Yield the lines of a run's log.

        Args:
            run: The run.
            tail: How many of the existing lines to start with; None for all.
            follow: Continue until the run ends.

        Raises:
            UsageError: If there is no log yet.
        """
        path = Path(run.output_dir) / LOG
        while follow and not path.is_file() and self.life(run) is not None:
            time.sleep(_LOOK)  # It has only just been started.
        if not path.is_file():
            raise UsageError(f"{path} does not exist", hint="the run has not logged anything yet")
        with path.open(encoding="utf-8", errors="replace") as file:
            if tail is None:
                yield from file
            else:
                yield from deque(file, maxlen=tail)
            while follow:
                is_over = self.life(run) is None
                yield from file  # After the check, so that the last lines are not missed.
                if is_over:
                    return
                time.sleep(_LOOK)

    def clean(self, run: RunMeta) -> None:
        """Remove the traces of a run outside its folder."""
        forget_run(run.run_id)


def not_running(run: RunMeta) -> UsageError:
    """Return the error for stopping a run that has already ended."""
    return UsageError(
        f"run {run.run_id} is not running", hint=f"see `nel eval status {run.run_id}`"
    )


def executor_of(word: str) -> Executor:
    """Return the executor of a cluster type.

    Raises:
        UsageError: If the type is unknown or not supported by this version.
    """
    return cast(Executor, CLUSTERS.build(word))


def status_of(run: RunMeta) -> Life:
    """Return the status of a run; "unknown" if its executor is not installed any more."""
    try:
        return executor_of(run.executor).status(run)
    except UsageError as error:
        return Life("unknown", error.message)


def clean(run: RunMeta) -> None:
    """Remove an ended run from the list, even if its executor is not installed any more."""
    if run.executor in CLUSTERS.ready():
        executor_of(run.executor).clean(run)
    else:
        forget_run(run.run_id)


def ended(run: RunMeta) -> Life:
    """Return how a run that is not running ended, according to its own record."""
    code = run.details.get("exit_code")
    folder = Path(run.output_dir)
    if isinstance(code, int):
        return Life(EXIT_STATES.get(code, "failed"), facts={"exit_code": code})
    if not task_folders(folder):
        return Life("not started")
    # Runs of versions that recorded no exit code.
    return Life("killed" if "host" in run.details else "ended")
