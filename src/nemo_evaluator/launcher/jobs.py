"""The launcher's ids on the registry of runs: an invocation is a run, a job ``<invocation>.<n>`` a benchmark of it."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.executors.status import BenchmarkStatus, RunStatus, read_status
from nemo_evaluator.store.runs import RunMeta, find_run, list_runs


def invocation_of(run_id: str) -> str:
    """The hex digits at the end of a run's id; they name the run as well as the whole id does."""
    return run_id.rpartition("_")[2]


@dataclass(frozen=True, slots=True)
class Jobs:
    """A run, and those of its benchmarks that were named."""

    run: RunMeta
    # None: all.
    number: int | None = None

    @property
    def invocation(self) -> str:
        """The id of the run."""
        return invocation_of(self.run.run_id)

    def statuses(self) -> tuple[RunStatus, dict[int, BenchmarkStatus]]:
        """The status of the run, and of its jobs by number. Raises UsageError when the one named is not there."""
        status = read_status(self.run)
        numbered = {_number(one.name, place): one for place, one in enumerate(status.benchmarks)}
        if self.number is not None and self.number not in numbered:
            known = ", ".join(f"{self.invocation}.{number}" for number in sorted(numbered)) or "none has begun"
            raise UsageError(f"run {self.invocation} has no job {self.number}", hint=f"its jobs: {known}")
        return status, {n: one for n, one in sorted(numbered.items()) if self.number in (None, n)}


def find_jobs(which: str) -> Jobs:
    """The run of an invocation id or job id, whole or its beginning, or of a run id or folder. Raises UsageError."""
    word, dot, number = which.rpartition(".")
    name, job = (word, int(number)) if dot and number.isdecimal() else (which, None)
    found = [run for run in list_runs() if invocation_of(run.run_id).startswith(name.lower())]
    if len(found) > 1 and (exact := [run for run in found if invocation_of(run.run_id) == name.lower()]):
        found = exact
    if len(found) > 1:
        ids = ", ".join(invocation_of(run.run_id) for run in found[:5])
        raise UsageError(f"{len(found)} invocations begin with {name!r}", hint=f"give more of the id: {ids}")
    return Jobs(found[0] if found else find_run(name), job)


def _number(key: str, place: int) -> int:
    """The number of a task, which ends the benchmark's key; of other runs its place."""
    end = key.rpartition(".")[2]
    return int(end) if end.isdecimal() and end != key else place
