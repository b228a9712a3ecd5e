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
from nemo_evaluator.sandbox._wrapper import MAIN, SIGKILL, Command, WrappedSandbox, killer
from nemo_evaluator.sandbox._wrapper_output import WrapperReport
from nemo_evaluator.sandbox.base import Exit, OutsideEndpoint, volumes_of

_SIGNALLED: Final = 128
# Seconds between two checks of a container's disk while commands run.
_LOOK_EVERY: Final = 2.0
# Seconds for a shell that kills a command's processes.
_KILL_TIMEOUT: Final = 5.0


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
_LARGEST_FILE: Final = 8 * 2**30
# The main process and the wrapper of a command count against the limit, too.
_OWN_PIDS: Final = 8


def definition(
    spec: SandboxSpec, limits: Limits, env: Mapping[str, str], labels: Mapping[str, str]
) -> dict[str, Any]:
    """The body of the request that creates the container.

    Args:
        spec: The sandbox that the problem asks for.
        limits: What the container may use and reach.
        env: The environment of its main process.
        labels: Its labels.
    """
    env_lines = [f"{name}={value}" for name, value in {**env, "NEL_EXEC": "main"}.items()]
    return {
        "Image": spec.image,
        "Entrypoint": ["/bin/sh", "-c"],
        "Cmd": [keepalive(spec)],
        "WorkingDir": spec.workdir,
        "Env": env_lines,
        "Labels": dict(labels),
        "HostConfig": {**_isolation(spec, limits), **_mounts(spec, limits)},
    }


def _isolation(spec: SandboxSpec, limits: Limits) -> dict[str, Any]:
    """The limits and privileges of a container."""
    # One file cannot pass the disk limit between two checks.
    ulimits = {**_ULIMITS, "fsize": min(_LARGEST_FILE, limits.disk)}
    host: dict[str, Any] = {
        "NetworkMode": "none" if limits.network == "model-only" else limits.network,
        "Memory": limits.memory,
        "MemorySwap": limits.memory,
        "NanoCpus": int(limits.cpus * 1e9),
        "PidsLimit": limits.pids + _OWN_PIDS,
        "CapDrop": ["ALL"],
        "CapAdd": _CAPABILITIES,
        "SecurityOpt": ["no-new-privileges"],
        "Init": spec.entrypoint is not None,
        "ReadonlyRootfs": limits.read_only or limits.shared,
        "Ulimits": [
            {"Name": name, "Soft": limit, "Hard": limit} for name, limit in ulimits.items()
        ],
    }
    if limits.runtime is not None:
        host["Runtime"] = limits.runtime
    if limits.network == "bridge":
        host["ExtraHosts"] = ["host.docker.internal:host-gateway"]
    return host


