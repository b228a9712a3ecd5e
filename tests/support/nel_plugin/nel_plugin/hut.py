"""``type: hut``: a sandbox of plain processes, in which HUT says what it is made of."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from nemo_evaluator.config import SandboxBase
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.sandbox.local_provider import UnsafeSandbox


class HutSettings(SandboxBase):
    """A hut."""

    type: Literal["hut"] = "hut"
    material: Literal["straw", "sticks", "bricks"] = Field(
        "straw", description="What it is made of."
    )


class Huts:
    """The provider."""

    concurrency = 2

    def __init__(self, settings: HutSettings, run_id: str) -> None:
        self._settings, self._run = settings, run_id

    async def check(self) -> None:
        """Huts can be had everywhere."""

    async def ensure_image(self, image: str) -> None:
        """No images."""

    async def build_images(self, requests: Any) -> None:
        """No images."""

    def create(self, spec: SandboxSpec) -> Sandbox:
        """A hut."""
        spec.env["HUT"] = self._settings.material
        return UnsafeSandbox(spec, self._run)

    async def close(self) -> None:
        """Nothing is shared."""


KIND = Kind(HutSettings, Huts)
