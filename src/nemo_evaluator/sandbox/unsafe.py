"""``local`` with ``unsafe: true`` on a machine that cannot isolate: plain processes in a temporary folder. A deadline
still holds and groups of processes still die, but the code can read and write whatever the user can."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox._backend import Backend, Emit, Job
from nemo_evaluator.sandbox._pump import Pump
from nemo_evaluator.sandbox.base import Exit, OutsideEndpoint

log = logging.getLogger(__name__)


@dataclass(eq=False)
class UnsafeSandbox(Backend):
    """No sandbox at all, only its shape."""

    _folder: Path | None = field(default=None, init=False)

    async def _open(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        log.warning("running untrusted code WITHOUT ISOLATION, because the sandbox says unsafe: true")
        self._folder = Path(tempfile.mkdtemp(prefix="nel-unsafe-"))
        self.base_env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._folder), "LANG": "C.UTF-8"}
        await self._reach(outside_endpoints)

    async def stop(self) -> None:
        self.started = False
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        self._folder = None

    def _absolute(self, path: str) -> str:
        """The working directory stands for our folder; any other path is the host's own."""
        path, workdir = super()._absolute(path), self.spec.workdir.rstrip("/")
        if path == workdir or path.startswith(f"{workdir}/"):
            return f"{self._folder}{path[len(workdir) :]}"
        return path

    async def _run(self, job: Job, emit: Emit) -> Exit:
        if job.user is not None:
            raise SandboxError("a sandbox without isolation has no other user")
        if job.private is None:
            return await self._spawn(job, emit, self._absolute(job.cwd))
        with tempfile.TemporaryDirectory(prefix="nel-fresh-") as folder:
            for name, data in job.private.items():
                Path(folder, name).write_bytes(data)
            return await self._spawn(job, emit, folder)

    async def _spawn(self, job: Job, emit: Emit, cwd: str) -> Exit:
        pump, until = Pump(emit), time.monotonic() + job.timeout
        try:
            fds = pump.open(job.stdin, None)
            try:
                stdin, out, err = fds[:3]
                process = subprocess.Popen(
                    job.argv, stdin=stdin, stdout=out, stderr=err, cwd=cwd, env=job.env, start_new_session=True
                )
            except OSError as error:
                emit("stderr", f"{job.argv[0]}: {error.strerror}\n".encode())
                return Exit(127 if isinstance(error, FileNotFoundError) else 126)
            finally:
                pump.close_far_ends()
            waiting = asyncio.ensure_future(asyncio.to_thread(process.wait))
            timed_out = False
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    await asyncio.shield(waiting)
            except TimeoutError:
                timed_out = True
            finally:
                if timed_out or not job.background:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
            code = await waiting
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await pump.drained()
            pump.drain_now()
            return Exit(128 - code if code < 0 else code, timed_out=timed_out)
        finally:
            pump.close()
