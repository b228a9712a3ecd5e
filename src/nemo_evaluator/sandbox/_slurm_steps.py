"""The steps of a SLURM job that make up one sandbox: one that holds it, and one for every command."""

import asyncio
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox._entry_command import Client, start_client
from nemo_evaluator.sandbox.workspace import script

_START: Final = 600.0
# How long SLURM may take to end a step (a site's KillWait is 30 s unless set).
_END: Final = 60.0


def clean_up(name: str, removal: list[str]) -> list[str]:
    """The command that ends all steps with a name, whoever started them, and then runs ``removal``."""
    return ["/bin/sh", "-c", script("clean_up"), "sh", name, *removal]


class Steps:
    """Clients whose steps are under way. A step ends with everything that was started in it, so what shall stay (the
    container, background processes) needs a step that stays.
    """

    def __init__(self) -> None:
        self._holder: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._kept: list[subprocess.Popen[bytes]] = []
        self._leaving: list[subprocess.Popen[bytes]] = []

    async def hold(self, client: Client, ready: str) -> None:
        """Start the holding step and wait until it says ``ready``."""
        # A file, not a pipe: srun speaks up at any time, and nobody listens later.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        with Path(os.devnull).open("rb") as nothing:
            fds = [nothing.fileno(), self._said.fileno(), self._said.fileno()]
            self._holder = await asyncio.to_thread(start_client, client, fds)
        until = time.monotonic() + _START
        while ready not in (said := self._heard()):
            if self._holder.poll() is not None:
                raise SandboxError(f"the container did not start: {said[-500:]}")
            if time.monotonic() > until:
                raise SandboxError(f"the container did not start in {_START:g} s: {said[-500:]}")
            await asyncio.sleep(0.02)

    def check(self) -> None:
        """Raise SandboxError when the holding step has ended, and the sandbox with it."""
        if self._holder is not None and self._holder.poll() is not None:
            raise SandboxError(f"the container on its node ended: {self._heard()[-500:]}")

    def keep(self, client: subprocess.Popen[bytes]) -> None:
        """The step of a command that left processes running stays until the sandbox stops."""
        self._kept.append(client)

    def end(self, client: subprocess.Popen[bytes]) -> None:
        """End a step: srun does, when it is told to go, whatever the command does about signals."""
        client.terminate()
        self._leaving.append(client)

    async def settle(self) -> None:
        """Wait until the steps that were told to end have ended."""
        leaving, self._leaving = self._leaving, []
        for client in leaving:
            try:
                await asyncio.to_thread(client.wait, _END)
            except subprocess.TimeoutExpired as error:
                client.kill()
                raise SandboxError(f"a step did not end in {_END:g} s") from error

    async def close(self) -> None:
        """End them all."""
        for client in [*self._kept, *([self._holder] if self._holder is not None else [])]:
            self.end(client)
        self._kept.clear()
        self._holder = None
        try:
            await self.settle()
        finally:
            if self._said is not None:
                self._said.close()

    def _heard(self) -> str:
        """What the holding step has said so far."""
        assert self._said is not None
        # srun writes where the file stands: read without moving it.
        return os.pread(self._said.fileno(), 1 << 16, 0).decode("utf-8", "replace").strip()


class Quiet:
    """Passes output on without the lines that srun and its daemon put between those of the command."""

    _THEIRS: Final = re.compile(rb"(srun|slurmstepd[^ :]*): ")

    def __init__(self, emit: Callable[[str, bytes], None]) -> None:
        self._emit = emit
        self._line = b""

    def take(self, stream: str, data: bytes) -> None:
        """More output."""
        if stream != "stderr":
            return self._emit(stream, data)
        *lines, self._line = (self._line + data).splitlines(keepends=True) + ([b""] if data.endswith(b"\n") else [])
        if own := b"".join(line for line in lines if not self._THEIRS.match(line)):
            self._emit(stream, own)

    def flush(self) -> None:
        """No more is coming."""
        if self._line and not self._THEIRS.match(self._line):
            self._emit("stderr", self._line)
