"""Where SLURM's commands run: this machine, or a login node over one shared ssh connection."""

import io
import os
import shlex
import subprocess
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.core.secrets import looks_secret

_TIMEOUT: Final = 60.0
_SSH_FAILED: Final = 255
_PERSIST: Final = 120


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

    def run(
        self, script: str, *, stdin: bytes = b"", variables: Mapping[str, str] | None = None, timeout: float = _TIMEOUT
    ) -> str:
        """What a bash script prints. Raises TransportError with what it says when it fails.

        ``variables`` is the environment of a script that runs here.
        """
        argv = self._argv(script)
        try:
            done = subprocess.run(argv, input=stdin, capture_output=True, timeout=timeout, env=variables)
        except subprocess.TimeoutExpired as error:
            raise TransportError(f"{self} did not answer within {timeout:.0f} s", hint="try again later") from error
        except FileNotFoundError as error:
            raise UsageError(f"there is no {argv[0]} command here", hint=f"install {argv[0]}") from error
        said = done.stderr.decode(errors="replace").strip()
        if self.hostname and done.returncode == _SSH_FAILED:
            hint = f"see whether `ssh {self._target}` works; cluster.hostname and cluster.username say where to"
            raise TransportError(f"cannot reach {self._target}: {said}", hint=hint)
        if done.returncode != 0:
            raise TransportError(f"{self}: {said or f'exit code {done.returncode}'}")
        return done.stdout.decode(errors="replace")

    def put_and_run(self, folder: str, uploads: Mapping[str, Upload], script: str) -> str:
        """Put files into a folder and run a script there, in one round trip."""
        quoted = shlex.quote(folder)
        unpack = f"set -e; mkdir -p {quoted}/logs; cd {quoted}; tar -xpf -\n"
        # Without secrets: sbatch would hand the environment to the controller, which keeps it on its disk.
        clean = {name: value for name, value in os.environ.items() if not looks_secret(name)}
        return self.run(unpack + script, stdin=_archive(uploads), variables=None if self.hostname else clean)

    def _argv(self, script: str) -> list[str]:
        if not self.hostname:
            return ["bash", "-c", script]
        shared = Path.home() / ".ssh" / "nel"
        shared.mkdir(mode=0o700, parents=True, exist_ok=True)
        options = {"ControlMaster": "auto", "ControlPath": f"{shared}/%C", "ControlPersist": str(_PERSIST)}
        flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        # The login shell there may be any; what it gets is one quoted word.
        return ["ssh", *flags, "-o", "ConnectTimeout=20", self._target, f"exec bash -c {shlex.quote(script)}"]

    @property
    def _target(self) -> str:
        return f"{self.username}@{self.hostname}" if self.username else str(self.hostname)

    def __str__(self) -> str:
        return f"SLURM on {self.hostname}" if self.hostname else "SLURM"


def _archive(uploads: Mapping[str, Upload]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, upload in uploads.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(upload.content), upload.mode, int(time.time())
            archive.addfile(entry, io.BytesIO(upload.content))
    return packed.getvalue()


def import_image(image: str, path: str, hostname: str | None, *, dry_run: bool = False) -> str:
    """Import ``image`` into the file ``path``, which appears when it is whole. Returns what is said of it.

    Raises UsageError where there is no enroot, TransportError with its words when it fails.
    """
    # Enroot separates the registry from the rest by #; without one it asks Docker's own.
    first, _, rest = image.partition("/")
    uri = f"docker://{first}#{rest}" if rest and ("." in first or ":" in first) else f"docker://{image}"
    target, part = shlex.quote(path), shlex.quote(f"{path}.part")
    argv = shlex.join(["enroot", "import", "-o", f"{path}.part", "--", uri])
    script = "\n".join(
        [
            "command -v enroot >/dev/null || { echo 'enroot: command not found' >&2; exit 127; }",
            f"if [ -e {target} ]; then echo 'already there'; du -h {target}; exit 0; fi",
            f'mkdir -p -- "$(dirname {target})" && rm -f {part} && {argv} >&2 && mv {part} {target} && du -h {target}',
        ]
    )
    host = Host(hostname)
    if dry_run:
        return f"{f'on {hostname}: ' if hostname else ''}{argv}"
    try:
        return host.run(script, timeout=3600.0)
    except TransportError as error:
        if "enroot: command not found" not in error.message:
            raise
        hint = (
            "run it on a node that has enroot (often after `module load enroot`), or use cluster.container: apptainer"
        )
        raise UsageError(f"there is no enroot on {hostname or 'this machine'}", hint=hint) from error
