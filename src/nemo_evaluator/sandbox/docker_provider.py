"""Docker sandboxes for a run: the engine, its images, and a reaper for the day we are killed."""

import asyncio
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nemo_evaluator.core.errors import SandboxError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.processes import start_time
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox._docker_api import DockerApi
from nemo_evaluator.sandbox._docker_images import ImageStore
from nemo_evaluator.sandbox.base import ImageBuildRequest, Provider, Sandbox
from nemo_evaluator.sandbox.docker import DockerConfig, DockerSandbox


def owner_label() -> str:
    """Which process a container belongs to: host, process id, and when that process began."""
    return f"{socket.gethostname()}:{os.getpid()}:{start_time(os.getpid())}"


class DockerProvider(Provider):
    """Makes docker sandboxes."""

    def __init__(self, config: DockerConfig, run_id: str) -> None:
        super().__init__(config, run_id)
        self._api = DockerApi()
        self._images = ImageStore(self._api)
        self._settings = Limits.of(config)
        # Images that are built when they are first needed, by tag.
        self._folders: dict[str, Path] = {}

    async def check(self) -> None:
        """Ask the engine whether it is there, and whether it has the runtime."""
        info = await self._api.call("GET", "/info", timeout=20)
        runtimes = info.get("Runtimes") or {}
        wanted = self._settings.runtime
        if wanted is not None and wanted not in runtimes:
            raise SandboxError(
                f"the docker engine has no runtime {wanted!r} (it has {', '.join(sorted(runtimes))})",
                hint="add it to the engine's daemon.json; see gvisor.dev for runsc",
            )

    async def ensure_image(self, image: str) -> None:
        """Build or pull an image unless it is there."""
        if image in self._folders:
            await self._images.build(image, self._folders[image])
        else:
            await self._images.ensure(image)

    async def build_images(self, requests: Sequence[ImageBuildRequest]) -> None:
        """Let the environment build the images that the engine does not have; those that are only a folder with a
        Dockerfile are built when they are needed."""
        for request in requests:
            self._folders |= request.folders
            missing = [spec for spec in request.specs if not await self._images.has(spec.image)]
            if missing and request.docker_build_fn is not None:
                with boundary(Cause.SANDBOX):
                    await asyncio.to_thread(request.docker_build_fn, missing)

    def create(self, spec: SandboxSpec) -> Sandbox:
        """A container to be."""
        return self._create(spec, self._settings)

    def create_shared(self, spec: SandboxSpec) -> Sandbox:
        """A container for one program after another: its root is read-only, unless files are to be put into it."""
        return self._create(spec, replace(self._settings, shared=not spec.files))

    def _create(self, spec: SandboxSpec, settings: Limits) -> Sandbox:
        self._images.used(spec.image)
        settings = settings.of_problem(spec, self._config, online="bridge")
        return DockerSandbox(
            spec,
            self._run_id,
            settings=settings,
            api=self._api,
            reaper=self._reaper,
            labels={"nel.owner": owner_label()},
        )

    async def close(self) -> None:
        """End the reaper and the connections."""
        await super().close()
        await self._api.close()
