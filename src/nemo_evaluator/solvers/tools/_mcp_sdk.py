"""Sessions with MCP servers through the official SDK (the extra ``mcp``); only :mod:`.mcp` loads this."""

import asyncio
import logging
import os
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import IO, Any, Final, Self

import httpx2
import mcp_types as types
import orjson
from mcp import ClientSession, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import BaseModel, ValidationError

from nemo_evaluator._version import __version__
from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.http.http_proxy import proxy_url
from nemo_evaluator.solvers.tools.base import Tool, ToolResult
from nemo_evaluator.solvers.tools.mcp import McpServer

# What a program started for a model may know of our environment beside what the SDK passes on.
_PASSED_ON: Final = ("LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")
_LAST_WORDS: Final = 1000
_START_TIMEOUT: Final = 60.0
# What a server writes beside the protocol is its own affair, and what fails is raised.
logging.getLogger("mcp").setLevel(logging.CRITICAL)
logging.getLogger("client").setLevel(logging.CRITICAL)


class McpSession:
    """A server for one problem, held by a task of its own: whoever enters the SDK's transports must also leave them."""

    def __init__(self, server: McpServer) -> None:
        self.name = server.name
        self._server = server
        # What a program says beside the protocol.
        self._said: IO[str] | None = None
        if server.command is not None:
            self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed with the session
        self._over = asyncio.Event()
        self._session: ClientSession | None = None

    async def open(self) -> Self:
        """Connect and shake hands. Raises TransportError."""
        ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(ready))
        try:
            waits: list[asyncio.Future[Any]] = [self._task, ready]
            await asyncio.wait(waits, timeout=_START_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                late = TimeoutError(f"not within {_START_TIMEOUT:g} s")
                if self._task.done():
                    error = _first(self._task.exception())
                else:
                    error = late
                raise self._failure(error) from error
            self._session = ready.result()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Leave; a program of ours is ended, with everything it started."""
        self._over.set()
        if self._session is None:
            self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()
        if self._said is not None:
            self._said.close()

    async def tools(self) -> list[Tool]:
        """Everything it lists, page by page."""
        tools: list[Tool] = []
        cursor: str | None = None
        while True:
            asked = types.ListToolsRequest(
                params=types.PaginatedRequestParams(cursor=cursor) if cursor else None
            )
            try:
                page = await self._request(asked, types.ListToolsResult, _START_TIMEOUT)
            except (MCPError, TimeoutError) as error:
                raise TransportError(
                    f"MCP server {self.name!r} does not list its tools: {error!r}"
                ) from error
            for one in page.get("tools") or []:
                name = str(one["name"])
                about = one.get("description") or one.get("title") or one["name"]
                schema = one.get("inputSchema") or {"type": "object", "properties": {}}
                tools.append(Tool(name, str(about), schema))
            cursor = page.get("nextCursor")
            if not cursor:
                return tools

    async def call(self, tool: str, arguments: JsonDict, timeout: float) -> ToolResult:
        """Call one tool; what it answers in error is told to the model. Raises TransportError."""
        asked = types.CallToolRequest(
            params=types.CallToolRequestParams(name=tool, arguments=arguments)
        )
        try:
            result = await self._request(asked, types.CallToolResult, timeout)
        except TimeoutError:
            return ToolResult(f"The tool timed out after {timeout:g} s.", is_error=True)
        except MCPError as error:
            return ToolResult(f"Error {error.code}: {error.message}", is_error=True)
        return ToolResult(_text(result), is_error=bool(result.get("isError")))

    async def _request(
        self, request: types.ClientRequest, result: type[BaseModel], timeout: float
    ) -> JsonDict:
        assert self._session is not None
        asked = asyncio.ensure_future(self._session.send_request(request, result))
        try:
            async with asyncio.timeout(timeout):
                await asyncio.wait([asked, self._task], return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise self._failure(_first(self._task.exception()))
            answer: JsonDict = asked.result().model_dump(
                mode="json", by_alias=True, exclude_none=True
            )
            return answer
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise self._failure(error) from error
            raise
        except ValidationError as error:
            raise self._failure(error) from error
        finally:
            asked.cancel()
            await asyncio.wait([asked])

    async def _hold(self, ready: asyncio.Future[ClientSession]) -> None:
        me = types.Implementation(name="nemo-evaluator", version=__version__)
        async with (
            self._streams() as (reading, writing),
            ClientSession(reading, writing, client_info=me) as session,
        ):
            await session.initialize()
            if not ready.done():
                ready.set_result(session)
            await self._over.wait()

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[Any]:
        """The way to a program that we start, or to a URL by streamable HTTP."""
        server = self._server
        url = self._server.url or ""
        if server.command is not None:
            env = {key: os.environ[key] for key in _PASSED_ON if key in os.environ} | server.env
            about: JsonDict = {"args": server.args, "env": env, "encoding_error_handler": "replace"}
            async with stdio_client(
                StdioServerParameters(command=server.command, **about), errlog=self._said
            ) as pipes:
                yield pipes
            return
        # Every call has a bound of its own; a server may be silent until then.
        ways: JsonDict = {
            "timeout": httpx2.Timeout(30.0, read=None),
            "trust_env": False,
            "proxy": proxy_url(url),
        }
        tls = ssl.create_default_context()
        async with (
            httpx2.AsyncClient(headers=server.headers, verify=tls, **ways) as http,
            streamable_http_client(url, http_client=http) as streams,
        ):
            yield streams

    def _failure(self, error: BaseException | None) -> TransportError:
        if isinstance(error, ValidationError):
            found = error.errors()[0]
            where = ".".join(map(str, found["loc"]))
            return TransportError(
                f"MCP server {self.name!r} does not keep to the protocol: {where}: {found['msg']}"
            )
        if isinstance(error, OSError) and not isinstance(error, TimeoutError):
            return TransportError(f"MCP server {self.name!r} does not start: {error}")
        said = ""
        if self._said is not None:
            self._said.seek(0)
            said = " | ".join(self._said.read()[-_LAST_WORDS:].split("\n")[-6:]).strip(" |")
        if said:
            why = f"; it said: {said}"
        elif error is not None:
            why = f": {error}"
        else:
            why = ""
        return TransportError(
            f"MCP server {self.name!r} {'ended' if self._said else 'cannot be reached'}{why}"
        )


def _first(error: BaseException | None) -> BaseException | None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


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
    return f"[{part.get('type') or 'content'} {part.get('mimeType') or part.get('uri') or ''}]".replace(
        " ]", "]"
    )
