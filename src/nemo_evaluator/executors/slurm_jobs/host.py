"""Runs SLURM's commands here, or on a login node over one shared ssh connection, and parses their output."""

import io
import os
import re
import shlex
import subprocess
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.core.secrets import looks_secret
from nemo_evaluator.core.shell import (
    env_name,
    flag_name,
    is_host_name,
    is_user_name,
    joined,
    one_line,
    quoted,
)

_TIMEOUT: Final = 60.0
_SSH_FAILED: Final = 255
# A job, an element of an array of jobs, or a part of a heterogeneous job.
_JOB_ID: Final = re.compile(r"[0-9]+(_[0-9]+)?(\+[0-9]+)?", re.ASCII)
_PERSIST: Final = 120
_WAITING: Final = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
_GOING: Final = frozenset(
    {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"}
)
# The job depends on the failure of a job that succeeded, so it will never start.
_NEVER: Final = "DependencyNeverSatisfied"


def text_of(name: str) -> str:
    """Return the text of a file in this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def script(name: str, *words: str) -> str:
    """Return a shell script of this package, with its arguments set."""
    return f"set -- {joined(words)}\n{text_of(name)}"


def filled(name: str, **values: object) -> str:
    """Render a template of this package. Jinja is imported on use, since only submissions and plans need it.

    Filters: ``sh`` quotes a value for a shell, ``line`` does the same for a value that must be one line, ``bare`` only
    refuses a second line, ``words`` formats the elements of an array, ``flag`` and ``env_name`` check names.

    Args:
        name: The file name of the template.
        **values: The values for its variables.

    Raises:
        UsageError: If a filter refuses a value.
    """
    environment = load_object("jinja2:Environment")(
        undefined=load_object("jinja2:StrictUndefined"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "sh": quoted,
        "line": _quoted_line,
        "bare": one_line,
        "words": _array_elements,
        "flag": flag_name,
        "env_name": env_name,
    }
    return str(environment.from_string(text_of(name)).render(**values))


def _quoted_line(value: str) -> str:
    return shlex.quote(one_line(value))


def _array_elements(values: Iterable[str]) -> str:
    return " ".join(map(_element, values))


def _element(value: str) -> str:
    text = quoted(value)
    # Shell linters report an unquoted comma in an array as a mistake.
    if "," in value and text == value:
        return f"'{value}'"
    return text


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to be written to the run's folder."""

    content: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Host:
    """Runs bash commands on this machine, or on a login node if ``hostname`` is set."""

    hostname: str | None = None
    username: str | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a host or user name that ``ssh`` would take for an option or for another host."""
        if self.hostname is not None and not is_host_name(self.hostname):
            raise UsageError(f"{self.hostname!r} is not a host name", hint="check cluster.hostname")
        if self.username is not None and not is_user_name(self.username):
            raise UsageError(f"{self.username!r} is not a user name", hint="check cluster.username")

    def run(
        self,
        script: str,
        *,
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
        timeout: float = _TIMEOUT,
    ) -> str:
        """Run a bash script and return its output.

        Args:
            script: The script.
            stdin: Its input.
            variables: The environment of a script that runs on this machine.
            timeout: Seconds it may take.

        Raises:
            TransportError: If it fails or takes too long, or the host cannot be reached.
            UsageError: If bash or ssh is not installed.
        """
        argv = self._argv(script)
        try:
            completed = subprocess.run(
                argv, input=stdin, capture_output=True, timeout=timeout, env=variables
            )
        except subprocess.TimeoutExpired as error:
            raise TransportError(
                f"{self} did not answer within {timeout:.0f} s", hint="try again later"
            ) from error
        except FileNotFoundError as error:
            raise UsageError(
                f"there is no {argv[0]} command here", hint=f"install {argv[0]}"
            ) from error
        error_output = completed.stderr.decode(errors="replace").strip()
        if self.hostname and completed.returncode == _SSH_FAILED:
            hint = f"see whether `ssh {self._target}` works; cluster.hostname and cluster.username say where to"
            raise TransportError(f"cannot reach {self._target}: {error_output}", hint=hint)
        if completed.returncode != 0:
            raise TransportError(f"{self}: {error_output or f'exit code {completed.returncode}'}")
        return completed.stdout.decode(errors="replace")

    def put_and_run(self, folder: str, uploads: Mapping[str, Upload], script: str) -> str:
        """Write files to a folder and run a script there, in one round trip."""
        target = quoted(folder)
        unpack = f"set -e; mkdir -p -- {target}/logs; cd -- {target}; tar -xpf -\n"
        variables: dict[str, str] | None = None
        if not self.hostname:
            # Without secrets: sbatch passes the environment to the controller, which stores it on disk.
            variables = {
                name: value for name, value in os.environ.items() if not looks_secret(name)
            }
        return self.run(unpack + script, stdin=_archive(uploads), variables=variables)

    def _argv(self, script: str) -> list[str]:
        """Return the command that runs a script: bash itself, or ssh with a shared connection."""
        if not self.hostname:
            return ["bash", "-c", script]
        socket_folder = Path.home() / ".ssh" / "nel"
        socket_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        argv = ["ssh"]
        argv += ["-o", "ControlMaster=auto"]
        argv += ["-o", f"ControlPath={socket_folder}/%C"]
        argv += ["-o", f"ControlPersist={_PERSIST}"]
        argv += ["-o", "ConnectTimeout=20"]
        # Works with any login shell, because the script is one quoted argument.
        argv += ["--", self._target, f"exec bash -c {shlex.quote(script)}"]
        return argv

    @property
    def _target(self) -> str:
        if self.username:
            return f"{self.username}@{self.hostname}"
        return str(self.hostname)

    def __str__(self) -> str:
        return f"SLURM on {self.hostname}" if self.hostname else "SLURM"


def _archive(uploads: Mapping[str, Upload]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, upload in uploads.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(upload.content)
            entry.mode = upload.mode
            entry.mtime = int(time.time())
            archive.addfile(entry, io.BytesIO(upload.content))
    return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """One job as reported by the scheduler; ``index`` is the shard's number in an array."""

    job_id: str
    state: str
    index: str = ""
    reason: str = ""
    nodes: str = ""
    elapsed: str = ""


@dataclass(slots=True)
class JobState:
    """The current state of a run's jobs.

    Attributes:
        jobs: The jobs that the scheduler reports.
        exits: Recorded exit codes, by shard folder; "" for an unsharded run.
        merged: Exit code of the merge of the shards.
        stopped: Whether a stop was requested.
        locked: Whether a worker holds the run folder.
        silent: Whether the scheduler did not answer.
        last: Last lines of progress.
        shards: Number of shards; 0 for an unsharded run.
    """

    jobs: list[QueuedJob] = field(default_factory=list)
    exits: dict[str, int] = field(default_factory=dict)
    merged: int | None = None
    stopped: bool = False
    locked: bool = False
    silent: bool = False
    last: list[str] = field(default_factory=list)
    shards: int = 0

    @property
    def going(self) -> list[QueuedJob]:
        """Jobs that are running on nodes."""
        return [job for job in self.jobs if job.state in _GOING]

    @property
    def waiting(self) -> list[QueuedJob]:
        """Jobs that will still run. Jobs that depend on a failure do not count once the run has settled."""
        never_start = [_NEVER]
        if self.settled:
            never_start.append("Dependency")
        waiting_jobs: list[QueuedJob] = []
        for job in self.jobs:
            if job.state in _WAITING and job.reason not in never_start:
                waiting_jobs.append(job)
        return waiting_jobs

    @property
    def settled(self) -> bool:
        """True once the run, or each of its shards, has recorded an exit code."""
        return len(self.exits) >= max(1, self.shards)

    @property
    def alive(self) -> list[QueuedJob]:
        """Jobs that may still write to the run folder."""
        return self.going + self.waiting


def look(host: Host, folder: str, job_ids: Sequence[str], shards: int = 0) -> JobState:
    """Query the scheduler and the run folder.

    Args:
        host: Where the scheduler is.
        folder: The run folder.
        job_ids: The submitted jobs.
        shards: Number of shards; 0 for an unsharded run.

    Raises:
        TransportError: If the login node cannot be reached.
    """
    job_state = JobState(shards=shards)
    for line in host.run(script("look.sh", folder, *job_ids)).splitlines():
        key, _, value = line.partition("|")
        fields = value.split("|")
        if key == "job" and len(fields) >= 7:
            job_state.jobs.append(_queued_job(host, fields))
        elif key == "exit":
            shard_folder = fields[0].removesuffix(".nel_exit").strip("/")
            code = fields[-1]
            job_state.exits[shard_folder] = int(code) if code.isdecimal() else 1
        elif key == "merged" and value.isdecimal():
            job_state.merged = int(value)
        elif key == "last":
            job_state.last.append(value)
        elif key == "stop":
            job_state.stopped = True
        elif key == "lock":
            job_state.locked = True
        elif key == "silent":
            job_state.silent = True
    return job_state


def _queued_job(host: Host, fields: Sequence[str]) -> QueuedJob:
    """Return one job of the scheduler's list.

    Raises:
        TransportError: If its id is not one of SLURM's: the id is passed to commands later.
    """
    array, index, job_id, state, reason, nodes, elapsed = fields[:7]
    if index.isdecimal():
        job_id = f"{array}_{index}"
    else:
        index = ""
    if _JOB_ID.fullmatch(job_id) is None:
        raise TransportError(f"{host}: the scheduler names a job {job_id!r}, which is not a number")
    return QueuedJob(job_id, state, index, reason=reason, nodes=nodes, elapsed=elapsed)


def import_image(image: str, path: str, hostname: str | None, *, dry_run: bool = False) -> str:
    """Import an image into a file with enroot.

    Args:
        image: The image.
        path: The file.
        hostname: The login node; None for this machine.
        dry_run: Only return the command.

    Returns:
        A message about the import.

    Raises:
        UsageError: If enroot is not installed.
    """
    # Enroot separates the registry from the image name by #; the default registry is Docker Hub.
    registry, _, name = image.partition("/")
    if name and ("." in registry or ":" in registry):
        uri = f"docker://{registry}#{name}"
    else:
        uri = f"docker://{image}"
    if dry_run:
        argv = shlex.join(["enroot", "import", "-o", f"{path}.part", "--", uri])
        if hostname:
            return f"on {hostname}: {argv}"
        return argv
    try:
        return Host(hostname).run(script("import_image.sh", uri, path), timeout=3600.0)
    except TransportError as error:
        if "enroot: command not found" not in error.message:
            raise
        hint = (
            "run it on a node that has enroot (often after `module load enroot`), or use "
            "cluster.container: apptainer"
        )
        raise UsageError(
            f"there is no enroot on {hostname or 'this machine'}", hint=hint
        ) from error
