"""``container``: a harness container that owns its whole evaluation loop."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import EnvMap, ServiceName
from nemo_evaluator.config.solver_base import SolverBase
from nemo_evaluator.core.kinds import NOT_YET, Kind


class ContainerSolverConfig(SolverBase):
    """A harness container that owns its whole evaluation loop."""

    type: Literal["container"] = "container"
    owns_loop: ClassVar[bool] = True
    service: ServiceName = Field(description="The model.")
    uri: str | None = Field(None, description="`container://image#task`; null: the name of the benchmark.")
    endpoint_type: str | None = Field(None, description="Endpoint type of the harness; null: by the protocol.")
    adapter_config: dict[str, Any] | None = Field(None, description="Adapter settings inside the container.")
    env_vars: EnvMap = Field(default_factory=dict, description="Environment of the container.")
    mounts: dict[str, str] = Field(default_factory=dict, description="Mounts, host path to container path.")


KIND: Final = Kind(ContainerSolverConfig, missing=NOT_YET)
