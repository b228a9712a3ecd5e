"""What the scheduler and the run's own files say of a run, asked in one round trip."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final

from nemo_evaluator.executors.slurm_jobs.host import Host

_WAITING: Final = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
_GOING: Final = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"})
# It waits for a job that has come to a good end, so it will never start.
_NEVER: Final = "DependencyNeverSatisfied"


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """One job as the scheduler shows it; ``index`` is the number of a shard in an array."""

    job_id: str
    state: str
    index: str = ""
    reason: str = ""
    nodes: str = ""
    elapsed: str = ""

    @property
    def waiting(self) -> bool:
        """True when it has not begun, and may."""
        return self.state in _WAITING and self.reason != _NEVER

    @property
    def going(self) -> bool:
        """True when it has nodes."""
        return self.state in _GOING


@dataclass(slots=True)
class Seen:
    """What is known of a run now."""

    jobs: list[QueuedJob] = field(default_factory=list)
    exits: dict[str, int] = field(default_factory=dict)
    merged: int | None = None
    stopped: bool = False
    # Some worker holds its folder.
    locked: bool = False
    # The scheduler did not answer.
    silent: bool = False
    last: list[str] = field(default_factory=list)
    # How many shards it has; 0: it is one whole.
    shards: int = 0

    @property
    def going(self) -> list[QueuedJob]:
        """Jobs that run."""
        return [job for job in self.jobs if job.going]

    @property
    def waiting(self) -> list[QueuedJob]:
        """Jobs that will run: of those that wait for another job to fail, none after the run has settled."""
        settled = len(self.exits) >= max(1, self.shards)
        return [job for job in self.jobs if job.waiting and not (settled and job.reason == "Dependency")]

    @property
    def alive(self) -> list[QueuedJob]:
        """Jobs that may still write."""
        return self.going + self.waiting


def look(host: Host, folder: str, job_ids: Sequence[str], shards: int = 0) -> Seen:
    """Ask the scheduler and the folder. Raises TransportError when the login node is not reached."""
    text = files(__package__).joinpath("look.sh").read_text(encoding="utf-8")
    script = f"set -- {shlex.join([folder, *job_ids])}\n{text}"
    seen = Seen(shards=shards)
    for line in host.run(script).splitlines():
        word, _, rest = line.partition("|")
        parts = rest.split("|")
        if word == "job" and len(parts) >= 7:
            array, index, job_id, state, reason, nodes, elapsed = parts[:7]
            index = index if index.isdecimal() else ""
            job_id = f"{array}_{index}" if index else job_id
            seen.jobs.append(QueuedJob(job_id, state, index, reason, nodes, elapsed))
        elif word == "exit":
            seen.exits[parts[0].removesuffix(".nel_exit").strip("/")] = int(parts[-1]) if parts[-1].isdecimal() else 1
        elif word == "merged" and rest.isdecimal():
            seen.merged = int(rest)
        elif word == "last":
            seen.last.append(rest)
        elif word in ("stop", "lock", "silent"):
            seen.stopped |= word == "stop"
            seen.locked |= word == "lock"
            seen.silent |= word == "silent"
    return seen
