"""``local``: isolation on this machine without a daemon, by bubblewrap, control groups and a system-call filter."""

import asyncio
import contextlib
import errno
import marshal
import os
import platform
import resource
import shutil
import signal
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Above0, EnvMap, Positive, Size
from nemo_evaluator.config.sandbox_base import SandboxBase
from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.sandbox._backend import Backend, BackendCommand, Emit
from nemo_evaluator.sandbox._bwrap import HOME, PATH, arguments
from nemo_evaluator.sandbox._forward import Forwards, listening
from nemo_evaluator.sandbox._keeper_client import KeeperClient, WardenConnection
from nemo_evaluator.sandbox._pump import Pump
from nemo_evaluator.sandbox.base import Exit, OutsideEndpoint
from nemo_evaluator.sandbox.jail import cgroups, seccomp

# Seconds that a command killed at its deadline may take to close its output.
_GRACE: Final = 0.2
# Seconds that a killed process namespace may take to end before nel gives up its sandbox.
_DYING: Final = 2.0
# Warden, waiting init and running init.
_OWN_PIDS: Final = 8
_PRIVATE_SIZE: Final = 256 * 2**20


class LocalConfig(SandboxBase):
    """Isolation on this machine without a daemon."""

    type: Literal["local"] = "local"
    memory: Size = Field("4g", description="Memory limit.")
    cpus: Above0 = Field(2.0, description="CPU limit.")
    pids: Positive = Field(512, description="Maximum processes and threads inside.")
    timeout: Above0 = Field(1800.0, description="Longest life of one sandbox, in seconds.")
    concurrency: Positive = Field(4, description="Maximum concurrent sandboxes.")
    network: Literal["none", "host", "model-only"] = Field("none", description="Network inside.")
    read_only: bool = Field(False, description="Make the working directory read-only too.")
    runtime: Literal["bwrap", "runsc"] | None = Field(
        None, description="What isolates; null: the best one found."
    )
    unsafe: bool = Field(False, description="Run without isolation where none can be had.")
    container_env: EnvMap = Field(default_factory=dict, description="Environment inside.")


