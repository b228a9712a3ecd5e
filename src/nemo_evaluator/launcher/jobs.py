"""The launcher's ids: an invocation is a run, and job ``<invocation>.<n>`` is one of its benchmarks."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.launch.status import BenchmarkStatus, RunOverview, read_status
from nemo_evaluator.store.run_registry import RunMeta, find_run, invocation_of

# The launcher's job states; any other verdict is a success.
_WORDS: Final = {
    "INVALID": "FAILED",
    "running": "RUNNING",
    "not started": "PENDING",
    "not finished": "FAILED",
}


@dataclass(frozen=True, slots=True)
class LauncherJob:
    """One benchmark of a run; ``status`` is in the launcher's terms, such as ``RUNNING``."""

    run: RunMeta
    number: int
    task: str
    status: str
    done: int
    total: int | None

    @property
    def job_id(self) -> str:
        """The launcher's job id: ``INVOCATION.NUMBER``."""
        return f"{invocation_of(self.run.run_id)}.{self.number}"

    @property
    def folder(self) -> Path:
        """The folder of the benchmark's results."""
        return Path(self.run.output_dir) / self.task


def run_of(which: str) -> tuple[RunMeta, int | None]:
    """Find a run, and the number of the job if a job id is given.

    Args:
        which: An invocation id or its beginning, a run id, a folder, or a job id.
    """
    run_name, dot, number = which.rpartition(".")
    if dot and number.isdecimal():
        return (find_run(run_name), int(number))
    return (find_run(which), None)


def find_jobs(which: str) -> list[LauncherJob]:
    """List the jobs of a run, or the one job that a job id names.

    Raises:
        UsageError: If there is no such run or job.
    """
    run, number = run_of(which)
    jobs = sorted(_jobs(run, read_status(run)), key=lambda job: job.number)
    if number is None:
        return jobs
    named_jobs = [job for job in jobs if job.number == number]
    if not named_jobs:
        existing_ids = ", ".join(job.job_id for job in jobs) or "none has begun"
        raise UsageError(
            f"run {invocation_of(run.run_id)} has no job {number}", hint=f"its jobs: {existing_ids}"
        )
    return named_jobs


def _jobs(run: RunMeta, status: RunOverview) -> Iterator[LauncherJob]:
    """Yield the jobs of a run.

    The key of a benchmark from a launcher's config ends in the number of its task; for other runs, the number is the
    position of the benchmark.
    """
    begun_folders = {safe_name(benchmark.name) for benchmark in status.benchmarks}
    failed_benchmarks: list[BenchmarkStatus] = []
    for name in status.failed:
        if safe_name(name) not in begun_folders:
            failed_benchmarks.append(BenchmarkStatus(name, "INVALID"))
    for position, benchmark in enumerate([*status.benchmarks, *failed_benchmarks]):
        suffix = benchmark.name.rpartition(".")[2]
        job_status = _WORDS.get(benchmark.status, "SUCCESS")
        if benchmark.status in _WORDS and status.state in ("stopped", "killed"):
            job_status = "KILLED"
        elif job_status == "PENDING" and not status.running:
            job_status = "FAILED"
        if suffix.isdecimal() and suffix != benchmark.name:
            number = int(suffix)
        else:
            number = position
        yield LauncherJob(
            run,
            number,
            benchmark.name,
            status=job_status,
            done=benchmark.scored + benchmark.failed,
            total=benchmark.total,
        )
