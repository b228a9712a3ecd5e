"""``gym_delegation``: a Gym server that runs its own agent against the model."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import GymName, ServiceName
from nemo_evaluator.config.solver_base import SolverBase
from nemo_evaluator.core.kinds import NOT_YET, Kind


class GymDelegationSolverConfig(SolverBase):
    """A Gym server that runs its own agent against the model."""

    type: Literal["gym_delegation"] = "gym_delegation"
    service: ServiceName = Field(description="The model.")
    gym_service: GymName = Field(description="The Gym service.")
    gym_agent: str | None = Field(None, description="Agent of the Gym server.")
    trust_reward: bool = Field(False, description="Take the Gym's reward instead of verifying.")


KIND: Final = Kind(GymDelegationSolverConfig, missing=NOT_YET)
