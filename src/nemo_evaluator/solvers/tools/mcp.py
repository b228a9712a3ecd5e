"""Tools of an MCP server: a program that we start, or a URL. Each problem gets a session of its own."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nemo_evaluator.core.errors import MissingExtraError
from nemo_evaluator.core.types import JsonDict, SeedResult

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.base import Sandbox
    from nemo_evaluator.solvers.tools.base import ToolSession


@dataclass(frozen=True, slots=True)
class McpTools:
    """One server of the config."""

    name: str
    command: str | None = None
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise MissingExtraError("the MCP SDK", extra="mcp")

    async def open(self, task: SeedResult, sandbox: Sandbox | None) -> ToolSession:
        """Connect and shake hands. Raises TransportError when the server does not come up."""
        from nemo_evaluator.solvers.tools import _mcp_sdk  # noqa: PLC0415 - an extra

        if self.command is not None:
            session = _mcp_sdk.program(self.name, self.command, self.args, self.env)
        else:
            session = _mcp_sdk.remote(self.name, self.url or "", self.headers)
        await session.open()
        return session

    def describe(self) -> JsonDict:
        """The server by what starts or names it; environment and headers may hold secrets and are left out."""
        return {"kind": "mcp", "name": self.name, "command": self.command, "args": list(self.args), "url": self.url}