@dataclass(eq=False)
class LocalSandbox(Backend):
    """A sandbox of namespaces: a warden waits inside, and each command gets a process namespace of its own."""

    # None: it starts a keeper of its own.
    keeper: InitVar[KeeperClient | None] = None
    _line: WardenConnection | None = field(default=None, init=False)
    _groups: list[str] = field(default_factory=list, init=False)
    _oom_kills: int = field(default=0, init=False)
    _forwards: Forwards = field(default_factory=Forwards, init=False)
    # False when a judged program may have left something: then the sandbox is not used again.
    is_clean: bool = field(default=True, init=False)

    def __post_init__(self, keeper: KeeperClient | None) -> None:
        self._keeper = keeper or KeeperClient()
        self._own_keeper = keeper is None

    async def _open(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        """Let the keeper create the sandbox, with its limits."""
        if platform.machine() not in seccomp.ARCHITECTURES:
            raise SandboxError(
                f"local sandboxes do not know this machine's architecture, {platform.machine()}",
                hint=f"they know {', '.join(seccomp.ARCHITECTURES)}; use docker",
            )
        if self._own_keeper:
            self._ending.push_async_callback(self._keeper.close)
        await self._keeper.start()
        limits = self.settings
        argv = arguments(self.spec, limits.memory, limits.network, folder=self._keeper.folder)
        request = {
            "name": self.name,
            "run_id": self.run_id,
            "limits": {
                "memory": limits.memory,
                "pids": limits.pids + _OWN_PIDS,
                "cpus": limits.cpus,
            },
            "shape": {
                "bwrap": argv,
                "share_net": limits.network == "host",
                "uid": self._keeper.uid,
            },
        }
        self._line, self._groups = await self._keeper.open(request)
        # The warden and everything inside ends at once.
        self._ending.push_async_callback(self._line.hang_up)
        self._ending.push_async_callback(self._forwards.close)
        self.base_env = {
            "PATH": PATH,
            "HOME": HOME,
            "LANG": "C.UTF-8",
            "USER": "sandbox",
            "TMPDIR": "/tmp",
        }
        await self._reach(outside_endpoints)

    def shell(self, command: str) -> list[str]:
        """``bash -c`` where there is a bash."""
        root = self.spec.image if self.spec.image.startswith("/") else ""
        has_bash = shutil.which("bash", path=f"{root}/usr/bin:{root}/bin") is not None
        return ["bash" if has_bash else "sh", "-c", command]

    def resolve_outside_endpoint(self, url: str) -> str:
        """Return the forwarded address of a URL; without one, the URL itself."""
        return self._forwards.urls.get(url, url)

    async def _let_in(self, url: str) -> str:
        if self.settings.network == "host":
            return url
        return await self._forwards.add(url, self._listen)

    async def _listen(self) -> tuple[int, int]:
        assert self._line is not None
        return listening(await self._line.ask({"op": "listen"}, []))

    async def _run(self, job: BackendCommand, emit: Emit) -> Exit:
        """Let the warden start a command, and wait for its end."""
        if job.user not in (None, "sandbox"):
            raise SandboxError(
                f"a local sandbox has no user {job.user!r}", hint="leave user out, or use docker"
            )
        assert self._line is not None
        with Pump(emit) as pump:
            with pump.far_ends(job.stdin, self._keeper.uid) as fds:
                started = self._line.ask(self._request(job), fds)
            answer, descriptors = await started
            if "error" in answer:
                raise SandboxError(f"cannot start a command: {answer['error']}")
            pidfd = descriptors[0]
            try:
                report = await self._await_end(job, pump, pidfd)
            finally:
                if not job.background:
                    _kill(pidfd)
                if job.private:
                    self.is_clean = await self._is_idle_after(pidfd)
                os.close(pidfd)
        return self._exit(report, emit)

    async def _is_idle_after(self, pidfd: int) -> bool:
        """Wait until a process namespace has ended; True when only nel's own processes are left in the sandbox."""
        loop = asyncio.get_running_loop()
        namespace_end: asyncio.Future[None] = loop.create_future()

        def note() -> None:
            loop.remove_reader(pidfd)
            namespace_end.set_result(None)

        # An init ends only after all processes of its namespace.
        loop.add_reader(pidfd, note)
        try:
            async with asyncio.timeout(_DYING):
                await namespace_end
        except TimeoutError:
            loop.remove_reader(pidfd)
            return False
        return cgroups.processes(self._groups) <= _OWN_PIDS

    def _out_of_memory(self) -> bool:
        """Whether the kernel has killed a process inside since the last call, because memory ran out."""
        kills_before = self._oom_kills
        self._oom_kills = cgroups.oom_kills(self._groups)
        return self._oom_kills > kills_before

    def _request(self, job: BackendCommand) -> dict[str, Any]:
        """The request to the warden; limits that no control group enforces become limits per process."""
        rlimits = [(resource.RLIMIT_CORE, 0)]
        if "memory" not in self._keeper.controllers:
            rlimits.append((resource.RLIMIT_AS, self.settings.memory))
        if "pids" not in self._keeper.controllers:
            rlimits.append((resource.RLIMIT_NPROC, self.settings.pids))
        is_read_only = self.settings.read_only and not job.transfer
        request: dict[str, Any] = {
            "op": "exec",
            "argv": job.argv,
            "cwd": job.cwd,
            "env": job.env,
            "timeout": job.timeout,
            "background": job.background,
            "rlimits": rlimits,
            "read_only": [self.spec.workdir] if is_read_only else [],
        }
        if job.private:
            request["private"] = [self.spec.workdir, "/tmp", "/dev/shm"]
            request["private_size"] = min(_PRIVATE_SIZE, self.settings.memory // 2)
        return request

    async def _await_end(self, job: BackendCommand, pump: Pump, pidfd: int) -> dict[str, Any]:
        """Wait for the report. The command's init enforces the deadline, and a kill from here is the second line."""
        # An init with background processes kills late commands itself; killing it would end all of them. On a busy
        # machine it may need time.
        extra_seconds = 10.0 if job.background else 0.05
        report = dict[str, Any]()
        try:
            async with asyncio.timeout(job.timeout + extra_seconds):
                await pump.reported()
                if not job.background:
                    await pump.drained()
        except TimeoutError:
            _kill(pidfd)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await pump.drained()
            report = {"timed_out": True}
        pump.drain_now()
        if pump.report:
            report = marshal.loads(pump.report)
        return report

    def _exit(self, report: dict[str, Any], emit: Emit) -> Exit:
        """How a command ended, from the report of its init; an empty one means that the init was killed."""
        if report.get("timed_out"):
            return Exit(128 + signal.SIGKILL, timed_out=True)
        if "errno" in report:
            emit("stderr", f"{report['text']}\n".encode())
            return Exit(127 if report["errno"] == errno.ENOENT else 126)
        if "error" in report:
            raise SandboxError(report["error"])
        if "status" not in report:
            if self._out_of_memory():
                return Exit(128 + signal.SIGKILL, out_of_memory=True)
            raise SandboxError("a command was lost: its sandbox ended under it")
        code = os.waitstatus_to_exitcode(report["status"])
        if code < 0:
            code = 128 - code
        return Exit(code, out_of_memory=code != 0 and self._out_of_memory())


def _kill(pidfd: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


KIND: Final = Kind(LocalConfig, "nemo_evaluator.sandbox.local_provider:LocalProvider")
