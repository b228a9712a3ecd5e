"""Host commands that run a command inside a sandbox (runsc, apptainer, srun), and the slots on the nodes of a SLURM
job, each of which holds one sandbox at a time."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Final, Self
from urllib.parse import urlsplit, urlunsplit

from nemo_evaluator.core.errors import SandboxError

_LOOPBACK: Final = ("localhost", "127.0.0.1", "0.0.0.0", "::1")  # noqa: S104 - looked for, never bound
_START: Final = 600.0
# How long SLURM may take to end a step (a site's KillWait is 30 s unless set).
_END: Final = 60.0


@dataclass(frozen=True, slots=True)
class EntryCommand:
    """A host command that runs a command inside; ``env`` is the environment of the host command."""

    argv: list[str]
    env: dict[str, str] = field(default_factory=lambda: dict(os.environ))


def start_client(client: EntryCommand, fds: list[int]) -> subprocess.Popen[bytes]:
    """Start a client in a process group of its own.

    Args:
        client: The command.
        fds: The descriptors of its stdin, stdout and stderr.

    Raises:
        SandboxError: It could not be started.
    """
    stdin, stdout, stderr = fds[:3]
    try:
        return subprocess.Popen(
            client.argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=client.env,
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(
            f"cannot run {client.argv[0]}: {error.strerror}", hint="is it installed?"
        ) from error


async def call(client: EntryCommand, *, timeout: float = 120.0) -> str:
    """Run a client to its end.

    Args:
        client: The command.
        timeout: Seconds until it is killed.

    Returns:
        Its stdout.

    Raises:
        SandboxError: It failed, or did not end in time; the message holds the end of its stderr.
    """
    # Files, not pipes: a client that leaves a container behind leaves its stdout with it, and a pipe would never end.
    with tempfile.TemporaryFile() as stdout_file, tempfile.TemporaryFile() as stderr_file:
        process = await asyncio.to_thread(
            start_client, client, [subprocess.DEVNULL, stdout_file.fileno(), stderr_file.fileno()]
        )
        try:
            exit_code = await asyncio.to_thread(process.wait, timeout)
        except (subprocess.TimeoutExpired, asyncio.CancelledError) as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, asyncio.CancelledError):
                raise
            raise SandboxError(f"{client.argv[0]} did not end in {timeout:g} s") from error
        stdout_file.seek(0)
        stderr_file.seek(0)
        if exit_code != 0:
            tail = stderr_file.read().decode("utf-8", "replace").strip()[-500:]
            raise SandboxError(f"{client.argv[0]} failed with exit code {exit_code}: {tail}")
        return stdout_file.read().decode("utf-8", "replace")


@dataclass(eq=False, slots=True)
class NodeSlot:
    """One slot on one node, and the steps that run for its sandbox.

    A step ends with all its processes, so a container, or background processes, need a step that stays.
    """

    node: str
    het_group: str | None = None
    # The steps of commands that left processes running; they stay until the sandbox stops.
    kept: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _leaving: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _holder: subprocess.Popen[bytes] | None = None
    _holder_log: IO[bytes] | None = None

    def step(self, name: str) -> list[str]:
        """Return the prefix of a command that runs on the node, in a step with a name."""
        argv = ["srun", "--overlap", "--nodes=1", f"--nodelist={self.node}", "--ntasks=1"]
        if self.het_group:
            argv.append(f"--het-group={self.het_group}")
        return [*argv, f"--job-name={name}"]

    async def hold(self, client: EntryCommand, ready: str) -> None:
        """Start the step that holds the container, and wait until it prints ``ready``.

        Raises:
            SandboxError: It ended, or did not become ready in time.
        """
        # A file, not a pipe: srun prints messages at any time, and nobody reads them later.
        self._holder_log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        fds = [subprocess.DEVNULL, self._holder_log.fileno(), self._holder_log.fileno()]
        self._holder = await asyncio.to_thread(start_client, client, fds)
        deadline = time.monotonic() + _START
        while True:
            output = self._holder_output()
            if ready in output:
                return
            if self._holder.poll() is not None:
                raise SandboxError(f"the container did not start: {output[-500:]}")
            if time.monotonic() > deadline:
                raise SandboxError(f"the container did not start in {_START:g} s: {output[-500:]}")
            await asyncio.sleep(0.02)

    def check(self) -> None:
        """Check that the holding step still runs.

        Raises:
            SandboxError: It has ended, and the sandbox with it.
        """
        if self._holder is not None and self._holder.poll() is not None:
            raise SandboxError(f"the container on its node ended: {self._holder_output()[-500:]}")

    def end(self, client: subprocess.Popen[bytes]) -> None:
        """End a step: on SIGTERM, srun ends it even if the command ignores signals."""
        client.terminate()
        self._leaving.append(client)

    async def settle(self) -> None:
        """Wait until the steps of ``end`` have ended.

        Raises:
            SandboxError: A step did not end in time.
        """
        leaving = self._leaving
        self._leaving = []
        for client in leaving:
            try:
                await asyncio.to_thread(client.wait, _END)
            except subprocess.TimeoutExpired as error:
                client.kill()
                raise SandboxError(f"a step did not end in {_END:g} s") from error

    async def close(self) -> None:
        """End all steps, and wait for them."""
        for client in self.kept:
            self.end(client)
        if self._holder is not None:
            self.end(self._holder)
        self.kept = []
        self._holder = None
        try:
            await self.settle()
        finally:
            if self._holder_log is not None:
                self._holder_log.close()
                self._holder_log = None

    def _holder_output(self) -> str:
        """The output of the holding step so far."""
        assert self._holder_log is not None
        # srun shares the file's position: read without moving it.
        return os.pread(self._holder_log.fileno(), 1 << 16, 0).decode("utf-8", "replace").strip()


class NodeSlots:
    """The free slots.

    Args:
        nodes: The nodes.
        per_node: The number of slots on each.
        het_group: The component of a heterogeneous job that the nodes belong to.
    """

    def __init__(self, nodes: list[str], per_node: int, het_group: str | None = None) -> None:
        self.size = len(nodes) * per_node
        self._free: asyncio.Queue[NodeSlot] = asyncio.Queue()
        # Slot by slot over all nodes, so that the first sandboxes spread out.
        for node in nodes * per_node:
            self._free.put_nowait(NodeSlot(node, het_group))

    @classmethod
    def from_environment(cls, per_node: int) -> Self | None:
        """Return the slots on the nodes in ``NEL_SANDBOX_NODES``, which the batch script sets.

        Returns:
            The slots; None without nodes.
        """
        nodes = [name for name in os.environ.get("NEL_SANDBOX_NODES", "").split(",") if name]
        if nodes:
            return cls(nodes, per_node, os.environ.get("NEL_SANDBOX_HET_GROUP") or None)
        return None

    @staticmethod
    def require_job() -> None:
        """Check that this process runs inside a SLURM job.

        Outside, every command would wait in the queue for an allocation of its own.

        Raises:
            SandboxError: It does not.
        """
        if "SLURM_JOB_ID" not in os.environ:
            raise SandboxError(
                "not inside a SLURM job",
                hint="run nel in the job whose nodes NEL_SANDBOX_NODES names",
            )

    async def take(self) -> NodeSlot:
        """Take a free slot, waiting for one if necessary."""
        return await self._free.get()

    def give(self, place: NodeSlot) -> None:
        """Put a slot back."""
        self._free.put_nowait(place)

    @staticmethod
    def from_node(url: str) -> str:
        """Return a loopback URL of the evaluator as another node reaches it."""
        parts = urlsplit(url)
        if parts.hostname not in _LOOPBACK:
            return url
        if parts.username is not None:
            raise SandboxError("a URL with a password in it is not carried to another node")
        host = socket.gethostname()
        if parts.port:
            host = f"{host}:{parts.port}"
        return urlunsplit((parts.scheme, host, parts.path, parts.query, parts.fragment))


class Quiet:
    """Passes output on without the lines that srun and its daemon insert between those of the command."""

    _THEIRS: Final = re.compile(rb"(srun|slurmstepd[^ :]*): ")

    def __init__(self, emit: Callable[[str, bytes], None]) -> None:
        self._emit = emit
        self._line = b""

    def take(self, stream: str, data: bytes) -> None:
        """Filter a piece of output: whole lines of stderr are passed on, an incomplete one waits for its end."""
        if stream != "stderr":
            self._emit(stream, data)
            return
        lines = (self._line + data).splitlines(keepends=True)
        self._line = b"" if data.endswith(b"\n") else lines.pop()
        own_lines = b"".join(line for line in lines if not self._THEIRS.match(line))
        if own_lines:
            self._emit(stream, own_lines)

    def flush(self) -> None:
        """Pass on an incomplete last line."""
        if self._line and not self._THEIRS.match(self._line):
            self._emit("stderr", self._line)
