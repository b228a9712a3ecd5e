"""Commands of the host that run something inside a sandbox: runsc, apptainer, srun."""

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from nemo_evaluator.core.errors import SandboxError


@dataclass(frozen=True, slots=True)
class Client:
    """A command of the host that runs one inside; ``env`` is the client's own."""

    argv: list[str]
    env: dict[str, str]


def start_client(client: Client, fds: list[int]) -> subprocess.Popen[bytes]:
    """Start a client with the given stdin, stdout and stderr, in a group of its own."""
    stdin, stdout, stderr = fds[:3]
    try:
        return subprocess.Popen(
            client.argv, stdin=stdin, stdout=stdout, stderr=stderr, env=client.env, start_new_session=True
        )
    except OSError as error:
        raise SandboxError(f"cannot run {client.argv[0]}: {error.strerror}", hint="is it installed?") from error


async def call(client: Client, *, timeout: float = 120.0) -> str:
    """Run a client to its end: its stdout. A failure is a SandboxError with its stderr."""
    # Files, not pipes: a client that leaves a container behind leaves its stdout with it, and a pipe would never end.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open("rb") as nothing:
        process = await asyncio.to_thread(start_client, client, [nothing.fileno(), out.fileno(), err.fileno()])
        try:
            code = await asyncio.to_thread(process.wait, timeout)
        except (subprocess.TimeoutExpired, asyncio.CancelledError) as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, asyncio.CancelledError):
                raise
            raise SandboxError(f"{client.argv[0]} did not end in {timeout:g} s") from error
        out.seek(0)
        err.seek(0)
        if code != 0:
            tail = err.read().decode("utf-8", "replace").strip()[-500:]
            raise SandboxError(f"{client.argv[0]} failed with exit code {code}: {tail}")
        return out.read().decode("utf-8", "replace")
