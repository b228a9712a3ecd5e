"""Where SLURM's commands run (here, or on a login node over one shared ssh connection); reads their output."""

import io
import os
import re
import shlex
import subprocess
import tarfile
import time
from collections.abc import Mapping, Sequence
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
# It waits for a job that has come to a good end, so it will never start.
_NEVER: Final = "DependencyNeverSatisfied"


def text_of(name: str) -> str:
    """The text of a file beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def script(name: str, *words: str) -> str:
    """A script beside this one, with its arguments."""
    return f"set -- {joined(words)}\n{text_of(name)}"


def filled(name: str, **given: object) -> str:
    """A template beside this file, filled in. Its library is loaded by name: only what is submitted or shown needs it.

    Filters: ``sh`` quotes a value for a shell, ``line`` does so where the value must not have a second line, ``bare``
    only refuses a second line, ``words`` makes the elements of an array, ``flag`` and ``env_name`` check names. Each of
    them raises UsageError for a value that it cannot write.
    """
    rules = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    made = load_object("jinja2:Environment")(
        undefined=load_object("jinja2:StrictUndefined"), **rules
    )
    made.filters |= {
        "sh": quoted,
        "line": lambda value: shlex.quote(one_line(value)),
        "bare": one_line,
        "words": lambda words: " ".join(map(_element, words)),
        "flag": flag_name,
        "env_name": env_name,
    }
    return str(made.from_string(text_of(name)).render(**given))


def _element(word: str) -> str:
    # A comma outside quotes looks like a slip of somebody who writes arrays in another language.
    text = quoted(word)
    return f"'{word}'" if "," in word and text == word else text


@dataclass(frozen=True, slots=True)
class Upload:
    """A file for the run's folder."""

    content: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Host:
    """Runs bash commands here (no ``hostname``) or on a login node."""

    hostname: str | None = None
    username: str | None = None

    def __post_init__(self) -> None:
        """Refuse a target that ``ssh`` would take for an option or for another host."""
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
        """What a bash script prints; ``variables`` is the environment of one that runs here. Raises TransportError with
        what it says when it fails."""
        argv = self._argv(script)
        try:
            done = subprocess.run(
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
        said = done.stderr.decode(errors="replace").strip()
        if self.hostname and done.returncode == _SSH_FAILED:
            hint = f"see whether `ssh {self._target}` works; cluster.hostname and cluster.username say where to"
            raise TransportError(f"cannot reach {self._target}: {said}", hint=hint)
        if done.returncode != 0:
            raise TransportError(f"{self}: {said or f'exit code {done.returncode}'}")
        return done.stdout.decode(errors="replace")

    def put_and_run(self, folder: str, uploads: Mapping[str, Upload], script: str) -> str:
        """Put files into a folder and run a script there, in one round trip."""
        target = quoted(folder)
        unpack = f"set -e; mkdir -p -- {target}/logs; cd -- {target}; tar -xpf -\n"
        # Without secrets: sbatch would hand the environment to the controller, which keeps it on its disk.
        clean = {name: value for name, value in os.environ.items() if not looks_secret(name)}
        return self.run(
            unpack + script, stdin=_archive(uploads), variables=None if self.hostname else clean
        )

    def _argv(self, script: str) -> list[str]:
        if not self.hostname:
            return ["bash", "-c", script]
        shared = Path.home() / ".ssh" / "nel"
        shared.mkdir(mode=0o700, parents=True, exist_ok=True)
        options = {
            "ControlMaster": "auto",
            "ControlPath": f"{shared}/%C",
            "ControlPersist": str(_PERSIST),
        }
        flags: list[str] = []
        for name, value in options.items():
            for word in ("-o", f"{name}={value}"):
                flags.append(word)
        # The login shell there may be any; what it gets is one quoted word.
        return [
            "ssh",
            *flags,
            "-o",
            "ConnectTimeout=20",
            "--",
            self._target,
            f"exec bash -c {shlex.quote(script)}",
        ]

    @property
    def _target(self) -> str:
        if self.username:
            return f"{self.username}@{self.hostname}"
        return str(self.hostname)

    def __str__(self) -> str:
        return f"SLURM on {self.hostname}" if self.hostname else "SLURM"


def _archive(uploads: Mapping[str, Upload]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, upload in uploads.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(upload.content)
            entry.mode = upload.mode
            entry.mtime = int(time.time())
            archive.addfile(entry, io.BytesIO(upload.content))
    return packed.getvalue()


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """One job as the scheduler shows it; ``index`` is the number of a shard in an array."""

    job_id: str
    state: str
    index: str = ""
    reason: str = ""
    nodes: str = ""
    elapsed: str = ""


@dataclass(slots=True)
class JobState:
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
        """Jobs that run: they have nodes."""
        return [job for job in self.jobs if job.state in _GOING]

    @property
    def waiting(self) -> list[QueuedJob]:
        """Jobs that will run: of those that wait for another job to fail, none after the run has settled."""
        never = (_NEVER, "Dependency") if self.settled else (_NEVER,)
        return [job for job in self.jobs if job.state in _WAITING and job.reason not in never]

    @property
    def settled(self) -> bool:
        """True when the run, or each of its shards, has noted how it ended."""
        return len(self.exits) >= max(1, self.shards)

    @property
    def alive(self) -> list[QueuedJob]:
        """Jobs that may still write."""
        return self.going + self.waiting


def look(host: Host, folder: str, job_ids: Sequence[str], shards: int = 0) -> JobState:
    """Ask the scheduler and the folder. Raises TransportError when the login node is not reached."""
    seen = JobState(shards=shards)
    for line in host.run(script("look.sh", folder, *job_ids)).splitlines():
        word, _, rest = line.partition("|")
        parts = rest.split("|")
        if word == "job" and len(parts) >= 7:
            array, index, job_id, state, reason, nodes, elapsed = parts[:7]
            if index.isdecimal():
                index = index
            else:
                index = ""
            job_id = f"{array}_{index}" if index else job_id
            if _JOB_ID.fullmatch(job_id) is None:
                raise TransportError(
                    f"{host}: the scheduler names a job {job_id!r}, which is not a number"
                )
            seen.jobs.append(
                QueuedJob(job_id, state, index, reason=reason, nodes=nodes, elapsed=elapsed)
            )
        elif word == "exit":
            seen.exits[parts[0].removesuffix(".nel_exit").strip("/")] = (
                int(parts[-1]) if parts[-1].isdecimal() else 1
            )
        elif word == "merged" and rest.isdecimal():
            seen.merged = int(rest)
        elif word == "last":
            seen.last.append(rest)
        elif word in ("stop", "lock", "silent"):
            seen.stopped |= word == "stop"
            seen.locked |= word == "lock"
            seen.silent |= word == "silent"
    return seen


def import_image(image: str, path: str, hostname: str | None, *, dry_run: bool = False) -> str:
    """Import an image into a file; returns a message about it. Raises UsageError where enroot is missing."""
    # Enroot separates the registry from the rest by #; without one it asks Docker's own.
    first, _, rest = image.partition("/")
    if rest and ("." in first or ":" in first):
        uri = f"docker://{first}#{rest}"
    else:
        uri = f"docker://{image}"
    if dry_run:
        argv = shlex.join(["enroot", "import", "-o", f"{path}.part", "--", uri])
        return f"{f'on {hostname}: ' if hostname else ''}{argv}"
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
