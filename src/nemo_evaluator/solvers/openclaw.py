"""``openclaw``: the OpenClaw command-line agent."""

from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Above0, Positive, ServiceName
from nemo_evaluator.config.solver_base import SolverBase, TimeoutStrategy
from nemo_evaluator.core.kinds import NOT_YET, Kind


class OpenClawSolverConfig(SolverBase):
    """The OpenClaw command-line agent."""

    type: Literal["openclaw"] = "openclaw"
    service: ServiceName = Field(description="The model.")
    thinking: str = Field("high", description="Thinking level.")
    context_window: Positive | None = Field(None, description="Context of the model, in tokens.")
    max_concurrent: Positive = Field(4, description="Maximum concurrent agents.")
    idle_timeout_seconds: Above0 = Field(600.0, description="Seconds without output before an agent is stopped.")
    run_timeout: Above0 | None = Field(None, description="Seconds for the agent.")
    timeout_strategy: TimeoutStrategy = Field(
        "task", description="Whose limit counts: ours, the task's, or the larger."
    )
    max_agent_timeout: Above0 | None = Field(None, description="Cap on the agent's time.")
    web_search_provider: Literal["tavily"] | None = Field(None, description="Web search of the agent.")
    config_path: str | None = Field(None, description="Config file of the agent.")
    skip_preflight: bool = Field(False, description="Skip the check of the agent before the run.")
    openclaw_bin: str = Field("openclaw", description="The command.")

    def needs_sandbox(self) -> str | None:
        """Agents work inside one."""
        return f"solver {self.type!r} needs a sandbox"


KIND: Final = Kind(OpenClawSolverConfig, missing=NOT_YET)
