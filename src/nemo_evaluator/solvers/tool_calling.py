"""The tool-calling solver: a loop of model calls and tool calls that nel drives and records itself."""

import importlib.util
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import KW_ONLY, dataclass
from typing import Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config import GenerationConfig
from nemo_evaluator.config.fields import Above0, GymName, Positive, ServiceName, no_items
from nemo_evaluator.config.solver_base import SolverBase
from nemo_evaluator.core.errors import MissingExtraError, UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.turns import offer_answer
from nemo_evaluator.core.types import JsonDict, SeedResult, SolveResult
from nemo_evaluator.models import Client
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.solvers._agent_run import AgentRun
from nemo_evaluator.solvers.base import SolverContext
from nemo_evaluator.solvers.simple import messages_for
from nemo_evaluator.solvers.tools.base import ToolSource
from nemo_evaluator.solvers.tools.gym import GymTools
from nemo_evaluator.solvers.tools.mcp import McpServer
from nemo_evaluator.solvers.tools.sandbox import SandboxTools
from nemo_evaluator.solvers.tools.toolbox import Toolbox

ResponseMode = Literal["last_message", "sandbox_artifact"]
CONTEXT_TOKENS: Final = 100_000


class ToolCallingSolverConfig(SolverBase):
    """A loop of model calls and tool calls that we drive and record ourselves."""

    type: Literal["tool_calling"] = "tool_calling"
    service: ServiceName = Field(description="The model.")
    resource_service: GymName | None = Field(
        None, description="Gym service whose tools are offered."
    )
    sandbox_tools: bool = Field(False, description="Offer bash and file tools inside the sandbox.")
    mcp_servers: list[McpServer] = Field(
        default_factory=no_items, description="MCP servers whose tools are offered."
    )
    max_turns: Positive = Field(50, description="Maximum model calls.")
    system_prompt: str | None = Field(None, description="System prompt.")
    generation: GenerationConfig | None = Field(
        None, description="Generation settings over those of the service."
    )
    tool_timeout: Above0 = Field(180.0, description="Seconds for one tool call.")
    max_output_chars: Positive = Field(
        16384, description="Longest tool output shown to the model; head and tail stay."
    )
    response_mode: ResponseMode = Field(
        "last_message", description="The answer: the last message, or the state of the sandbox."
    )

    @model_validator(mode="after")
    def _some_tools(self) -> Self:
        has_source = self.resource_service is not None or self.mcp_servers
        if not has_source and not self.sandbox_tools:
            raise PydanticCustomError(
                "no_tools", "give resource_service, sandbox_tools: true, or mcp_servers"
            )
        server_names = {server.name for server in self.mcp_servers}
        if len(server_names) != len(self.mcp_servers):
            raise PydanticCustomError("mcp_names", "the names of mcp_servers must differ")
        return self

    def needs_sandbox(self) -> str | None:
        """Return why the config needs a sandbox, or None when it does not."""
        if self.sandbox_tools:
            return "sandbox_tools: true needs a sandbox"
        return None


@dataclass
class ToolCallingSolver:
    """Calls the model, runs the tools that it requests and shows it the results, until it answers without a tool call.

    When ``max_turns`` or another budget of the step (including its time) is used up, or the conversation no longer fits
    the model's context, the answer so far is returned with ``error`` set: the row is verified and labelled, not failed.

    Attributes:
        client: The client of the model.
        sources: Where the tools come from.
        max_turns: The maximum number of model calls.
        system_prompt: A system prompt that replaces the problem's own.
        generation: Generation settings that override the service's.
        tool_timeout: Seconds for one tool call.
        max_output_chars: The longest tool output shown to the model.
        response_mode: Whether the answer is the last message or the state of the sandbox.
        context_tokens: The longest conversation to send, in estimated tokens.
    """

    client: Client
    sources: Sequence[ToolSource]
    _: KW_ONLY
    max_turns: int = 50
    system_prompt: str | None = None
    generation: JsonDict | None = None
    tool_timeout: float = 180.0
    max_output_chars: int = 16384
    response_mode: ResponseMode = "last_message"
    context_tokens: int = CONTEXT_TOKENS

    async def solve(self, task: SeedResult, sandbox: Sandbox | None = None) -> SolveResult:
        """Open the tool sources and run the loop on one problem.

        Args:
            task: The problem; ``tools`` in its metadata selects and describes the tools to offer.
            sandbox: The problem's sandbox, if it has one.

        Raises:
            BoundaryError: The model, a tool source or the sandbox failed.
        """
        artifact = self.response_mode == "sandbox_artifact"
        async with AsyncExitStack() as stack:
            sessions = []
            for source in self.sources:
                session = await source.open(task, sandbox)
                stack.push_async_callback(session.close)
                sessions.append(session)
            toolbox = await Toolbox.of(
                sessions,
                task.metadata.get("tools"),
                self.tool_timeout,
                max_output_chars=self.max_output_chars,
            )
            run = AgentRun(
                self.client,
                toolbox,
                messages_for(task, self.system_prompt),
                generation=self.generation,
                context_tokens=self.context_tokens,
            )

            def answer_so_far(why: str) -> SolveResult | None:
                if not run.replies:
                    return None
                return run.result(why, artifact=artifact)

            offer_answer(answer_so_far)
            error = await run.loop(self.max_turns)
        return run.result(error, artifact=artifact)

    def describe(self) -> JsonDict:
        """Return the settings that change answers, with the description of each tool source."""
        return {
            "type": "tool_calling",
            "max_turns": self.max_turns,
            "system_prompt": self.system_prompt,
            "generation": self.generation or {},
            "tool_timeout": self.tool_timeout,
            "max_output_chars": self.max_output_chars,
            "response_mode": self.response_mode,
            "context_tokens": self.context_tokens,
            "sources": [source.describe() for source in self.sources],
        }


def build(config: ToolCallingSolverConfig, context: SolverContext) -> ToolCallingSolver:
    """Build a solver of ``type: tool_calling``.

    Raises:
        UsageError: The service uses the completions protocol, which has no tools.
        MissingExtraError: The config names MCP servers, and the MCP SDK is not installed.
    """
    client = context.clients[config.service]
    if client.endpoint.protocol == "completions":
        raise UsageError(
            f"tool_calling needs a chat protocol, and {config.service!r} speaks completions",
            hint="set protocol: chat_completions on the service",
        )
    if config.mcp_servers and importlib.util.find_spec("mcp") is None:
        raise MissingExtraError("the MCP SDK", extra="mcp")
    sources: list[ToolSource] = []
    if config.sandbox_tools:
        sources.append(SandboxTools())
    if config.resource_service is not None:
        base_url = context.base_urls[config.resource_service]
        sources.append(GymTools(config.resource_service, base_url))
    sources += config.mcp_servers
    generation: JsonDict | None = None
    if config.generation:
        generation = config.generation.model_dump(exclude_none=True)
    return ToolCallingSolver(
        client,
        sources,
        max_turns=config.max_turns,
        system_prompt=config.system_prompt,
        generation=generation,
        tool_timeout=config.tool_timeout,
        max_output_chars=config.max_output_chars,
        response_mode=config.response_mode,
    )


KIND: Final = Kind(ToolCallingSolverConfig, build)
