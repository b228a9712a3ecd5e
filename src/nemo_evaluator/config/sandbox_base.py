"""The base classes of sandbox settings. Each kind declares its settings in its own file under ``sandbox/``."""

import warnings
from typing import Annotated, Any, Self, TypeAlias

from pydantic import Field, model_validator

from nemo_evaluator.config.fields import Above0, Argument, EnvMap, Model, Positive, ShellText
from nemo_evaluator.config.groups import SANDBOXES
from nemo_evaluator.config.kinds import KindOf

# Limits and placement, on which an answer does not depend.
_OPERATIONAL = {
    "concurrency",
    "timeout",
    "verify_timeout",
    "slots_per_node",
    "node_pool",
    "sif_cache_dir",
}


class SandboxBase(Model):
    """What the sandbox kinds share."""

    type: str
    capture_cmd: ShellText | None = Field(
        None, description="Command that captures the agent's work for the verifier."
    )
    verify_timeout: Above0 = Field(600.0, description="Timeout of verification, in seconds.")
    stateful: bool = Field(
        False, description="Verify in the sandbox in which the problem was solved."
    )
    scrub_git_history: bool = Field(
        False, description="Remove git history that could hold the solution."
    )

    def identity(self) -> dict[str, Any]:
        """What may change what an agent does inside, free of limits that only slow it down."""
        return self.model_dump(mode="json", exclude_none=True, exclude=_OPERATIONAL)

    @model_validator(mode="after")
    def _ignored_when_stateful(self) -> Self:
        if self.stateful:
            for name in ("capture_cmd", "scrub_git_history"):
                if getattr(self, name):
                    warnings.warn(
                        f"{name} has no effect on a stateful sandbox", UserWarning, stacklevel=2
                    )
        return self


class ImageSandbox(SandboxBase):
    """A sandbox made from a container image."""

    image: Argument | None = Field(
        None, description="Image; null: the image that the problem names."
    )
    image_template: Argument | None = Field(
        None, description="Image name with `{fields}` of the problem's metadata."
    )
    timeout: Above0 = Field(1800.0, description="Maximum lifetime of one sandbox, in seconds.")
    concurrency: Positive = Field(4, description="Maximum concurrent sandboxes.")
    container_env: EnvMap = Field(
        default_factory=dict, description="Environment variables in the sandbox."
    )


SandboxConfig: TypeAlias = Annotated[SandboxBase, KindOf(SANDBOXES)]
