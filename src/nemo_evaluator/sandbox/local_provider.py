"""Local sandboxes for a run: one keeper for all, and a check that this machine can isolate."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Backend, BackendCommand, Emit, Limits
from nemo_evaluator.sandbox._keeper_client import KeeperClient
from nemo_evaluator.sandbox._pump import Pump
from nemo_evaluator.sandbox.base import Exit, ImageBuildRequest, OutsideEndpoint, Provider, Sandbox
from nemo_evaluator.sandbox.dockerfile import without_build
from nemo_evaluator.sandbox.gvisor import GVisorSandbox
from nemo_evaluator.sandbox.local import LocalConfig, LocalSandbox

log = logging.getLogger(__name__)
_HINT = (
    "install bubblewrap (apt-get install bubblewrap) and allow user namespaces "
    "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), or use docker, "
    "or set unsafe: true to run the code with no isolation at all"
)


@dataclass(eq=False)
class UnsafeSandbox(Backend):
    """The sandbox of ``unsafe: true`` on a machine that cannot isolate: plain processes in a temporary folder.

    Deadlines and the end of process groups still work, but the code can read and write whatever the user can.
    """

    _folder: str = field(default="", init=False)
    _home: str = field(default="", init=False)

    async def _open(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        """Warn the user, and create the folders of the sandbox."""
        log.warning(
            "running untrusted code WITHOUT ISOLATION, because the sandbox says unsafe: true"
        )
        self._folder = tempfile.mkdtemp(prefix="nel-unsafe-")
        self._ending.push_async_callback(
            asyncio.to_thread, shutil.rmtree, self._folder, ignore_errors=True
        )
        self._home = tempfile.mkdtemp(prefix="nel-unsafe-home-")
        self._ending.push_async_callback(
            asyncio.to_thread, shutil.rmtree, self._home, ignore_errors=True
        )
        self.base_env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": self._home,
            "LANG": "C.UTF-8",
        }
        await self._reach(outside_endpoints)

    def _absolute(self, path: str) -> str:
        """A path below the working directory is in the temporary folder; any other path is the host's."""
        path = super()._absolute(path)
        workdir = self.spec.workdir.rstrip("/")
        if path == workdir or path.startswith(f"{workdir}/"):
            return f"{self._folder}{path[len(workdir) :]}"
        return path

    async def _run(self, job: BackendCommand, emit: Emit) -> Exit:
        if job.user is not None:
            raise SandboxError("a sandbox without isolation has no other user")
        if not job.private:
            return await self._spawn(job, emit, self._absolute(job.cwd))
        with tempfile.TemporaryDirectory(prefix="nel-judge-") as folder:
            return await self._spawn(job, emit, folder)

    async def _spawn(self, job: BackendCommand, emit: Emit, cwd: str) -> Exit:
        """Run a command as a plain process, and kill its process group at the deadline or at its end."""
        with Pump(emit) as pump:
            try:
                with pump.far_ends(job.stdin) as (stdin, stdout, stderr, _report):
                    process = subprocess.Popen(
                        job.argv,
                        stdin=stdin,
                        stdout=stdout,
                        stderr=stderr,
                        cwd=cwd,
                        env=job.env,
                        start_new_session=True,
                    )
            except OSError as error:
                emit("stderr", f"{job.argv[0]}: {error.strerror}\n".encode())
                return Exit(127 if isinstance(error, FileNotFoundError) else 126)
            waiting = asyncio.ensure_future(asyncio.to_thread(process.wait))
            timed_out = False
            try:
                async with asyncio.timeout(job.timeout):
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
            if code < 0:
                code = 128 - code
            return Exit(code, timed_out=timed_out)


class LocalProvider(Provider):
    """Makes local sandboxes: each shows this machine's own system, or a folder that is given as its image."""

    def __init__(self, config: LocalConfig, run_id: str) -> None:
        super().__init__(config, run_id)
        self._keeper = KeeperClient()
        self._isolates = True
        self._settings = Limits.of(config)
        self._folders: dict[str, Path] = {}

    async def check(self) -> None:
        """Start a sandbox and run something in it; nothing less proves that this machine isolates."""
        probe = self.create(SandboxSpec())
        try:
            await probe.start()
            result = await probe.exec(["true"], timeout=20)
            if not result.ok:
                raise SandboxError(f"a test command failed: {result.stderr.strip()}")
        except SandboxError as error:
            if self._config.unsafe:
                self._isolates = False
                return
            raise SandboxError(
                f"this machine cannot isolate untrusted code: {error.message}", hint=_HINT
            ) from error
        finally:
            await probe.stop()

    async def build_images(self, requests: Sequence[ImageBuildRequest]) -> None:
        """Note the folders of Dockerfiles, which may only copy files; see ``create``."""
        await super().build_images([request for request in requests if not request.folders])
        for request in requests:
            self._folders |= request.folders

    def create(self, spec: SandboxSpec) -> Sandbox:
        """Create a sandbox. A Dockerfile that only copies files is followed; any other is a SandboxError."""
        if spec.image in self._folders:
            spec = without_build(spec, self._folders[spec.image])
        limits = self._settings.of_problem(spec, self._config)
        if not self._isolates:
            return UnsafeSandbox(spec, self._run_id)
        if self._config.runtime == "runsc":
            return GVisorSandbox(spec, self._run_id, settings=limits, reaper=self._reaper)
        return LocalSandbox(spec, self._run_id, settings=limits, keeper=self._keeper)

    async def close(self) -> None:
        """End the keeper with its sandboxes, and release the shared resources."""
        await self._keeper.close()
        await super().close()
