"""The contract of a tool source: it lists its tools and runs calls to them."""

from dataclasses import dataclass
from typing import Protocol

from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.sandbox.base import Sandbox


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as a model sees it.

    Attributes:
        name: The tool's name.
        description: What it does, in words for the model.
        parameters: The JSON Schema of its arguments.
    """

    name: str
    description: str
    parameters: JsonDict

    def definition(self, name: str | None = None) -> JsonDict:
        """Return the tool's definition in the chat protocol.

        Args:
            name: A name to use instead of the tool's own.
        """
        function = {
            "name": name or self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call; an error of the tool is a result too, which the model sees.

    Attributes:
        content: The text that the model sees.
        is_error: Whether the tool failed.
    """

    content: str
    is_error: bool = False


class ToolSession(Protocol):
    """A tool source, opened for one problem.

    Attributes:
        name: The name of the source.
    """

    name: str

    async def tools(self) -> list[Tool]:
        """List the tools of the source."""

    async def call(self, tool: str, arguments: JsonDict, timeout: float) -> ToolResult:
        """Run one call.

        Args:
            tool: The tool's name.
            arguments: Its arguments.
            timeout: Seconds for the call.

        Raises:
            BoundaryError: The source itself failed; errors of a tool are results.
        """

    async def close(self) -> None:
        """Release what the session used."""


class ToolSource(Protocol):
    """Opens a session of its own for each problem, so that problems do not see each other's state."""

    @property
    def name(self) -> str:
        """The name of the source; it distinguishes tools of the same name."""

    async def open(self, task: SeedResult, sandbox: Sandbox | None) -> ToolSession:
        """Open a session for one problem.

        Args:
            task: The problem.
            sandbox: The problem's sandbox, if it has one.
        """

    def describe(self) -> JsonDict:
        """Return the settings that change answers, without ports and secrets."""
