"""``slurm``: containers on nodes of a SLURM allocation, through Pyxis."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Above0, Positive, Size
from nemo_evaluator.config.sandbox_base import ImageSandbox
from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.sandbox._backend import Job, keepalive
from nemo_evaluator.sandbox._container import ContainerSandbox
from nemo_evaluator.sandbox._entry_command import Client, call
from nemo_evaluator.sandbox._nodes import NodeSlots, Place
from nemo_evaluator.sandbox._reaper import Reaper
from nemo_evaluator.sandbox._slurm_steps import Steps, clean_up
from nemo_evaluator.sandbox._wrapper import Rest, carried
from nemo_evaluator.sandbox.base import OutsideEndpoint, VolumeMount

log = logging.getLogger(__name__)

NO_NODES: Final = "set node_pool, so that NEL_SANDBOX_NODES is set in the job"
_MAIN: Final = 'word=$1; shift; mkdir -p "$@" && cd "$1" && echo "$word" || exit 1; unset word\n'
# Pyxis puts the job's number into the name where names belong to jobs, and does not where they belong to users.
_REMOVE: Final = 'enroot remove -f "pyxis_$1" || enroot remove -f "pyxis_${SLURM_JOB_ID}_$1"'


class SlurmConfig(ImageSandbox):
    """A container on a SLURM node, through Pyxis."""

    type: Literal["slurm"] = "slurm"
    memory: Size = Field("4g", description="Memory limit.")
    cpus: Above0 = Field(2.0, description="CPU limit.")
    node_pool: str | None = Field(None, description="Node pool of the cluster.")
    slots_per_node: Positive = Field(4, description="Sandboxes per node.")


@dataclass(eq=False)
class SlurmSandbox(ContainerSandbox):
    """A named Pyxis container that a step of its own keeps alive; every command is a step that joins it.

    The name is new for every sandbox: Pyxis takes an existing name for the container itself and would hand one
    problem the files of another. A command's step ends with all that the command started, so nothing is searched for
    among the processes of the node, which containers share.
    """

    memory: int = 4 * 2**30
    cpus: float = 2.0
    slots: NodeSlots | None = None
    reaper: Reaper | None = None
    _place: Place | None = field(default=None, init=False)

    async def start(self, *, outside_endpoints: Sequence[OutsideEndpoint] = ()) -> None:
        """Start the holding step and wait until the container answers."""
        if self.started:
            return
        if self.slots is None:
            raise SandboxError("no nodes for sandboxes", hint=NO_NODES)
        self._place = await self.slots.take()
        self._steps = Steps()
        for one in outside_endpoints:
            self.endpoints |= one.inside(self.resolve_outside_endpoint(one.url))
        try:
            if self.reaper is not None:
                await self.reaper.watch_command(self.name, clean_up(self.name, self._removal(self._place)))
            await self._hold()
            self.started = True
            await self._prepare_files()
        except BaseException:
            with contextlib.suppress(SandboxError):
                await self.stop()
            raise

    async def stop(self) -> None:
        """End the container's steps, remove its files and give the slot back."""
        was, self.started = self.started, False
        place, self._place = self._place, None
        if place is None:
            return
        steps, self._steps = self._steps, None
        try:
            if steps is not None and steps.holding:
                await steps.close()
                await call(Client(self._removal(place), dict(os.environ)), timeout=60)
        except SandboxError as error:
            # One that did not start may have left nothing to remove.
            if was:
                log.warning("a container on node %s was not removed: %s", place.node, error)
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
        return self._step([], argv, env)

    def _step(self, flags: list[str], argv: list[str], env: Mapping[str, str]) -> Client:
        assert self._place is not None
        # Names stand on the command line, values only in the environment of srun.
        argv, variables = carried(argv, env)
        command = [*self._place.step(self.name), f"--export={','.join(variables) or 'NONE'}"]
        # Every step has a limit of its own: that of the holding step would not bind the commands.
        command += [f"--mem={self.memory // 2**20}M", f"--cpus-per-task={max(1, round(self.cpus))}"]
        command += [f"--container-name={self.name}", *flags, *argv]
        return Client(command, {**os.environ, **variables})

    def _rest(self, job: Job) -> Rest:
        return "hold" if job.background else "leave"

    def _kill_later(self, token: str) -> asyncio.Task[None]:
        steps = self._steps

        async def settle() -> None:
            if steps is not None:
                with contextlib.suppress(SandboxError):
                    await steps.settle()

        self._killing = asyncio.ensure_future(settle())
        return self._killing

    def _volumes(self) -> list[VolumeMount]:
        mounts = [one if isinstance(one, VolumeMount) else VolumeMount(**one) for one in self.spec.volumes]
        return [mount for mount in mounts if not mount.is_efs]

    def _mounts(self) -> list[str]:
        text = ",".join(
            f"{mount.host_path}:{mount.container_path}:{'ro' if mount.readonly else 'rw'}"
            for mount in self._volumes()
            if mount.host_path
        )
        return [f"--container-mounts={text}"] if text else []

    def _removal(self, place: Place) -> list[str]:
        return [*place.step(self.name), "--export=PATH", "/bin/sh", "-c", _REMOVE, "sh", self.name]

    async def _hold(self) -> None:
        ready = f"nel-ready-{secrets.token_hex(4)}"
        flags = [f"--container-image={self.spec.image}", "--no-container-mount-home", "--container-writable"]
        # Not --container-workdir: it must be there, and in most images is not.
        folders = [self.spec.workdir, *(mount.container_path for mount in self._volumes() if not mount.host_path)]
        main = ["/bin/sh", "-c", _MAIN + keepalive(self.spec), "sh", ready, *folders]
        client = self._step([*flags, *self._mounts()], main, self._env(None))
        assert self._steps is not None
        await self._steps.hold(client, ready)


KIND: Final = Kind(SlurmConfig, "nemo_evaluator.sandbox.slurm_provider:SlurmProvider")
