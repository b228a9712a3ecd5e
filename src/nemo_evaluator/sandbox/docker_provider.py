"""Docker sandboxes for a run: the engine, its images, and a reaper in case nel is killed."""

import asyncio
import contextlib
import io
import logging
import shutil
import tarfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import SandboxError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.files import cache_folder, read_json, write_json
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox._docker_api import DockerApi
from nemo_evaluator.sandbox.base import ImageBuildRequest, Provider, Sandbox
from nemo_evaluator.sandbox.docker import DockerConfig, DockerSandbox

log = logging.getLogger(__name__)
_PULL: Final = 3600.0
# With a smaller share of free disk space, nel removes images that it pulled, the least recently used first.
_LEAST_FREE: Final = 0.1


class ImageStore:
    """The images of an engine that nel pulled or built, with the time of their last use, which engines do not record.

    Args:
        api: The engine.
        least_free: The share of free disk space below which images are removed.
    """

    def __init__(self, api: DockerApi, *, least_free: float = _LEAST_FREE) -> None:
        self._api = api
        self._least_free = least_free
        self._lock = asyncio.Lock()
        self._file = cache_folder() / "images.json"
        self._used: dict[str, float] = {}
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._used = {
                str(name): float(last_use) for name, last_use in read_json(self._file).items()
            }

    async def has(self, image: str) -> bool:
        """Whether the engine has the image."""
        try:
            await self._api.call("GET", f"/images/{image}/json")
        except SandboxError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def ensure(self, image: str) -> None:
        """Pull the image unless the engine has it.

        Raises:
            SandboxError: That failed.
        """
        if await self.has(image):
            return
        await self.prune()
        name, tag = _name_and_tag(image)
        await self._api.stream("/images/create", timeout=_PULL, fromImage=name, tag=tag)
        await self._note_new(image, f"{image} was pulled, but the engine does not have it")

    async def build(self, image: str, folder: Path) -> None:
        """Build an image from a folder with a Dockerfile, unless the engine has it.

        Raises:
            SandboxError: That failed.
        """
        if await self.has(image):
            return
        context = io.BytesIO()
        with tarfile.open(fileobj=context, mode="w") as tar:
            await asyncio.to_thread(tar.add, folder, arcname=".")
        await self._api.stream(
            "/build", timeout=_PULL, data=context.getvalue(), t=image, rm=True, forcerm=True
        )
        await self._note_new(image, f"the build of {image} ended without an image")

    async def _note_new(self, image: str, problem: str) -> None:
        """Note an image that nel pulled or built, and may remove later.

        Raises:
            SandboxError: The engine does not have it.
        """
        if not await self.has(image):
            raise SandboxError(f"docker: {problem}")
        self._used[image] = 0.0
        self.used(image)

    def used(self, image: str) -> None:
        """Note the time of use of an image that nel pulled or built."""
        if image in self._used:
            self._used[image] = time.time()
            write_json(self._file, self._used)

    async def prune(self) -> list[str]:
        """Remove images that nel pulled or built until enough disk space is free; the engine keeps those in use.

        Returns:
            The removed images.
        """
        removed: list[str] = []
        async with self._lock:
            info = await self._api.call("GET", "/info")
            root = info.get("DockerRootDir")
            # The disk of an engine on another machine cannot be checked.
            if not self._api.socket or not root or not Path(root).is_dir():
                return removed
            for image in sorted(self._used, key=self._used.__getitem__):
                usage = shutil.disk_usage(root)
                if usage.free >= usage.total * self._least_free:
                    break
                try:
                    await self._api.call("DELETE", f"/images/{image}", ok=(404,))
                except SandboxError as error:
                    log.info("image %s stays: %s", image, error)
                    continue
                del self._used[image]
                removed.append(image)
            if removed:
                write_json(self._file, self._used)
        return removed


def _name_and_tag(image: str) -> tuple[str, str]:
    """The name of an image, and its tag or digest; ``latest`` by default."""
    if "@" in image:
        name, _, tag = image.partition("@")
    else:
        name, _, tag = image.rpartition(":")
    # A colon before a slash belongs to the port of a registry.
    if not name or "/" in tag:
        return image, "latest"
    return name, tag


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
        """Check that the engine answers and has the runtime.

        Raises:
            SandboxError: It does not answer, or lacks the runtime.
        """
        info = await self._api.call("GET", "/info", timeout=20)
        runtimes = info.get("Runtimes") or {}
        runtime = self._settings.runtime
        if runtime is not None and runtime not in runtimes:
            raise SandboxError(
                f"the docker engine has no runtime {runtime!r} (it has {', '.join(sorted(runtimes))})",
                hint="add it to the engine's daemon.json; see gvisor.dev for runsc",
            )

    async def ensure_image(self, image: str) -> None:
        """Pull an image, or build it if the environment brings its Dockerfile, unless the engine has it."""
        if image in self._folders:
            await self._images.build(image, self._folders[image])
        else:
            await self._images.ensure(image)

    async def build_images(self, requests: Sequence[ImageBuildRequest]) -> None:
        """Let the environment build missing images; nel builds those from a folder when a problem first needs them."""
        for request in requests:
            self._folders |= request.folders
            missing = [spec for spec in request.specs if not await self._images.has(spec.image)]
            if missing and request.docker_build_fn is not None:
                with boundary(Cause.SANDBOX):
                    await asyncio.to_thread(request.docker_build_fn, missing)

    def create(self, spec: SandboxSpec) -> DockerSandbox:
        """Create a container for a problem, without starting it."""
        self._images.used(spec.image)
        settings = self._settings.of_problem(spec, self._config, online="bridge")
        return DockerSandbox(
            spec, self._run_id, settings=settings, api=self._api, reaper=self._reaper
        )

    def create_shared(self, spec: SandboxSpec) -> Sandbox:
        """Create a container for one program after another; its root is read-only unless files are put into it."""
        sandbox = self.create(spec)
        sandbox.settings = replace(sandbox.settings, shared=not spec.files)
        return sandbox

    async def close(self) -> None:
        """Release the shared resources, and close the connections to the engine."""
        await super().close()
        await self._api.aclose()
