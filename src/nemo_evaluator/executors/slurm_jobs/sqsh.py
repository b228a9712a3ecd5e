"""Importing a container image with enroot, here or on a login node."""

from __future__ import annotations

import shlex

from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.executors.slurm_jobs.host import Host


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
