"""``harbor``: a Harbor agent inside the sandbox."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Above0, EnvMap, Name, ServiceName
from nemo_evaluator.config.solver_base import SolverBase, TimeoutStrategy
from nemo_evaluator.core.kinds import NOT_YET, Kind


class HarborSolverConfig(SolverBase):
    """A Harbor agent inside the sandbox."""

    type: Literal["harbor"] = "harbor"
    service: ServiceName = Field(description="The model.")
    agent: Name = Field(description="Name of the agent.")
    agent_kwargs: dict[str, Any] = Field(default_factory=dict, description="Settings of the agent.")
    container_env: EnvMap = Field(default_factory=dict, description="Environment of the agent.")
    run_timeout: Above0 | None = Field(None, description="Seconds for the agent.")
    cmd_timeout: Above0 | None = Field(None, description="Seconds for one command of the agent.")
    timeout_strategy: TimeoutStrategy = Field(
        "override", description="Whose limit counts: ours, the task's, or the larger."
    )
    max_agent_timeout: Above0 | None = Field(None, description="Cap on the agent's time.")
    skill: str | None = Field(None, description="Skill given to the agent.")
    skill_dir: str | None = Field(None, description="Folder of skills.")

    def needs_sandbox(self) -> str | None:
        """Agents work inside one."""
        return f"solver {self.type!r} needs a sandbox"


KIND: Final = Kind(HarborSolverConfig, missing=NOT_YET)
