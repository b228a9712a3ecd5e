"""``apptainer``: an instance per sandbox, on this machine or on nodes of a SLURM allocation."""

import asyncio
import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import BackendCommand, Emit, Limits, keepalive
from nemo_evaluator.sandbox._bwrap import HOME
from nemo_evaluator.sandbox._clients import EntryCommand, NodeSlots, call
from nemo_evaluator.sandbox._container import ContainerSandbox
from nemo_evaluator.sandbox._wrapper import carried
from nemo_evaluator.sandbox.base import (
    Exit,
    ImageBuildRequest,
    OutsideEndpoint,
    Provider,
    Sandbox,
    volumes_of,
)
from nemo_evaluator.sandbox.jail import cgroups
from nemo_evaluator.sandbox.slurm import SlurmConfig

# These belong to the host even in a process namespace, and root may change them: only inside a user namespace is root
# not the host's root.
_KERNEL: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_OLDEST: Final = (1, 1)
_BUILD: Final = 3600.0


class ApptainerConfig(SlurmConfig):
    """An Apptainer instance."""

    type: Literal["apptainer"] = "apptainer"  # type: ignore[assignment]
    sif_cache_dir: str | None = Field(
        None, description="Folder of converted images; required with `node_pool`."
    )

    @model_validator(mode="after")
    def _shared_cache(self) -> Self:
        if self.node_pool is not None and self.sif_cache_dir is None:
            raise PydanticCustomError(
                "no_sif_cache", "sif_cache_dir is required when node_pool is set"
            )
        return self


