"""``docker``: a container per sandbox, with no more privileges than an agent needs."""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Above0, NetworkRange, Positive, Size
from nemo_evaluator.config.sandbox_base import ImageSandbox
from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.processes import owner_label
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import BackendCommand, Emit, Limits, keepalive
from nemo_evaluator.sandbox._docker_api import DockerApi, frames
from nemo_evaluator.sandbox._docker_network import can_guard, create_network, guard, remove_network
from nemo_evaluator.sandbox._forward import Forwards, listen_in
from nemo_evaluator.sandbox._wrapper import SIGKILL, Command, WrappedSandbox, WrapperReport, killer
from nemo_evaluator.sandbox.base import Exit, OutsideEndpoint, volumes_of

_SIGNALLED: Final = 128
# How often a container's disk is looked at while commands run.
_LOOK_EVERY: Final = 2.0


class DockerConfig(ImageSandbox):
    """A container of Docker or Podman."""

    type: Literal["docker"] = "docker"
    memory: Size = Field("4g", description="Memory limit.")
    cpus: Above0 = Field(2.0, description="CPU limit.")
    pids: Positive = Field(512, description="Maximum processes and threads inside.")
    network: Literal["none", "bridge", "host", "model-only"] = Field(
        "none",
        description="Network; `bridge` reaches the internet, `model-only` nothing but the model proxy.",
    )
    private_networks: list[NetworkRange] | None = Field(
        None,
        description="Private networks that `bridge` may reach, such as `10.1.0.0/16` of a package mirror.",
    )
    read_only: bool = Field(False, description="Make the root file system read-only.")
    runtime: Literal["runc", "runsc"] | None = Field(
        None, description="OCI runtime; `runsc` is gVisor."
    )
    disk: Size = Field(
        "20g", description="Most that a container may write to its root before it is ended."
    )


# What a package manager needs to work as root inside; none of these reaches past the container.
_CAPABILITIES: Final = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"]
# No core dumps, and as many open files as an engine without privileges can still hand out.
_ULIMITS: Final = {"core": 0, "nofile": 16_384}


