"""``docker``: a container per sandbox, with no more privileges than an agent needs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox import _fresh
from nemo_evaluator.sandbox._backend import Backend, Emit, Exit, Job, keepalive
from nemo_evaluator.sandbox._docker_api import DockerApi, frames
from nemo_evaluator.sandbox._forward import Forward, listen_in, target_of
from nemo_evaluator.sandbox._reaper import Reaper
from nemo_evaluator.sandbox._wrapper import Trailer, killer, wrapped
from nemo_evaluator.sandbox.base import OutsideEndpoint, VolumeMount

# What a package manager needs to work as root inside; none of these reaches past the container.
_CAPABILITIES: Final = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"]
# One file may be 8 GiB; no core dumps; and as many open files as an engine without privileges can still hand out.
_ULIMITS: Final = {"fsize": 8 * 2**30, "core": 0, "nofile": 16_384}
_SIGKILL: Final = 137
# How long after its deadline a command may take to give back its output; the kill goes on behind it.
_GRACE: Final = 0.2


@dataclass(frozen=True, slots=True)
class DockerSettings:
    """Limits and choices of a container."""

    memory: int = 4 * 2**30
    cpus: float = 2.0
    pids: int = 512
    network: str = "bridge"
    read_only: bool = False
    runtime: str | None = None


@dataclass(eq=False)
class DockerSandbox(Backend):
    """A container that sleeps, and commands run in it."""

    settings: DockerSettings = field(default_factory=DockerSettings)
    api: DockerApi = field(default_factory=DockerApi)
    reaper: Reaper | None = None
    labels: dict[str, str] = field(default_factory=dict)
    _id: str = field(default="", init=False)
    _forwards: list[Forward] = field(default_factory=list, init=False)
    _rewritten: dict[str, str] = field(default_factory=dict, init=False)
    _kept: set[str] = field(default_factory=lambda: {"main"}, init=False)
    _killing: asyncio.Task[None] | None = field(default=None, init=False)
    _shell: str = field(default="sh", init=False)
    _broken: str = field(default="", init=False)

    @property
    def is_running(self) -> bool:
        """True while the container can be used."""
        return self.started and not self._broken

    @property
    def container_id(self) -> str:
        """The engine's id of the container."""
        return self._id

    async def start(self, *, outside_endpoints: Sequence[OutsideEndpoint] = ()) -> None:
        """Create and start the container."""
        if self.started:
            return
        if not self.spec.image:
            raise SandboxError("a docker sandbox needs an image", hint="set image on the sandbox")
        if self.reaper is not None:
            # By name, and before it exists: a kill between the two must not leave it behind.
            await self.reaper.watch(self.name, self.api.host, f"/containers/{self.name}?force=1&v=1")
        try:
            created = await self.api.call("POST", "/containers/create", body=self._definition(), name=self.name)
            self._id = created["Id"]
            await self.api.call("POST", f"/containers/{self._id}/start")
            self.started = True
            for endpoint in outside_endpoints:
                self.endpoints[endpoint.env_var] = await self._let_in(endpoint.url)
            await self._settle()
            await self._prepare_files()
        except BaseException:
            with contextlib.suppress(SandboxError):
                await self.stop()
            raise

    async def stop(self) -> None:
        """Remove the container."""
        self.started = False
        for forward in self._forwards:
            await forward.close()
        self._forwards.clear()
        if self._killing is not None:
            self._killing.cancel()
        container, self._id = self._id or self.name, ""
        try:
            await self.api.call("DELETE", f"/containers/{container}", force=True, v=True, ok=(404, 409))
            if self.reaper is not None:
                await self.reaper.forget(self.name)
        finally:
            if self.reaper is None:
                # On our own: the connections are nobody else's.
                await self.api.close()

    def shell(self, command: str) -> list[str]:
        """``bash -c`` where the image has a bash."""
        return [self._shell, "-c", command]

    def resolve_outside_endpoint(self, url: str) -> str:
        """The address under which code inside reaches a URL of the host."""
        if url in self._rewritten or self.settings.network == "host":
            return self._rewritten.get(url, url)
        for name in ("localhost", "127.0.0.1", "0.0.0.0"):
            url = url.replace(f"://{name}", "://host.docker.internal", 1)
        return url

    def _definition(self) -> dict[str, Any]:
        limits = self.settings
        host: dict[str, Any] = {
            "NetworkMode": "none" if limits.network == "model-only" else limits.network,
            "Memory": limits.memory,
            "MemorySwap": limits.memory,
            "NanoCpus": int(limits.cpus * 1e9),
            "PidsLimit": limits.pids + 8,
            "CapDrop": ["ALL"],
            "CapAdd": _CAPABILITIES,
            "SecurityOpt": ["no-new-privileges"],
            "Init": self.spec.entrypoint is not None,
            "ReadonlyRootfs": limits.read_only,
            "Ulimits": [{"Name": name, "Soft": limit, "Hard": limit} for name, limit in _ULIMITS.items()],
            "Binds": [_bind(volume) for volume in self._volumes() if volume.host_path],
            "Mounts": [_scratch(volume) for volume in self._volumes() if not volume.host_path],
        }
        if limits.read_only:
            size = max(64 * 2**20, limits.memory // 4)
            host["Tmpfs"] = {"/tmp": f"size={size},mode=1777,exec", self.spec.workdir: f"size={size},mode=1777,exec"}
        if limits.runtime is not None:
            host["Runtime"] = limits.runtime
        if limits.network == "bridge":
            host["ExtraHosts"] = ["host.docker.internal:host-gateway"]
        environment = {**self.base_env, **self.spec.env, "NEL_EXEC": "main"}
        return {
            "Image": self.spec.image,
            "Entrypoint": ["/bin/sh", "-c"],
            "Cmd": [keepalive(self.spec)],
            "WorkingDir": self.spec.workdir,
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Labels": {"nel.run_id": self.run_id, "nel.sandbox": self.name, **self.labels},
            "HostConfig": host,
        }

    def _volumes(self) -> list[VolumeMount]:
        mounts = [one if isinstance(one, VolumeMount) else VolumeMount(**one) for one in self.spec.volumes]
        return [mount for mount in mounts if not mount.is_efs]

    async def _settle(self) -> None:
        """One command as root that learns which shell there is and opens the scratch folders to everyone."""
        scratch = [volume.container_path for volume in self._volumes() if not volume.host_path]
        script = 'if [ $# -gt 0 ]; then chmod 1777 "$@" || exit 1; fi; command -v bash || true'
        job = Job(["sh", "-c", script, "sh", *scratch], timeout=60, cwd="/", env={}, user="0")
        found: list[bytes] = []
        ended = await self._run(job, lambda stream, data: found.append(data))
        text = b"".join(found).decode("utf-8", "replace").strip()
        if ended.code != 0 or ended.timed_out:
            raise SandboxError(f"the container of {self.spec.image} cannot run a shell: {text[-300:]}")
        self._shell = "bash" if text.endswith("bash") else "sh"

    async def _let_in(self, url: str) -> str:
        network = self.settings.network
        if network == "host":
            return url
        if self.api.is_local and os.geteuid() == 0:
            # A socket of the container's own loopback, served from here: works without any network.
            state = await self.api.call("GET", f"/containers/{self._id}/json")
            target = target_of(url)
            fd, port = await asyncio.to_thread(listen_in, state["State"]["Pid"])
            forward = Forward(target, fd)
            await forward.start()
            self._forwards.append(forward)
            self._rewritten[url] = target.rewrite(url, port)
        elif network != "bridge":
            raise SandboxError(
                f"with network {network!r} the model can be reached only when nel runs as root beside the engine",
                hint="use network: bridge, or run as root",
            )
        return self.resolve_outside_endpoint(url)

    async def _run(self, job: Job, emit: Emit) -> Exit:
        if self._killing is not None:
            await asyncio.wait({self._killing})
        if self._broken:
            raise SandboxError(self._broken)
        stdin: bytes | IO[bytes] | None = job.stdin
        argv = job.argv
        if job.memory is not None:
            argv = ["sh", "-c", f'ulimit -v {job.memory // 1024} && exec "$@"', "sh", *argv]
        if job.private is not None:
            argv, stdin = _fresh.as_command(argv, job.private)
        token = secrets.token_hex(8)
        self._kept.add(token)
        trailer = Trailer(token, emit)
        request = {
            "AttachStdin": stdin is not None,
            "AttachStdout": True,
            "AttachStderr": True,
            "Cmd": wrapped(argv, token, job.cwd, "leave" if job.background else "kill"),
            "Env": [f"{name}={value}" for name, value in {**job.env, "NEL_EXEC": token}.items()],
            "WorkingDir": "/",
            **({"User": job.user} if job.user else {}),
        }
        timed_out = False
        try:
            until = time.monotonic() + job.timeout
            made = await self.api.call("POST", f"/containers/{self._id}/exec", body=request)
            try:
                async with asyncio.timeout(max(0.01, until - time.monotonic())):
                    await self._stream(made["Id"], stdin, trailer)
            except TimeoutError:
                timed_out = True
                await asyncio.wait({self._kill_later(token)}, timeout=_GRACE)
        except asyncio.CancelledError:
            self._kill_later(token)
            raise
        finally:
            if timed_out or not job.background:
                self._kept.discard(token)
        trailer.flush()
        if timed_out:
            return Exit(_SIGKILL, timed_out=True)
        return await self._exit(made["Id"], trailer, token)

    async def _stream(self, exec_id: str, stdin: bytes | IO[bytes] | None, trailer: Trailer) -> None:
        async with self.api.attach(exec_id) as (reader, writer):
            feeding = asyncio.ensure_future(_feed(writer, stdin)) if stdin is not None else None
            try:
                async for stream, data in frames(reader):
                    trailer.take(stream, data)
                    if trailer.complete:
                        return
            finally:
                if feeding is not None:
                    feeding.cancel()
                    await asyncio.gather(feeding, return_exceptions=True)

    async def _exit(self, exec_id: str, trailer: Trailer, token: str) -> Exit:
        if trailer.code is not None:
            if trailer.left > 0 and self._kept == {"main"}:
                # Somebody changed its mark to outlive its command; nobody else is here who could be hurt.
                self._kill_later(token)
            return Exit(trailer.code, out_of_memory=trailer.code != 0 and trailer.oom_kills > 0)
        # The wrapper did not live to say it: the command killed it, or the container is gone.
        state = await self.api.call("GET", f"/exec/{exec_id}/json")
        if state.get("Running") or state.get("ExitCode") is None:
            raise SandboxError("a command was lost: the connection to its container broke")
        await self._kill_later(token)
        container = await self.api.call("GET", f"/containers/{self._id}/json")
        if not container["State"]["Running"]:
            self._broken = "the container ended"
            if container["State"].get("OOMKilled"):
                return Exit(_SIGKILL, out_of_memory=True)
            raise SandboxError("the container ended while a command ran in it")
        return Exit(int(state["ExitCode"]))

    def _kill_later(self, token: str) -> asyncio.Task[None]:
        """Kill what a command left, behind the caller's back; the next command waits for it."""
        before = self._killing

        async def kill() -> None:
            if before is not None:
                await asyncio.wait({before})
            if self._id and not self._broken:
                await self._kill(token, " ".join(sorted(self._kept - {token})))

        self._killing = asyncio.ensure_future(kill())
        return self._killing

    async def _kill(self, token: str, keep: str) -> None:
        container = self._id
        try:
            async with asyncio.timeout(5):
                body = {"Cmd": killer(token, keep), "User": "0", "AttachStdout": True, "AttachStderr": True}
                made = await self.api.call("POST", f"/containers/{container}/exec", body=body)
                async with self.api.attach(made["Id"]) as (reader, _writer):
                    async for _ in frames(reader):
                        pass
                state = await self.api.call("GET", f"/exec/{made['Id']}/json")
                if state.get("ExitCode") == 0:
                    return
        except (SandboxError, TimeoutError):
            pass
        # Not even a shell could be started (a fork bomb holds every slot): the container has to go.
        self._broken = "the container was ended, because a command in it could not be stopped otherwise"
        with contextlib.suppress(SandboxError):
            await self.api.call("POST", f"/containers/{container}/kill", ok=(404, 409))


async def _feed(writer: asyncio.StreamWriter, stdin: bytes | IO[bytes]) -> None:
    with contextlib.suppress(ConnectionError):
        if isinstance(stdin, bytes):
            writer.write(stdin)
        else:
            while data := stdin.read(1 << 18):
                writer.write(data)
                await writer.drain()
        await writer.drain()
        writer.write_eof()


def _bind(volume: VolumeMount) -> str:
    return f"{volume.host_path}:{volume.container_path}{':ro' if volume.readonly else ''}"


def _scratch(volume: VolumeMount) -> dict[str, Any]:
    return {"Type": "volume", "Target": volume.container_path}