@dataclass(eq=False)
class ApptainerSandbox(ContainerSandbox):
    """An Apptainer instance."""

    kind: ClassVar[str] = "apptainer"
    # Its init and the wrapper.
    _own_processes: ClassVar[int] = 2
    image_file: Path = field(default_factory=Path)
    _groups: list[str] = field(default_factory=list, init=False)

    async def _boot(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        """Start the instance, in a step of its own if there are nodes."""
        self.base_env = {"HOME": HOME, "LANG": "C.UTF-8"}
        argv = self._start_argv()
        if self.place is None:
            await call(EntryCommand(argv), timeout=300)
        else:
            # An instance ends with the step that started it.
            hold = ["/bin/sh", "-c", '"$@" && echo nel-ready && exec sleep 2147483647', "sh", *argv]
            await self.place.hold(EntryCommand([*self._step(), *hold]), "nel-ready")
        self._groups = await self._memory_groups()
        await self._reach(outside_endpoints)

    def _start_argv(self) -> list[str]:
        """The command that starts the instance."""
        limits = self.settings
        argv = ["apptainer", "instance", "start", "--containall", "--writable-tmpfs", "--no-home"]
        argv += ["--no-privs", "--memory", str(limits.memory), "--cpus", f"{limits.cpus:g}"]
        if os.geteuid() == 0:
            argv += ["--no-mount", "sys"]
            for path in _KERNEL:
                if Path(path).exists():
                    argv += ["--bind", f"{path}:{path}:ro"]
        for volume in volumes_of(self.spec):
            if volume.host_path:
                mode = "ro" if volume.readonly else "rw"
                argv += ["--bind", f"{volume.host_path}:{volume.container_path}:{mode}"]
            else:
                argv += ["--scratch", volume.container_path]
        return [*argv, "--scratch", self.spec.workdir, str(self.image_file), self.name]

    async def _prepare(self) -> None:
        await self.exec(["mkdir", "-p", HOME], timeout=30, cwd="/")
        if self.spec.entrypoint is not None:
            await self.exec(
                f"{keepalive(self.spec)} >/dev/null 2>&1 &", background=True, timeout=30
            )
        await super()._prepare()

    def _removal(self) -> EntryCommand:
        return EntryCommand(
            [*self._step(), "apptainer", "instance", "stop", "--signal", "KILL", self.name]
        )

    def resolve_outside_endpoint(self, url: str) -> str:
        """Instances share the host's network; on another node the evaluator is reached by its name."""
        if self.slots is not None:
            return self.slots.from_node(url)
        return url

    def _client(self, argv: list[str], env: dict[str, str], user: str | None) -> EntryCommand:
        self._check_user(user)
        # Without --no-eval a shell would expand the values.
        command = [*self._step(), "apptainer", "exec", "--cleanenv", "--no-eval", "--pwd", "/"]
        argv, variables = carried(argv, env)
        inner_variables = {f"APPTAINERENV_{name}": value for name, value in variables.items()}
        # Values travel in the environment, never on the command line.
        return EntryCommand(
            [*command, f"instance://{self.name}", *argv], {**os.environ, **inner_variables}
        )

    def _step(self) -> list[str]:
        if self.place is not None:
            return self.place.step(self.name)
        return []

    async def _run(self, job: BackendCommand, emit: Emit) -> Exit:
        kills_before = cgroups.oom_kills(self._groups)
        exit_state = await super()._run(job, emit)
        if exit_state.code == 0 or exit_state.timed_out:
            return exit_state
        if cgroups.oom_kills(self._groups) > kills_before:
            return replace(exit_state, out_of_memory=True)
        return exit_state

    async def _memory_groups(self) -> list[str]:
        """The control groups in which the kernel counts OOM kills of the instance; they are not visible inside."""
        if self.place is not None:
            return []
        listed = await call(EntryCommand(["apptainer", "instance", "list", "--json", self.name]))
        pid = json.loads(listed)["instances"][0]["pid"]
        roots = {"memory": "/sys/fs/cgroup/memory", "": "/sys/fs/cgroup"}
        groups: list[str] = []
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _number, controller, path = line.split(":", 2)
            if controller in roots:
                groups.append(roots[controller] + path)
        return groups


class ApptainerProvider(Provider):
    """Makes Apptainer sandboxes: converts images once, and spreads instances over nodes where there are some."""

    def __init__(self, config: ApptainerConfig, run_id: str) -> None:
        super().__init__(config, run_id)
        self._slots = NodeSlots.from_environment(config.slots_per_node)
        default = os.environ.get("APPTAINER_CACHEDIR") or str(
            Path(tempfile.gettempdir()) / "nel-sif"
        )
        self._cache = Path(config.sif_cache_dir or default)

    async def check(self) -> None:
        """Check the version: instances work as nel needs them from 1.1 on."""
        if shutil.which("apptainer") is None:
            raise SandboxError(
                "apptainer is not installed", hint="install Apptainer 1.1 or later, or use docker"
            )
        text = await call(EntryCommand(["apptainer", "--version"]), timeout=30)
        version = re.search(r"(\d+)\.(\d+)", text)
        if version is None or (int(version[1]), int(version[2])) < _OLDEST:
            raise SandboxError(
                f"apptainer {text.strip()} is too old", hint="install Apptainer 1.1 or later"
            )
        if self._slots is not None:
            self._slots.require_job()

    async def ensure_image(self, image: str) -> None:
        """Convert an image unless its file exists; a file is either complete or absent."""
        target = self._file(image)
        if target.exists():
            return
        if target == Path(image):
            raise SandboxError(f"image {image} does not exist")
        source = image if "://" in image else f"docker://{image}"
        await self._convert(source, target)

    async def build_images(self, requests: Sequence[ImageBuildRequest]) -> None:
        """Build with docker, then convert."""
        for request in requests:
            missing = [spec for spec in request.specs if not self._file(spec.image).exists()]
            if missing and request.docker_build_fn is not None:
                await asyncio.to_thread(request.docker_build_fn, missing)
                for spec in missing:
                    await self._convert(f"docker-daemon://{spec.image}", self._file(spec.image))

    def _file(self, image: str) -> Path:
        """The file of a converted image; a path to a .sif file or a folder is used as it is."""
        if image.endswith(".sif") or image.startswith(("/", "./")):
            return Path(image)
        return self._cache / f"{image.replace('/', '_').replace(':', '__')}.sif"

    async def _convert(self, source: str, target: Path) -> None:
        await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
        part = target.with_suffix(f".part-{os.getpid()}")
        try:
            await call(EntryCommand(["apptainer", "build", str(part), source]), timeout=_BUILD)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)

    def create(self, spec: SandboxSpec) -> Sandbox:
        """Create a sandbox from the converted image, without starting it."""
        limits = Limits.of(self._config)
        file = self._file(spec.image)
        return ApptainerSandbox(
            spec,
            self._run_id,
            settings=limits,
            image_file=file,
            slots=self._slots,
            reaper=self._reaper,
        )


KIND: Final = Kind(ApptainerConfig, ApptainerProvider)
