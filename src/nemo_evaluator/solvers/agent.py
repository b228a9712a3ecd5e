"""``agent``: an agent of a framework; runs as the ``harbor`` solver."""

from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Name, ServiceName
from nemo_evaluator.config.solver_base import SolverBase
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.solvers.harbor import HarborSolver, HarborSolverConfig


class AgentSolverConfig(SolverBase):
    """An agent of a framework; runs as the `harbor` solver."""

    type: Literal["agent"] = "agent"
    in_sandbox: ClassVar[bool] = True
    service: ServiceName = Field(description="The model.")
    framework: Literal["harbor"] = Field("harbor", description="Framework of the agent.")
    agent: Name = Field(description="Name of the agent.")
    agent_kwargs: dict[str, Any] = Field(default_factory=dict, description="Settings of the agent.")


def build(config: AgentSolverConfig, _: object) -> HarborSolver:
    """Build a solver of ``type: agent``: a HarborSolver with the same settings."""
    return HarborSolver(HarborSolverConfig(**config.model_dump(exclude={"type", "framework"})))


KIND: Final = Kind(AgentSolverConfig, build)