def definition(
    spec: SandboxSpec, limits: Limits, env: Mapping[str, str], labels: Mapping[str, str]
) -> dict[str, Any]:
    """The body of the request that creates the container."""
    volumes = volumes_of(spec)
    bound = [one for one in volumes if one.host_path]
    # One file cannot pass the disk limit before anybody looks.
    ulimits = {**_ULIMITS, "fsize": min(8 * 2**30, limits.disk)}
    host: dict[str, Any] = {
        "NetworkMode": "none" if limits.network == "model-only" else limits.network,
        "Memory": limits.memory,
        "MemorySwap": limits.memory,
        "NanoCpus": int(limits.cpus * 1e9),
        "PidsLimit": limits.pids + 8,
        "CapDrop": ["ALL"],
        "CapAdd": _CAPABILITIES,
        "SecurityOpt": ["no-new-privileges"],
        "Init": spec.entrypoint is not None,
        "ReadonlyRootfs": limits.read_only or limits.shared,
        "Ulimits": [
            {"Name": name, "Soft": limit, "Hard": limit} for name, limit in ulimits.items()
        ],
        "Binds": [
            f"{one.host_path}:{one.container_path}:{'ro' if one.readonly else 'rw'}"
            for one in bound
        ],
        "Mounts": [
            {"Type": "volume", "Target": one.container_path} for one in volumes if not one.host_path
        ],
    }
    if limits.read_only or limits.shared:
        size = max(64 * 2**20, limits.memory // 4)
        folders = ["/tmp"] if limits.shared else ["/tmp", spec.workdir]
        host["Tmpfs"] = dict.fromkeys(folders, f"size={size},mode=1777,exec")
    if limits.runtime is not None:
        host["Runtime"] = limits.runtime
    if limits.network == "bridge":
        host["ExtraHosts"] = ["host.docker.internal:host-gateway"]
    return {
        "Image": spec.image,
        "Entrypoint": ["/bin/sh", "-c"],
        "Cmd": [keepalive(spec)],
        "WorkingDir": spec.workdir,
        "Env": [f"{name}={value}" for name, value in {**env, "NEL_EXEC": "main"}.items()],
        "Labels": dict(labels),
        "HostConfig": host,
    }


@dataclass(eq=False)
class DockerSandbox(WrappedSandbox):
    """A container that sleeps, and commands run in it."""

    api: DockerApi = field(default_factory=DockerApi)
    # False once a program of its own was ended from outside: nobody cleared up behind it.
    is_clean: bool = field(default=True, init=False)
    # Whether the container was ended because more was written to it than it may hold.
    over_disk: bool = field(default=False, init=False)
    _id: str = field(default="", init=False)
    _forwards: Forwards = field(default_factory=Forwards, init=False)
    _watching: asyncio.Task[None] | None = field(default=None, init=False)
    _busy: bool = field(default=False, init=False)
    _shell: str = field(default="sh", init=False)
    _broken: str = field(default="", init=False)
    _root_user: ClassVar[str | None] = "0"
    kind: ClassVar[str] = "docker"
    _needs_image: ClassVar[bool] = True

    @property
    def is_running(self) -> bool:
        """True while the container can be used."""
        return self.started and not self._broken

    async def _open(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        if self.reaper is None:
            # On our own: the connections are nobody else's.
            self._ending.push_async_callback(self.api.aclose)
        else:
            # By name, and before it exists: a kill between the two must not leave it behind.
            left = [f"/containers/{self.name}?force=1&v=1"]
            if self._has_network:
                left.append(f"/networks/{self.name}")
            await self.reaper.watch(self.name, self.api.host, left)
        if self._has_network:
            self._ending.push_async_callback(remove_network, self.api, self.name)
        self._ending.push_async_callback(self._remove)
        self._ending.push_async_callback(self._forwards.close)
        labels = {"nel.run_id": self.run_id, "nel.sandbox": self.name, "nel.owner": owner_label()}
        body = definition(
            self.spec, self.settings, {**self.base_env, **self.spec.env}, labels=labels
        )
        if self._has_network:
            await create_network(self.api, self.name, labels)
            body["HostConfig"]["NetworkMode"] = self.name
        created = await self.api.call("POST", "/containers/create", body=body, name=self.name)
        self._id = created["Id"]
        await self.api.call("POST", f"/containers/{self._id}/start")
        if self._has_network:
            await self._guard()
        if not (self.settings.read_only or self.settings.shared):
            self._watching = asyncio.ensure_future(self._watch_disk())
        await self._reach(outside_endpoints)
        await self._settle()

    @property
    def _has_network(self) -> bool:
        """Whether the container has a network of its own."""
        return self.settings.network == "bridge"

    async def _guard(self) -> None:
        """Learn the address of the container, and keep it from everything but the internet."""
        facts = await self._inspect()
        networks = facts["NetworkSettings"]["Networks"] or {}
        addresses = [one["IPAddress"] for one in networks.values() if one.get("IPAddress")]
        self.container_ip = addresses[0] if addresses else None
        if can_guard(self.api, self.settings.runtime):
            pid = facts["State"]["Pid"]
            await asyncio.to_thread(
                guard, pid, self.container_ip or "", self.settings.private_networks
            )

    async def _remove(self) -> None:
        for task in (self._killing, self._watching):
            if task is not None:
                task.cancel()
        container = self._id or self.name
        self._id = ""
        await self.api.call("DELETE", f"/containers/{container}", force=True, v=True, ok=(404, 409))
        await self._forget()

    async def _inspect(self, **query: Any) -> Any:
        return await self.api.call("GET", f"/containers/{self._id}/json", **query)

    async def _end(self, why: str) -> None:
        """End the container, which cannot be used any more."""
        self._broken = why
        with contextlib.suppress(SandboxError):
            await self.api.call("POST", f"/containers/{self._id}/kill", ok=(404, 409))

    def shell(self, command: str) -> list[str]:
        """``bash -c`` where the image has a bash."""
        return [self._shell, "-c", command]

    def resolve_outside_endpoint(self, url: str) -> str:
        if url in self._forwards.urls or self.settings.network == "host":
            return self._forwards.urls.get(url, url)
        for name in ("localhost", "127.0.0.1", "0.0.0.0"):  # noqa: S104 - looked for, never bound
            url = url.replace(f"://{name}", "://host.docker.internal", 1)
        return url

    async def _settle(self) -> None:
        """One command as root that learns which shell there is and opens the scratch folders to everyone."""
        scratch: list[str] = []
        for volume in volumes_of(self.spec):
            if not volume.host_path:
                scratch.append(volume.container_path)
        script = 'if [ $# -gt 0 ]; then chmod 1777 "$@" || exit 1; fi; command -v bash || true'
        job = BackendCommand(
            ["sh", "-c", script, "sh", *scratch], timeout=60, cwd="/", env={}, user="0"
        )
        found: list[bytes] = []
        ended = await self._run(job, lambda stream, data: found.append(data))
        text = b"".join(found).decode("utf-8", "replace").strip()
        if ended.code != 0 or ended.timed_out:
            raise SandboxError(
                f"the container of {self.spec.image} cannot run a shell: {text[-300:]}"
            )
        if text.endswith("bash"):
            self._shell = "bash"
        else:
            self._shell = "sh"

    async def _let_in(self, url: str) -> str:
        network = self.settings.network
        if network == "host":
            return url
        if self.api.socket and os.geteuid() == 0:
            # A socket of the container's own loopback, served from here: works without any network.
            inside = (await self._inspect())["State"]["Pid"]
            return await self._forwards.add(url, partial(asyncio.to_thread, listen_in, inside))
        if network != "bridge":
            raise SandboxError(
                f"with network {network!r} the model can be reached only when nel runs as root beside the engine",
                hint="use network: bridge, or run as root",
            )
        return self.resolve_outside_endpoint(url)

    def _check_usable(self) -> None:
        if self._broken:
            raise SandboxError(self._broken)

    async def _run(self, job: BackendCommand, emit: Emit) -> Exit:
        self._busy = True
        ended = await super()._run(job, emit)
        self.is_clean = self.is_clean and (not job.private or ended.code < _SIGNALLED)
        if self.over_disk:
            emit("stderr", f"\n{self._broken}\n".encode())
        return ended

    async def _launch(self, command: Command) -> str:
        job = command.job
        request: dict[str, Any] = dict.fromkeys(
            ("AttachStdin", "AttachStdout", "AttachStderr"), True
        )
        request |= {"Cmd": command.argv, "WorkingDir": "/"}
        request["Env"] = [
            f"{name}={value}" for name, value in {**job.env, "NEL_EXEC": command.token}.items()
        ]
        request |= {"User": job.user} if job.user else {}
        made = await self.api.call("POST", f"/containers/{self._id}/exec", body=request)
        async with (
            asyncio.timeout(max(0.01, command.left)),
            self.api.attach(made["Id"]) as (reader, writer),
        ):
            feeding = asyncio.ensure_future(command.feed(writer))
            try:
                async for stream, data in frames(reader):
                    command.take(stream, data)
                    if command.complete:
                        break
            finally:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)
        return str(made["Id"])

    def _finished(self, report: WrapperReport, command: Command) -> None:
        if report.left_behind == 0:
            return
        if command.job.private:
            self.is_clean = False
        if self._kept == {"main"}:
            # A process changed its mark to outlive its command; no other command runs that the kill could hit.
            self._kill_later(command.token)

    async def _lost(self, launched: str, token: str) -> Exit:
        # The wrapper did not live to say it: the command killed it, or the container is gone.
        state = await self.api.call("GET", f"/exec/{launched}/json")
        if state.get("Running") or state.get("ExitCode") is None:
            raise SandboxError("a command was lost: the connection to its container broke")
        await self._kill_later(token)
        container = (await self._inspect())["State"]
        if not container["Running"]:
            self._broken = self._broken or "the container ended"
            if container.get("OOMKilled"):
                return Exit(SIGKILL, out_of_memory=True)
            if self.over_disk:
                return Exit(SIGKILL)
            raise SandboxError("the container ended while a command ran in it")
        # The wrapper itself ends with 0, so a 0 here is no word of the command's: its last words were taken away.
        return Exit(int(state["ExitCode"]) or SIGKILL)

    async def _watch_disk(self) -> None:
        """End the container when it has written more than it may: most storage drivers know no quota."""
        while not self.over_disk:
            await asyncio.sleep(_LOOK_EVERY)
            if not self._busy or self._broken:
                continue
            # Something may run on in the background; while nothing was asked for, it is left alone.
            self._busy = self._kept != {"main"}
            with contextlib.suppress(SandboxError):
                self.over_disk = (
                    (await self._inspect(size=True)).get("SizeRw") or 0
                ) > self.settings.disk
        await self._end(
            f"the sandbox wrote more than its disk limit of {self.settings.disk} bytes and was ended"
        )

    async def _kill(self, token: str, keep: str) -> None:
        if not self._id or self._broken:
            return
        try:
            async with asyncio.timeout(5):
                body = {
                    "Cmd": killer(token, keep),
                    "User": "0",
                    "AttachStdout": True,
                    "AttachStderr": True,
                }
                made = await self.api.call("POST", f"/containers/{self._id}/exec", body=body)
                async with self.api.attach(made["Id"]) as (reader, _writer):
                    async for _ in frames(reader):
                        pass
                state = await self.api.call("GET", f"/exec/{made['Id']}/json")
                if state.get("ExitCode") == 0:
                    return
        except (SandboxError, TimeoutError):
            pass
        # Not even a shell could be started (a fork bomb holds every slot). A restart ends all processes and keeps the
        # files, unless these are in memory; a way to the model would not outlive it either.
        if not self._forwards.urls and not self.settings.read_only:
            with contextlib.suppress(SandboxError):
                await self.api.call("POST", f"/containers/{self._id}/restart", t=0)
                if self._has_network:
                    await self._guard()
                self._kept.intersection_update({"main"})
                return
        await self._end(
            "the container was ended, because a command in it could not be stopped otherwise"
        )


KIND: Final = Kind(DockerConfig, "nemo_evaluator.sandbox.docker_provider:DockerProvider")
