"""The tool-calling solver: a loop of model calls and tool calls that we drive and record ourselves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Literal

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.turns import offer_answer
from nemo_evaluator.core.types import JsonDict, Message, SeedResult, SolveResult
from nemo_evaluator.solvers._agent_run import AgentRun
from nemo_evaluator.solvers.images import with_images
from nemo_evaluator.solvers.tools.base import ToolSource
from nemo_evaluator.solvers.tools.gym import GymTools
from nemo_evaluator.solvers.tools.mcp import McpTools
from nemo_evaluator.solvers.tools.sandbox import SandboxTools
from nemo_evaluator.solvers.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from nemo_evaluator.config import ToolCallingSolverConfig
    from nemo_evaluator.models import Client
    from nemo_evaluator.sandbox.base import Sandbox
    from nemo_evaluator.solvers.registry import SolverContext

ResponseMode = Literal["last_message", "sandbox_artifact"]
CONTEXT_TOKENS: Final = 100_000


class ToolCallingSolver:
    """Asks, runs the tools that the model calls, shows it the results, until it answers without a call.

    When ``max_turns`` or another budget of the step (its time too) is used up, or the conversation no longer fits the
    model's context, the answer is given back as it stands, with ``error`` set: the row is verified and labelled, not
    failed.
    """

    def __init__(
        self,
        client: Client,
        sources: Sequence[ToolSource],
        *,
        max_turns: int = 50,
        system_prompt: str | None = None,
        generation: JsonDict | None = None,
        tool_timeout: float = 180.0,
        max_output_chars: int = 16384,
        response_mode: ResponseMode = "last_message",
        context_tokens: int = CONTEXT_TOKENS,
    ) -> None:
        self._client = client
        self._sources = list(sources)
        self._max_turns = max_turns
        self._system = system_prompt
        self._generation = generation
        self._tool_timeout = tool_timeout
        self._max_output_chars = max_output_chars
        self._mode = response_mode
        self._context_tokens = context_tokens

    async def solve(self, task: SeedResult, sandbox: Sandbox | None = None) -> SolveResult:
        """Run the loop. Raises a BoundaryError when the model, a tool source or the sandbox is broken."""
        async with AsyncExitStack() as stack:
            sessions = []
            for source in self._sources:
                session = await source.open(task, sandbox)
                stack.push_async_callback(session.close)
                sessions.append(session)
            toolbox = await Toolbox.of(
                sessions,
                task.metadata.get("tools"),
                timeout=self._tool_timeout,
                max_output_chars=self._max_output_chars,
            )
            run = AgentRun(self._client, toolbox, self._messages(task), self._generation, self._context_tokens)
            artifact = self._mode == "sandbox_artifact"
            offer_answer(lambda why: run.result(why, artifact=artifact) if run.replies else None)
            error = await run.loop(self._max_turns)
        return run.result(error, artifact=artifact)

    def describe(self) -> JsonDict:
        """The settings that change answers."""
        return {
            "type": "tool_calling",
            "sources": [source.describe() for source in self._sources],
            "max_turns": self._max_turns,
            "system_prompt": self._system,
            "generation": self._generation or {},
            "tool_timeout": self._tool_timeout,
            "max_output_chars": self._max_output_chars,
            "response_mode": self._mode,
            "context_tokens": self._context_tokens,
        }

    async def close(self) -> None:
        """Let go of what the sources share; the client belongs to whoever made it."""
        for source in self._sources:
            await source.close()

    def _messages(self, task: SeedResult) -> list[Message]:
        messages = list(task.messages) if task.messages is not None else [{"role": "user", "content": task.prompt}]
        system = self._system or (task.system if task.messages is None else None)
        if system:
            rest = [message for message in messages if message.get("role") != "system"] if self._system else messages
            messages = [{"role": "system", "content": system}, *rest]
        return with_images(messages, task.images, "auto") if task.images else messages


def build(config: ToolCallingSolverConfig, context: SolverContext) -> ToolCallingSolver:
    """``type: tool_calling``."""
    client = context.clients[config.service]
    if client.endpoint.protocol == "completions":
        raise UsageError(
            f"tool_calling needs a chat protocol, and {config.service!r} speaks completions",
            hint="set protocol: chat_completions on the service",
        )
    sources: list[ToolSource] = []
    if config.sandbox_tools:
        sources.append(SandboxTools())
    if config.resource_service is not None:
        sources.append(GymTools(config.resource_service, context.base_urls[config.resource_service]))
    sources += [
        McpTools(server.name, server.command, tuple(server.args), server.env, server.url, server.headers)
        for server in config.mcp_servers
    ]
    return ToolCallingSolver(
        client,
        sources,
        max_turns=config.max_turns,
        system_prompt=config.system_prompt,
        generation=config.generation.model_dump(exclude_none=True) if config.generation else None,
        tool_timeout=config.tool_timeout,
        max_output_chars=config.max_output_chars,
        response_mode=config.response_mode,
    )
