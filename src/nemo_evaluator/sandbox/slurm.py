"""``slurm``: containers on nodes of a SLURM allocation, through Pyxis."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.config.sandboxes import SlurmSandbox as SlurmConfig
from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import keepalive
from nemo_evaluator.sandbox._container import Client, ContainerSandbox, call, start_client
from nemo_evaluator.sandbox._nodes import NodeSlots, Place
from nemo_evaluator.sandbox._reaper import Reaper
from nemo_evaluator.sandbox._sizes import parse_size
from nemo_evaluator.sandbox.base import OutsideEndpoint, Sandbox, VolumeMount

_START: Final = 600.0
_NODES: Final = "set node_pool, so that NEL_SANDBOX_NODES is set in the job"


@dataclass(eq=False)
class SlurmSandbox(ContainerSandbox):
    """A named Pyxis container that a step of its own keeps alive.

    The name is new for every sandbox: Pyxis takes an existing name for the container itself and would hand one
    problem the files of another.
    """

    memory: int = 4 * 2**30
    cpus: float = 2.0
    slots: NodeSlots | None = None
    reaper: Reaper | None = None
    _place: Place | None = field(default=None, init=False)
    _holder: subprocess.Popen[bytes] | None = field(default=None, init=False)

    async def start(self, *, outside_endpoints: Sequence[OutsideEndpoint] = ()) -> None:
        """Start the holding step and wait until the container answers."""
        if self.started:
            return
        if self.slots is None:
            raise SandboxError(
                "no nodes for sandboxes", hint="set node_pool, so that NEL_SANDBOX_NODES is set in the job"
            )
        self._place = await self.slots.take()
        self.endpoints = {one.env_var: self.resolve_outside_endpoint(one.url) for one in outside_endpoints}
        ready = f"nel-ready-{secrets.token_hex(4)}"
        argv = [*self._place.step(), f"--mem={self.memory // 2**20}M", f"--cpus-per-task={max(1, round(self.cpus))}"]
        argv += [f"--container-image={self.spec.image}", f"--container-name={self.name}", "--no-container-mount-home"]
        argv += [f"--container-workdir={self.spec.workdir}", "--container-writable", *self._mounts()]
        argv += ["--export=NONE", "env", "NEL_EXEC=main", "/bin/sh", "-c", f"echo {ready}; {keepalive(self.spec)}"]
        try:
            if self.reaper is not None:
                await self.reaper.watch_command(self.name, self._removal())
            self._holder = await self._hold(argv, ready)
            self.started = True
            await self._prepare_files()
        except BaseException:
            with contextlib.suppress(SandboxError):
                await self.stop()
            raise

    async def stop(self) -> None:
        """End the holding step, remove the container's files and give the slot back."""
        self.started = False
        holder, self._holder = self._holder, None
        place, self._place = self._place, None
        if place is None:
            return
        try:
            if holder is not None and holder.poll() is None:
                # Twice: srun takes the first interrupt for a question.
                holder.terminate()
                await asyncio.to_thread(_end, holder)
            with contextlib.suppress(SandboxError):
                await call(Client(self._removal(place), dict(os.environ)), timeout=60)
        finally:
            if self.reaper is not None:
                await self.reaper.forget(self.name)
            if self.slots is not None:
                self.slots.give(place)

    def resolve_outside_endpoint(self, url: str) -> str:
        """From a node the evaluator is reached by its name."""
        return NodeSlots.from_node(url)

    def _client(self, argv: list[str], env: dict[str, str], user: str | None) -> Client:
        if user is not None:
            raise SandboxError(f"a Pyxis container has no user {user!r}", hint="leave user out, or use docker")
        assert self._place is not None
        # Names stand on the command line, values only in the environment of srun.
        command = [*self._place.step(), f"--container-name={self.name}", f"--export={','.join(env) or 'NONE'}", *argv]
        return Client(command, {**os.environ, **env})

    def _mounts(self) -> list[str]:
        mounts = [one if isinstance(one, VolumeMount) else VolumeMount(**one) for one in self.spec.volumes]
        text = ",".join(
            f"{mount.host_path}:{mount.container_path}:{'ro' if mount.readonly else 'rw'}"
            for mount in mounts
            if mount.host_path and not mount.is_efs
        )
        return [f"--container-mounts={text}"] if text else []

    def _removal(self, place: Place | None = None) -> list[str]:
        place = place or self._place
        assert place is not None
        return [*place.step(), "enroot", "remove", "-f", f"pyxis_{self.name}"]

    async def _hold(self, argv: list[str], ready: str) -> subprocess.Popen[bytes]:
        read, write = os.pipe()
        with os.fdopen(read, "rb", buffering=0) as output, Path(os.devnull).open("rb") as nothing:
            client = Client(argv, dict(os.environ))
            try:
                holder = await asyncio.to_thread(start_client, client, [nothing.fileno(), write, write])
            finally:
                os.close(write)
            try:
                async with asyncio.timeout(_START):
                    said = await asyncio.to_thread(_until, output, ready.encode())
            except TimeoutError as error:
                holder.kill()
                raise SandboxError(f"the container of {self.spec.image} did not start in {_START:g} s") from error
        if ready.encode() not in said:
            await asyncio.to_thread(_end, holder)
            text = said.decode("utf-8", "replace").strip()[-500:]
            raise SandboxError(f"the container of {self.spec.image} did not start: {text}")
        await self._make_scratch()
        return holder

    async def _make_scratch(self) -> None:
        mounts = [one if isinstance(one, VolumeMount) else VolumeMount(**one) for one in self.spec.volumes]
        folders = [self.spec.workdir, *(mount.container_path for mount in mounts if not mount.host_path)]
        client = self._client(["mkdir", "-p", *folders], {}, None)
        await call(client, timeout=120)


