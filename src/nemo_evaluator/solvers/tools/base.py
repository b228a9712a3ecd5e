"""The contract of a source of tools: it says what it offers, and runs what is called."""

from dataclasses import dataclass
from typing import Protocol

from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.sandbox.base import Sandbox


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as a model sees it."""

    name: str
    description: str
    parameters: JsonDict

    def definition(self, name: str | None = None) -> JsonDict:
        """The tool in the shape of the chat protocol, under another name if given."""
        function = {
            "name": name or self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call brought back. An error of the tool is a result too: the model is told, and goes on."""

    content: str
    is_error: bool = False


class ToolSession(Protocol):
    """A source of tools, opened for one problem."""

    name: str

    async def tools(self) -> list[Tool]:
        """What it offers."""

    async def call(self, tool: str, arguments: JsonDict, timeout: float) -> ToolResult:
        """Run one call. Raises a BoundaryError only when the source itself is broken."""

    async def close(self) -> None:
        """Let go of what this problem used."""


class ToolSource(Protocol):
    """Something that gives each problem a session of its own, so that problems do not see each other's state."""

    @property
    def name(self) -> str:
        """What tools of this source are told apart by."""

    async def open(self, task: SeedResult, sandbox: Sandbox | None) -> ToolSession:
        """A session for one problem."""

    def describe(self) -> JsonDict:
        """The settings that change answers: no ports, no secrets."""
