"""The kinds of solver: what turns a problem into an answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config._base import Above0, EnvMap, Model, Name, Options, Positive
from nemo_evaluator.config.generation import GenerationConfig

TimeoutStrategy = Literal["override", "task", "max"]
ServiceName = Annotated[str, Field(min_length=1)]


class SimpleSolverConfig(Model):
    """One model call per problem."""

    type: Literal["simple"]
    service: ServiceName = Field(description="The model.")
    system_prompt: str | None = Field(None, description="System prompt.")
    generation: GenerationConfig | None = Field(None, description="Generation settings over those of the service.")
    image_detail: Literal["auto", "low", "high"] = Field("auto", description="Resolution of images.")


class HarborSolverConfig(Model):
    """A Harbor agent inside the sandbox."""

    type: Literal["harbor"]
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


class AgentSolverConfig(Model):
    """An agent of a framework; runs as the `harbor` solver."""

    type: Literal["agent"]
    service: ServiceName = Field(description="The model.")
    framework: Literal["harbor"] = Field("harbor", description="Framework of the agent.")
    agent: Name = Field(description="Name of the agent.")
    agent_kwargs: dict[str, Any] = Field(default_factory=dict, description="Settings of the agent.")


class McpServer(Model):
    """A Model Context Protocol server: a command that speaks over stdio, or a URL."""

    name: Name = Field(description="Name; tools with the same name are told apart by it.")
    command: str | None = Field(None, description="Program to start.")
    args: list[str] = Field(default_factory=list, description="Its arguments.")
    env: EnvMap = Field(default_factory=dict, description="Its environment.")
    url: str | None = Field(None, description="URL of a server that speaks HTTP.")
    headers: EnvMap = Field(default_factory=dict, description="Headers for the URL.")

    @model_validator(mode="after")
    def _one_way(self) -> McpServer:
        if (self.command is None) == (self.url is None):
            raise PydanticCustomError("mcp_way", "give command or url, not both and not neither")
        return self


class ToolCallingSolverConfig(Model):
    """A loop of model calls and tool calls that we drive and record ourselves."""

    type: Literal["tool_calling"]
    service: ServiceName = Field(description="The model.")
    resource_service: str | None = Field(None, description="Gym service whose tools are offered.")
    sandbox_tools: bool = Field(False, description="Offer bash and file tools inside the sandbox.")
    mcp_servers: list[McpServer] = Field(default_factory=list, description="MCP servers whose tools are offered.")
    max_turns: Positive = Field(50, description="Most model calls.")
    system_prompt: str | None = Field(None, description="System prompt.")
    generation: GenerationConfig | None = Field(None, description="Generation settings over those of the service.")
    tool_timeout: Above0 = Field(180.0, description="Seconds for one tool call.")
    max_output_chars: Positive = Field(16384, description="Longest tool output shown to the model; head and tail stay.")
    response_mode: Literal["last_message", "sandbox_artifact"] = Field(
        "last_message", description="The answer: the last message, or the state of the sandbox."
    )

    @model_validator(mode="after")
    def _some_tools(self) -> ToolCallingSolverConfig:
        if self.resource_service is None and not self.sandbox_tools and not self.mcp_servers:
            raise PydanticCustomError("no_tools", "give resource_service, sandbox_tools: true, or mcp_servers")
        if len({server.name for server in self.mcp_servers}) != len(self.mcp_servers):
            raise PydanticCustomError("mcp_names", "the names of mcp_servers must differ")
        return self


class GymDelegationSolverConfig(Model):
    """A Gym server that runs its own agent against the model."""

    type: Literal["gym_delegation"]
    service: ServiceName = Field(description="The model.")
    gym_service: ServiceName = Field(description="The Gym service.")
    gym_agent: str | None = Field(None, description="Agent of the Gym server.")
    trust_reward: bool = Field(False, description="Take the Gym's reward instead of verifying.")


class NatSolverConfig(Model):
    """A NeMo Agent Toolkit server that answers."""

    type: Literal["nat", "nat_agent"]
    service: ServiceName = Field(description="The `nat` service.")


class OpenClawSolverConfig(Model):
    """The OpenClaw command-line agent."""

    type: Literal["openclaw"]
    service: ServiceName = Field(description="The model.")
    thinking: str = Field("high", description="Thinking level.")
    context_window: Positive | None = Field(None, description="Context of the model, in tokens.")
    max_concurrent: Positive = Field(4, description="Most agents at once.")
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


class ContainerSolverConfig(Model):
    """A harness container that owns its whole evaluation loop."""

    type: Literal["container"]
    service: ServiceName = Field(description="The model.")
    uri: str | None = Field(None, description="`container://image#task`; null: the name of the benchmark.")
    endpoint_type: str | None = Field(None, description="Endpoint type of the harness; null: by the protocol.")
    adapter_config: dict[str, Any] | None = Field(None, description="Adapter settings inside the container.")
    env_vars: EnvMap = Field(default_factory=dict, description="Environment of the container.")
    mounts: dict[str, str] = Field(default_factory=dict, description="Mounts, host path to container path.")


class OracleSolverConfig(Model):
    """The known solution of the task: measures the ceiling of the harness."""

    type: Literal["oracle"]
    run_timeout: Above0 | None = Field(None, description="Seconds for the solution.")
    timeout_strategy: TimeoutStrategy = Field(
        "override", description="Whose limit counts: ours, the task's, or the larger."
    )
    max_agent_timeout: Above0 | None = Field(None, description="Cap on the solution's time.")


class CustomSolverConfig(Model):
    """A solver of your own."""

    type: Literal["custom"]
    service: str | None = Field(None, description="The model, if the solver uses one.")
    class_path: Name = Field(description="The class, as `package.module:Name`.")
    config: Options = Field(default_factory=dict, description="Its settings.")


SolverConfig: TypeAlias = Annotated[
    SimpleSolverConfig
    | ToolCallingSolverConfig
    | HarborSolverConfig
    | AgentSolverConfig
    | GymDelegationSolverConfig
    | NatSolverConfig
    | OpenClawSolverConfig
    | ContainerSolverConfig
    | OracleSolverConfig
    | CustomSolverConfig,
    Field(discriminator="type"),
]
