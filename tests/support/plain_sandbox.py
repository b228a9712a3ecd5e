"""A sandbox with the five basic methods and no isolation."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox.base import ExecResult


class PlainSandbox:
    """Runs a command on this machine: enough for code the tests wrote themselves."""

    spec = SandboxSpec()

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def upload(self, source: Path | bytes, target: str) -> None: ...

    async def download(self, source: str, target: Path) -> None: ...

    async def exec(
        self,
        command: str | list[str],
        *,
        timeout: float = 180.0,
        stdin: bytes | None = None,
        **_: object,
    ) -> ExecResult:
        argv = ["sh", "-c", command] if isinstance(command, str) else command
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(stdin), timeout)
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            return ExecResult("", "", -9, timed_out=True)
        return ExecResult(out.decode(), err.decode(), process.returncode or 0)
