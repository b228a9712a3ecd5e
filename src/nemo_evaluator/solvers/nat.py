"""``nat``: a NeMo Agent Toolkit server that answers."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import AgentName
from nemo_evaluator.config.solver_base import SolverBase
from nemo_evaluator.core.kinds import NOT_YET, Kind


class NatSolverConfig(SolverBase):
    """A NeMo Agent Toolkit server that answers."""

    type: Literal["nat", "nat_agent"] = "nat"
    service: AgentName = Field(description="The `nat` service.")


KIND: Final = Kind(NatSolverConfig, missing=NOT_YET)