class SlurmProvider:
    """Makes Pyxis sandboxes."""

    def __init__(self, config: SlurmConfig, run_id: str) -> None:
        self._run_id = run_id
        self._config = config
        self._reaper = Reaper()
        self._slots = NodeSlots.from_environment(config.slots_per_node)
        self.concurrency = min(config.concurrency, self._slots.size) if self._slots else config.concurrency

    async def check(self) -> None:
        """srun must be there, know Pyxis, and have nodes."""
        if shutil.which("srun") is None:
            raise SandboxError(
                "srun is not installed", hint="slurm sandboxes run inside a SLURM job; use docker or local"
            )
        text = await call(Client(["srun", "--help"], dict(os.environ)), timeout=30)
        if "--container-image" not in text:
            raise SandboxError("this SLURM has no Pyxis", hint="install the Pyxis plugin, or use apptainer")
        if self._slots is None:
            raise SandboxError(
                "no nodes for sandboxes", hint="set node_pool, so that NEL_SANDBOX_NODES is set in the job"
            )

    async def ensure_image(self, image: str) -> None:
        """Nothing ahead of time: Pyxis imports an image when a container starts, and keeps it."""

    async def build_images(self, requests: Sequence[Any]) -> None:
        """Refuse: nodes pull from a registry."""
        if requests:
            raise SandboxError("this benchmark builds images, which nodes cannot see", hint="push them, then name them")

    def create(self, spec: SandboxSpec) -> Sandbox:
        """A container to be."""
        if not spec.image:
            raise SandboxError("a slurm sandbox needs an image", hint="set image on the sandbox")
        memory = parse_size(self._config.memory)
        return SlurmSandbox(
            spec, self._run_id, memory=memory, cpus=self._config.cpus, slots=self._slots, reaper=self._reaper
        )

    async def close(self) -> None:
        """End the reaper."""
        await self._reaper.close()


def _until(output: Any, word: bytes) -> bytes:
    said = b""
    while word not in said and (part := output.read(4096)):
        said += part
    return said


def _end(holder: subprocess.Popen[bytes]) -> None:
    try:
        holder.wait(10)
    except subprocess.TimeoutExpired:
        holder.kill()
        holder.wait()
