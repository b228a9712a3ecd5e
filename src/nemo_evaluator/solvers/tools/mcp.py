"""Tools of an MCP server: a program that we start, or a URL. Each problem gets a session of its own."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from nemo_evaluator.core.errors import MissingExtraError, TransportError
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.solvers.tools.base import RpcError, Tool, ToolResult

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.base import Sandbox
    from nemo_evaluator.solvers.tools._mcp_sdk import Connection

_START_TIMEOUT: Final = 60.0


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

    async def open(self, task: SeedResult, sandbox: Sandbox | None) -> McpSession:
        """Connect and shake hands. Raises TransportError when the server does not come up."""
        from nemo_evaluator.solvers.tools import _mcp_sdk  # noqa: PLC0415 - an extra

        if self.command is not None:
            connection = _mcp_sdk.program(self.name, self.command, self.args, self.env)
        else:
            connection = _mcp_sdk.remote(self.name, self.url or "", self.headers)
        await connection.open(_START_TIMEOUT)
        return McpSession(self.name, connection)

    def describe(self) -> JsonDict:
        """The server by what starts or names it; environment and headers may hold secrets and are left out."""
        return {"kind": "mcp", "name": self.name, "command": self.command, "args": list(self.args), "url": self.url}


class McpSession:
    """A connection to a server, for one problem."""

    def __init__(self, name: str, connection: Connection) -> None:
        self.name = name
        self._connection = connection

    async def tools(self) -> list[Tool]:
        tools: list[Tool] = []
        cursor: str | None = None
        while True:
            try:
                page = await self._connection.list_tools(cursor, _START_TIMEOUT)
            except (RpcError, TimeoutError) as error:
                raise TransportError(f"MCP server {self.name!r} does not list its tools: {error!r}") from error
            tools += [_tool(one) for one in page.get("tools") or []]
            cursor = page.get("nextCursor")
            if not cursor:
                return tools

    async def call(self, tool: str, arguments: JsonDict, timeout: float) -> ToolResult:
        """Call one tool; what it answers in error is told to the model."""
        try:
            result = await self._connection.call_tool(tool, arguments, timeout)
        except TimeoutError:
            return ToolResult(f"The tool timed out after {timeout:g} s.", is_error=True)
        except RpcError as error:
            return ToolResult(f"Error {error.code}: {error}", is_error=True)
        return ToolResult(_text(result), is_error=bool(result.get("isError")))

    async def close(self) -> None:
        await self._connection.close()


def _tool(given: JsonDict) -> Tool:
    schema = given.get("inputSchema") or {"type": "object", "properties": {}}
    return Tool(str(given["name"]), str(given.get("description") or given.get("title") or given["name"]), schema)


def _text(result: JsonDict) -> str:
    parts = [_part(part) for part in result.get("content") or []]
    if not parts and result.get("structuredContent") is not None:
        return orjson.dumps(result["structuredContent"], option=orjson.OPT_INDENT_2).decode()
    return "\n".join(parts) or "(no output)"


def _part(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    if part.get("type") == "text":
        return str(part.get("text") or "")
    resource = part.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    return f"[{part.get('type') or 'content'} {part.get('mimeType') or part.get('uri') or ''}]".replace(" ]", "]")
