"""The kinds of sandbox by their YAML word. Third parties add theirs as entry points ``nemo_evaluator.sandboxes``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from nemo_evaluator.core.registry import Registry
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox.base import Sandbox


class Provider(Protocol):
    """Makes the sandboxes of one kind for one run, and keeps what they share."""

    concurrency: int

    async def check(self) -> None:
        """Raise SandboxError, with what to install, when sandboxes of this kind cannot be had here."""
        ...

    async def ensure_image(self, image: str) -> None:
        """Have an image ready."""
        ...

    async def build_images(self, requests: Sequence[Any]) -> None:
        """Build what an environment asks for."""
        ...

    def create(self, spec: SandboxSpec) -> Sandbox:
        """A sandbox, not yet started."""
        ...

    async def close(self) -> None:
        """Let go of what the sandboxes shared."""
        ...


class ProviderFactory(Protocol):
    """What the registry holds: called with the config of the sandbox and the run's id."""

    def __call__(self, config: Any, run_id: str) -> Provider:
        """A provider."""
        ...


PROVIDERS: Final[Registry[ProviderFactory]] = Registry("sandbox type", group="nemo_evaluator.sandboxes")
for _kind, _target in {
    "local": "nemo_evaluator.sandbox.local_provider:LocalProvider",
    "docker": "nemo_evaluator.sandbox.docker_provider:DockerProvider",
    "apptainer": "nemo_evaluator.sandbox.apptainer:ApptainerProvider",
    "slurm": "nemo_evaluator.sandbox.slurm_provider:SlurmProvider",
    "ecs_fargate": "nemo_evaluator.sandbox.ecs_provider:EcsProvider",
    "custom": "nemo_evaluator.sandbox.custom:CustomProvider",
}.items():
    PROVIDERS.add(_kind, _target)
