"""``slurm``: containers on nodes of a SLURM allocation, through Pyxis."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Above0, Line, Positive, Size
from nemo_evaluator.config.sandbox_base import ImageSandbox
from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import BackendCommand, Limits, keepalive
from nemo_evaluator.sandbox._clients import EntryCommand, NodeSlots, call
from nemo_evaluator.sandbox._container import ContainerSandbox
from nemo_evaluator.sandbox._wrapper import Leftovers, carried
from nemo_evaluator.sandbox.base import OutsideEndpoint, Provider, Sandbox, volumes_of

_NO_NODES: Final = "set node_pool, so that NEL_SANDBOX_NODES is set in the job"
_MAIN: Final = 'word=$1; shift; mkdir -p "$@" && cd "$1" && echo "$word" || exit 1; unset word\n'
# Pyxis puts the job's number into the name where names belong to jobs, and does not where they belong to users.
_REMOVE: Final = 'enroot remove -f "pyxis_$1" || enroot remove -f "pyxis_${SLURM_JOB_ID}_$1"'


class SlurmConfig(ImageSandbox):
    """A container on a SLURM node, through Pyxis."""

    type: Literal["slurm"] = "slurm"
    memory: Size = Field("4g", description="Memory limit.")
    cpus: Above0 = Field(2.0, description="CPU limit.")
    node_pool: Line | None = Field(None, description="Node pool of the cluster.")
    slots_per_node: Positive = Field(4, description="Sandboxes per node.")


@dataclass(eq=False)
class SlurmSandbox(ContainerSandbox):
    """A named Pyxis container that a step of its own keeps alive; every command is a step that joins it.

    Every sandbox has a new name: Pyxis joins an existing container of the same name, and one problem would see the
    files of another. A command's step ends with all processes of the command, so nel does not search for them among the
    processes of the node, which containers share.
    """

    kind: ClassVar[str] = "slurm"
    _needs_image: ClassVar[bool] = True

    async def _open(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        if self.slots is None:
            raise SandboxError("no nodes for sandboxes", hint=_NO_NODES)
        await super()._open(outside_endpoints)

    async def _boot(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        """Start the step that holds the container, and wait until it is ready."""
        await self._reach(outside_endpoints)
        ready = f"nel-ready-{secrets.token_hex(4)}"
        flags = [
            f"--container-image={self.spec.image}",
            "--no-container-mount-home",
            "--container-writable",
        ]
        mounts: list[str] = []
        # Not --container-workdir: the folder must exist for it, and in most images it does not.
        folders = [self.spec.workdir]
        for volume in volumes_of(self.spec):
            if volume.host_path:
                mode = "ro" if volume.readonly else "rw"
                mounts.append(f"{volume.host_path}:{volume.container_path}:{mode}")
            else:
                folders.append(volume.container_path)
        if mounts:
            flags += [f"--container-mounts={','.join(mounts)}"]
        main = ["/bin/sh", "-c", _MAIN + keepalive(self.spec), "sh", ready, *folders]
        assert self.place is not None
        await self.place.hold(self._step(flags, main, self._env()), ready)

    def _removal(self) -> EntryCommand:
        assert self.place is not None
        remove = ["--export=PATH", "/bin/sh", "-c", _REMOVE, "sh", self.name]
        return EntryCommand([*self.place.step(self.name), *remove])

    def resolve_outside_endpoint(self, url: str) -> str:
        """Nodes reach the evaluator by its host name."""
        return NodeSlots.from_node(url)

    def _client(self, argv: list[str], env: dict[str, str], user: str | None) -> EntryCommand:
        self._check_user(user)
        return self._step([], argv, env)

    def _step(self, flags: list[str], argv: list[str], env: Mapping[str, str]) -> EntryCommand:
        """Build the command of a step that joins the container."""
        assert self.place is not None
        # Names are on the command line, values only in the environment of srun.
        argv, variables = carried(argv, env)
        command = [*self.place.step(self.name), f"--export={','.join(variables) or 'NONE'}"]
        # Every step has a limit of its own: that of the holding step would not bind the commands.
        command += [
            f"--mem={self.settings.memory // 2**20}M",
            f"--cpus-per-task={max(1, round(self.settings.cpus))}",
        ]
        command += [f"--container-name={self.name}", *flags, *argv]
        return EntryCommand(command, {**os.environ, **variables})

    def _leftovers(self, job: BackendCommand) -> Leftovers:
        return "hold" if job.background else "leave"

    async def _kill(self, token: str, keep: str) -> None:
        with contextlib.suppress(SandboxError):
            if self.place is not None:
                await self.place.settle()


class SlurmProvider(Provider):
    """Makes Pyxis sandboxes. Pyxis imports an image when a container starts, and keeps it."""

    no_builds = (
        "this benchmark builds images, which nodes cannot see",
        "push them, then name them",
    )

    def __init__(self, config: SlurmConfig, run_id: str) -> None:
        super().__init__(config, run_id)
        self._slots = NodeSlots.from_environment(config.slots_per_node)
        if self._slots is not None:
            self.concurrency = min(self.concurrency, self._slots.size)

    async def check(self) -> None:
        """Check that srun is installed, has Pyxis, and has nodes of a job."""
        if shutil.which("srun") is None:
            hint = "slurm sandboxes run inside a SLURM job; use docker or local"
            raise SandboxError("srun is not installed", hint=hint)
        text = await call(EntryCommand(["srun", "--help"]), timeout=30)
        if "--container-image" not in text:
            raise SandboxError(
                "this SLURM has no Pyxis", hint="install the Pyxis plugin, or use apptainer"
            )
        if self._slots is None:
            raise SandboxError("no nodes for sandboxes", hint=_NO_NODES)
        self._slots.require_job()

    def create(self, spec: SandboxSpec) -> Sandbox:
        """Create a sandbox, without starting it."""
        limits = Limits.of(self._config)
        return SlurmSandbox(
            spec, self._run_id, settings=limits, slots=self._slots, reaper=self._reaper
        )


KIND: Final = Kind(SlurmConfig, SlurmProvider)
