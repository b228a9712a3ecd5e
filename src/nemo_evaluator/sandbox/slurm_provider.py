"""``slurm``: what the Pyxis sandboxes of one run share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._entry_command import Client, call
from nemo_evaluator.sandbox._nodes import NodeSlots
from nemo_evaluator.sandbox._reaper import Reaper
from nemo_evaluator.sandbox._sizes import parse_size
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.sandbox.slurm import NO_NODES, SlurmConfig, SlurmSandbox


class SlurmProvider:
    """Makes Pyxis sandboxes."""

    def __init__(self, config: SlurmConfig, run_id: str) -> None:
        self._run_id = run_id
        self._config = config
        self._reaper = Reaper()
        self._slots = NodeSlots.from_environment(config.slots_per_node)
        self.concurrency = min(config.concurrency, self._slots.size) if self._slots else config.concurrency

    async def check(self) -> None:
        """srun must be there, know Pyxis, and have nodes of a job."""
        if shutil.which("srun") is None:
            raise SandboxError(
                "srun is not installed", hint="slurm sandboxes run inside a SLURM job; use docker or local"
            )
        text = await call(Client(["srun", "--help"], dict(os.environ)), timeout=30)
        if "--container-image" not in text:
            raise SandboxError("this SLURM has no Pyxis", hint="install the Pyxis plugin, or use apptainer")
        if self._slots is None:
            raise SandboxError("no nodes for sandboxes", hint=NO_NODES)
        self._slots.require_job()

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
