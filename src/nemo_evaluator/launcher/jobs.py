"""The launcher's ids on the registry of runs: an invocation is a run, a job ``<invocation>.<n>`` a benchmark of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.launch.status import BenchmarkStatus, RunOverview, read_status
from nemo_evaluator.store.run_registry import RunMeta, find_run, invocation_of

# Any other verdict is a success.
_WORDS: Final = {
    "INVALID": "FAILED",
    "running": "RUNNING",
    "not started": "PENDING",
    "not finished": "FAILED",
}


@dataclass(frozen=True, slots=True)
class LauncherJob:
    """One benchmark of a run; ``status`` is the launcher's word for how it is."""

    run: RunMeta
    number: int
    task: str
    status: str
    done: int
    total: int | None

    @property
    def job_id(self) -> str:
        return f"{invocation_of(self.run.run_id)}.{self.number}"

    @property
    def folder(self) -> Path:
        return Path(self.run.output_dir) / self.task


def run_of(which: str) -> tuple[RunMeta, int | None]:
    """The run of an invocation id (or its beginning), run id or folder; of a job id also the job's number."""
    word, dot, number = which.rpartition(".")
    if dot and number.isdecimal():
        return (find_run(word), int(number))
    return (find_run(which), None)


def find_jobs(which: str) -> list[LauncherJob]:
    """The jobs of a run, or the one that a job id names. Raises UsageError when there is none."""
    run, number = run_of(which)
    jobs = sorted(_jobs(run, read_status(run)), key=lambda one: one.number)
    if number is not None and all(one.number != number for one in jobs):
        known = ", ".join(one.job_id for one in jobs) or "none has begun"
        raise UsageError(
            f"run {invocation_of(run.run_id)} has no job {number}", hint=f"its jobs: {known}"
        )
    return [one for one in jobs if number in (None, one.number)]


def _jobs(run: RunMeta, status: RunOverview) -> Iterator[LauncherJob]:
    """The number of a launcher's task ends the benchmark's key; of other runs it is the benchmark's place."""
    begun = {safe_name(one.name) for one in status.benchmarks}
    broken: list[BenchmarkStatus] = []
    for name in status.failed:
        if safe_name(name) not in begun:
            broken.append(BenchmarkStatus(name, "INVALID"))
    for place, one in enumerate([*status.benchmarks, *broken]):
        end = one.name.rpartition(".")[2]
        word = _WORDS.get(one.status, "SUCCESS")
        if one.status in _WORDS and status.state in ("stopped", "killed"):
            word = "KILLED"
        elif word == "PENDING" and not status.running:
            word = "FAILED"
        if end.isdecimal() and end != one.name:
            number = int(end)
        else:
            number = place
        yield LauncherJob(
            run, number, one.name, status=word, done=one.scored + one.failed, total=one.total
        )