def _mounts(spec: SandboxSpec, limits: Limits) -> dict[str, Any]:
    """The folders of the host, the scratch folders, and the writable folders of a read-only container."""
    binds: list[str] = []
    scratch: list[dict[str, str]] = []
    for volume in volumes_of(spec):
        if volume.host_path:
            mode = "ro" if volume.readonly else "rw"
            binds.append(f"{volume.host_path}:{volume.container_path}:{mode}")
        else:
            scratch.append({"Type": "volume", "Target": volume.container_path})
    mounts: dict[str, Any] = {"Binds": binds, "Mounts": scratch}
    if limits.read_only or limits.shared:
        size = max(64 * 2**20, limits.memory // 4)
        folders = ["/tmp"] if limits.shared else ["/tmp", spec.workdir]
        mounts["Tmpfs"] = dict.fromkeys(folders, f"size={size},mode=1777,exec")
    return mounts


@dataclass(eq=False)
class DockerSandbox(WrappedSandbox):
    """A container whose main process sleeps; commands are execs in it."""

    api: DockerApi = field(default_factory=DockerApi)
    # False when a judge was killed or left processes: nothing has cleaned up after its program.
    is_clean: bool = field(default=True, init=False)
    # Whether nel ended the container because its disk limit was exceeded.
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
        """Whether the container can be used."""
        return self.started and not self._broken

    async def _open(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        """Create the container and its network, start it, and limit what it can reach."""
        if self.reaper is None:
            # Without a provider, the connections belong to this sandbox.
            self._ending.push_async_callback(self.api.aclose)
        else:
            # By name, and before it exists: a kill between the two must not leave it behind.
            removals = [f"/containers/{self.name}?force=1&v=1"]
            if self._has_network:
                removals.append(f"/networks/{self.name}")
            await self.reaper.watch(self.name, self.api.host, removals)
        if self._has_network:
            self._ending.push_async_callback(remove_network, self.api, self.name)
        self._ending.push_async_callback(self._remove)
        self._ending.push_async_callback(self._forwards.close)
        labels = {"nel.run_id": self.run_id, "nel.sandbox": self.name, "nel.owner": owner_label()}
        env = {**self.base_env, **self.spec.env}
        body = definition(self.spec, self.settings, env, labels=labels)
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
        """Note the address of the container, and block every network but the internet."""
        container = await self._inspect()
        networks = container["NetworkSettings"]["Networks"] or {}
        addresses = [network.get("IPAddress") for network in networks.values()]
        self.container_ip = next(filter(None, addresses), None)
        if can_guard(self.api, self.settings.runtime):
            pid = container["State"]["Pid"]
            allowed = self.settings.private_networks
            await asyncio.to_thread(guard, pid, self.container_ip or "", allowed)

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
        """Kill the container; later commands fail with ``why``."""
        self._broken = why
        with contextlib.suppress(SandboxError):
            await self.api.call("POST", f"/containers/{self._id}/kill", ok=(404, 409))

    def shell(self, command: str) -> list[str]:
        """``bash -c`` where the image has a bash."""
        return [self._shell, "-c", command]

    def resolve_outside_endpoint(self, url: str) -> str:
        """Return the forwarded address; without one, that of the host as containers see it."""
        if url in self._forwards.urls or self.settings.network == "host":
            return self._forwards.urls.get(url, url)
        for name in ("localhost", "127.0.0.1", "0.0.0.0"):  # noqa: S104 - replaced, never bound
            url = url.replace(f"://{name}", "://host.docker.internal", 1)
        return url

    async def _settle(self) -> None:
        """Run a command as root that finds out which shell exists and opens the scratch folders to every user."""
        scratch: list[str] = []
        for volume in volumes_of(self.spec):
            if not volume.host_path:
                scratch.append(volume.container_path)
        script = 'if [ $# -gt 0 ]; then chmod 1777 "$@" || exit 1; fi; command -v bash || true'
        argv = ["sh", "-c", script, "sh", *scratch]
        output: list[bytes] = []
        exit_state = await self._run(
            BackendCommand(argv, timeout=60, cwd="/", env={}, user="0"),
            lambda _stream, data: output.append(data),
        )
        text = b"".join(output).decode("utf-8", "replace").strip()
        if exit_state.code != 0 or exit_state.timed_out:
            raise SandboxError(
                f"the container of {self.spec.image} cannot run a shell: {text[-300:]}"
            )
        self._shell = "bash" if text.endswith("bash") else "sh"

    async def _let_in(self, url: str) -> str:
        """Make a URL of the host reachable inside, and return its address there.

        Raises:
            SandboxError: The network setting does not allow it.
        """
        network = self.settings.network
        if network == "host":
            return url
        if self.api.socket and os.geteuid() == 0:
            # A socket on the container's own loopback, served from this process, works without any network.
            container = await self._inspect()
            listen = partial(asyncio.to_thread, listen_in, container["State"]["Pid"])
            return await self._forwards.add(url, listen)
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
        exit_state = await super()._run(job, emit)
        if job.private and exit_state.code >= _SIGNALLED:
            self.is_clean = False
        if self.over_disk:
            emit("stderr", f"\n{self._broken}\n".encode())
        return exit_state

    async def _launch(self, command: Command) -> str:
        """Run a command as an exec of the engine, and return the id of the exec."""
        job = command.job
        env = {**job.env, "NEL_EXEC": command.token}
        request: dict[str, Any] = {
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Cmd": command.argv,
            "WorkingDir": "/",
            "Env": [f"{name}={value}" for name, value in env.items()],
        }
        if job.user:
            request["User"] = job.user
        exec_id = await self._create_exec(request)
        async with (
            asyncio.timeout(max(0.01, command.seconds_left)),
            self.api.attach(exec_id) as (reader, writer),
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
        return exec_id

    async def _create_exec(self, request: dict[str, Any]) -> str:
        """Create an exec in the container: its id."""
        try:
            answer = await self.api.call("POST", f"/containers/{self._id}/exec", body=request)
        except SandboxError:
            # nel may have ended the container after it accepted the command.
            self._check_usable()
            raise
        return str(answer["Id"])

    def _finished(self, report: WrapperReport, command: Command) -> None:
        if report.left_behind == 0:
            return
        if command.job.private:
            self.is_clean = False
        if self._only_main_runs():
            # A process changed its mark to outlive its command; no other command runs that the kill could hit.
            self._kill_later(command.token)

    async def _lost(self, launched: str, token: str) -> Exit:
        """Find out why a command ended without a report: it killed its wrapper, or the container ended."""
        # The wrapper could not report: the command killed it, or the container is gone.
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
        # The wrapper itself ends with 0, so a 0 here does not come from the command: its report was suppressed.
        return Exit(int(state["ExitCode"]) or SIGKILL)

    async def _watch_disk(self) -> None:
        """End the container when it exceeds its disk limit: most storage drivers have no quotas."""
        while not self.over_disk:
            await asyncio.sleep(_LOOK_EVERY)
            if not self._busy or self._broken:
                continue
            # The next check is due when a command has run, or while background commands do.
            self._busy = not self._only_main_runs()
            with contextlib.suppress(SandboxError):
                container = await self._inspect(size=True)
                written = container.get("SizeRw") or 0
                self.over_disk = written > self.settings.disk
        await self._end(
            f"the sandbox wrote more than its disk limit of {self.settings.disk} bytes and was ended"
        )

    async def _kill(self, token: str, keep: str) -> None:
        """Kill the processes of a command; if no shell can be started for that, restart or end the container."""
        if not self._id or self._broken:
            return
        with contextlib.suppress(SandboxError, TimeoutError):
            async with asyncio.timeout(_KILL_TIMEOUT):
                if await self._kill_by_shell(token, keep):
                    return
        # Not even a shell could be started (a fork bomb holds every slot). A restart ends all processes and keeps the
        # files, unless these are in memory; it would also cut the connection to the model.
        if not self._forwards.urls and not self.settings.read_only:
            with contextlib.suppress(SandboxError):
                await self.api.call("POST", f"/containers/{self._id}/restart", t=0)
                if self._has_network:
                    await self._guard()
                self._protected_tokens.intersection_update({MAIN})
                return
        await self._end(
            "the container was ended, because a command in it could not be stopped otherwise"
        )

    async def _kill_by_shell(self, token: str, keep: str) -> bool:
        """Kill a command's processes by a shell in the container; False when that failed."""
        exec_id = await self._create_exec(
            {
                "Cmd": killer(token, keep),
                "User": "0",
                "AttachStdout": True,
                "AttachStderr": True,
            }
        )
        async with self.api.attach(exec_id) as (reader, _writer):
            async for _ in frames(reader):
                pass
        state = await self.api.call("GET", f"/exec/{exec_id}/json")
        return bool(state.get("ExitCode") == 0)


KIND: Final = Kind(DockerConfig, "nemo_evaluator.sandbox.docker_provider:DockerProvider")
