"""Docker sandboxes for a run: the engine, its images, and a reaper for the day we are killed."""

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
# Less free than this, and images that we pulled are removed, the least recently used first.
_LEAST_FREE: Final = 0.1


class ImageStore:
    """What we know of an engine's images; kept in a file, since engines do not say when an image was last used."""

    def __init__(self, api: DockerApi, *, least_free: float = _LEAST_FREE) -> None:
        self._api = api
        self._least_free = least_free
        self._lock = asyncio.Lock()
        self._file = cache_folder() / "images.json"
        self._used: dict[str, float] = {}
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._used = {str(name): float(at) for name, at in read_json(self._file).items()}

    async def has(self, image: str) -> bool:
        """True when the engine has the image."""
        try:
            await self._api.call("GET", f"/images/{image}/json")
        except SandboxError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def ensure(self, image: str) -> None:
        """Pull the image unless it is there."""
        if await self.has(image):
            return
        await self.prune()
        name, colon, tag = image.partition("@") if "@" in image else image.rpartition(":")
        if colon and "/" not in tag:
            name = name
            tag = tag
        else:
            name = image
            tag = "latest"
        await self._api.stream("/images/create", timeout=_PULL, fromImage=name, tag=tag)
        await self._brought(image, f"{image} was pulled and is not there")

    async def build(self, image: str, folder: Path) -> None:
        """Build an image from a folder with a Dockerfile, unless it is there."""
        if await self.has(image):
            return
        context = io.BytesIO()
        with tarfile.open(fileobj=context, mode="w") as tar:
            await asyncio.to_thread(tar.add, folder, arcname=".")
        await self._api.stream(
            "/build", timeout=_PULL, data=context.getvalue(), t=image, rm=True, forcerm=True
        )
        await self._brought(image, f"the build of {image} ended without an image")

    async def _brought(self, image: str, otherwise: str) -> None:
        """Only what we brought is ours to remove."""
        if not await self.has(image):
            raise SandboxError(f"docker: {otherwise}")
        self._used[image] = 0.0
        self.used(image)

    def used(self, image: str) -> None:
        """Note that an image of ours is in use."""
        if image in self._used:
            self._used[image] = time.time()
            write_json(self._file, self._used)

    async def prune(self) -> list[str]:
        """Under disk pressure, remove images of ours until there is room; the engine keeps those in use."""
        removed: list[str] = []
        async with self._lock:
            root = (await self._api.call("GET", "/info")).get("DockerRootDir")
            seen = self._api.socket and root and Path(root).is_dir()
            for image in sorted(self._used, key=self._used.__getitem__) if seen else ():
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
        if image in self._folders:
            await self._images.build(image, self._folders[image])
        else:
            await self._images.ensure(image)

    async def build_images(self, requests: Sequence[ImageBuildRequest]) -> None:
        """Let the environment build what the engine lacks; a mere folder with a Dockerfile waits until it is needed."""
        for request in requests:
            self._folders |= request.folders
            missing = [spec for spec in request.specs if not await self._images.has(spec.image)]
            if missing and request.docker_build_fn is not None:
                with boundary(Cause.SANDBOX):
                    await asyncio.to_thread(request.docker_build_fn, missing)

    def create(self, spec: SandboxSpec) -> DockerSandbox:
        self._images.used(spec.image)
        settings = self._settings.of_problem(spec, self._config, online="bridge")
        return DockerSandbox(
            spec, self._run_id, settings=settings, api=self._api, reaper=self._reaper
        )

    def create_shared(self, spec: SandboxSpec) -> Sandbox:
        """A container for one program after another: its root is read-only, unless files are to be put into it."""
        sandbox = self.create(spec)
        sandbox.settings = replace(sandbox.settings, shared=not spec.files)
        return sandbox

    async def close(self) -> None:
        await super().close()
        await self._api.aclose()
