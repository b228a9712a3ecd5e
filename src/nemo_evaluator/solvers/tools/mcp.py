"""Tools of an MCP server: a program that nel starts, or a URL. Each problem gets a session of its own."""

from typing import Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.fields import EnvMap, HeaderMap, Model, Name, no_items
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.solvers.tools.base import ToolSession


class McpServer(Model):
    """A Model Context Protocol server: a command that speaks over stdio, or a URL."""

    name: Name = Field(description="Name; distinguishes tools with the same name.")
    command: str | None = Field(None, description="Program to start.")
    args: list[str] = Field(default_factory=no_items, description="Its arguments.")
    env: EnvMap = Field(default_factory=dict, description="Its environment.")
    url: str | None = Field(None, description="URL of a server that speaks HTTP.")
    headers: HeaderMap = Field(default_factory=dict, description="Headers for the URL.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise PydanticCustomError("mcp_way", "give command or url, not both and not neither")
        return self

    async def open(self, task: SeedResult, sandbox: Sandbox | None) -> ToolSession:
        """Start the server or connect to it, for one problem.

        Args:
            task: The problem.
            sandbox: Not used.

        Raises:
            TransportError: The server did not start, or was not ready in time.
        """
        # Loaded by name because it imports the SDK, which is an extra.
        session_class = load_object("nemo_evaluator.solvers.tools._mcp_sdk:McpSession")
        session: ToolSession = await session_class(self).open()
        return session

    def describe(self) -> JsonDict:
        """Return the command or the URL; environment and headers may hold secrets and are left out."""
        return {
            "kind": "mcp",
            "name": self.name,
            "command": self.command,
            "args": self.args,
            "url": self.url,
        }
