"""Sessions with MCP servers through the official SDK (the extra ``mcp``); only :mod:`.mcp` imports this module."""

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

# The environment variables that a server process inherits, besides those that the SDK passes on.
_PASSED_ON: Final = ("LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")
_LAST_WORDS: Final = 1000
_START_TIMEOUT: Final = 60.0
# The SDK's log messages are not shown: failures are raised as errors.
logging.getLogger("mcp").setLevel(logging.CRITICAL)
logging.getLogger("client").setLevel(logging.CRITICAL)


class McpSession:
    """A connection to a server for one problem.

    A task of its own holds the connection, because the SDK's transports must be left by the task that entered them.

    Attributes:
        name: The server's name.
    """

    def __init__(self, server: McpServer) -> None:
        """Prepare a session; nothing is started yet.

        Args:
            server: The server's config.
        """
        self.name = server.name
        self._server = server
        # The standard error of a server process.
        self._stderr: IO[str] | None = None
        if server.command is not None:
            self._stderr = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed with the session
        self._over = asyncio.Event()
        self._session: ClientSession | None = None

    async def open(self) -> Self:
        """Start the server or connect to it, and initialize the session.

        Raises:
            TransportError: The server did not start, or was not ready within 60 seconds.
        """
        ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(ready))
        try:
            pending: list[asyncio.Future[Any]] = [self._task, ready]
            await asyncio.wait(pending, timeout=_START_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                timeout_error = TimeoutError(f"not within {_START_TIMEOUT:g} s")
                if self._task.done():
                    error = _first(self._task.exception())
                else:
                    error = timeout_error
                raise self._failure(error) from error
            self._session = ready.result()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """End the session; a server process that nel started is ended with all its children."""
        self._over.set()
        if self._session is None:
            self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()
        if self._stderr is not None:
            self._stderr.close()

    async def tools(self) -> list[Tool]:
        """List the server's tools, page by page.

        Raises:
            TransportError: The server failed, or refused the request.
        """
        tools: list[Tool] = []
        cursor: str | None = None
        while True:
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            list_request = types.ListToolsRequest(params=params)
            try:
                page = await self._request(list_request, types.ListToolsResult, _START_TIMEOUT)
            except (MCPError, TimeoutError) as error:
                raise TransportError(
                    f"MCP server {self.name!r} does not list its tools: {error!r}"
                ) from error
            for listed_tool in page.get("tools") or []:
                name = str(listed_tool["name"])
                description = listed_tool.get("description") or listed_tool.get("title") or name
                schema = listed_tool.get("inputSchema") or {"type": "object", "properties": {}}
                tools.append(Tool(name, str(description), schema))
            cursor = page.get("nextCursor")
            if not cursor:
                return tools

    async def call(self, tool: str, arguments: JsonDict, timeout: float) -> ToolResult:
        """Call one tool; an error of the tool, or a timeout, is a result for the model.

        Args:
            tool: The tool's name.
            arguments: Its arguments.
            timeout: Seconds for the call.

        Raises:
            TransportError: The server failed.
        """
        call_request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=tool, arguments=arguments)
        )
        try:
            result = await self._request(call_request, types.CallToolResult, timeout)
        except TimeoutError:
            return ToolResult(f"The tool timed out after {timeout:g} s.", is_error=True)
        except MCPError as error:
            return ToolResult(f"Error {error.code}: {error.message}", is_error=True)
        return ToolResult(_text(result), is_error=bool(result.get("isError")))

    async def _request(
        self, request: types.ClientRequest, result: type[BaseModel], timeout: float
    ) -> JsonDict:
        """Send one request and wait for its result, the end of the server, or the timeout, whichever is first."""
        assert self._session is not None
        pending_reply = asyncio.ensure_future(self._session.send_request(request, result))
        try:
            async with asyncio.timeout(timeout):
                await asyncio.wait([pending_reply, self._task], return_when=asyncio.FIRST_COMPLETED)
            if not pending_reply.done():
                raise self._failure(_first(self._task.exception()))
            answer: JsonDict = pending_reply.result().model_dump(
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
            pending_reply.cancel()
            await asyncio.wait([pending_reply])

    async def _hold(self, ready: asyncio.Future[ClientSession]) -> None:
        """Hold the connection open, from its initialization until ``close`` is called."""
        client_identity = types.Implementation(name="nemo-evaluator", version=__version__)
        async with (
            self._streams() as (reading, writing),
            ClientSession(reading, writing, client_info=client_identity) as session,
        ):
            await session.initialize()
            if not ready.done():
                ready.set_result(session)
            await self._over.wait()

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[Any]:
        """Start the server and connect to its standard streams, or connect to its URL by streamable HTTP."""
        server = self._server
        if server.command is not None:
            parameters = StdioServerParameters(
                command=server.command,
                args=server.args,
                env=_process_environment(server),
                encoding_error_handler="replace",
            )
            async with stdio_client(parameters, errlog=self._stderr) as pipes:
                yield pipes
            return
        url = server.url or ""
        http_client = httpx2.AsyncClient(
            headers=server.headers,
            verify=ssl.create_default_context(),
            # Each call has a timeout of its own, so reading from the server has none.
            timeout=httpx2.Timeout(30.0, read=None),
            trust_env=False,
            proxy=proxy_url(url),
        )
        async with http_client as http, streamable_http_client(url, http_client=http) as streams:
            yield streams

    def _failure(self, error: BaseException | None) -> TransportError:
        """Build the error for a server that failed, with the cause or the last lines that the server printed."""
        server = f"MCP server {self.name!r}"
        if isinstance(error, ValidationError):
            first_problem = error.errors()[0]
            field_path = ".".join(map(str, first_problem["loc"]))
            return TransportError(
                f"{server} does not keep to the protocol: {field_path}: {first_problem['msg']}"
            )
        if isinstance(error, OSError) and not isinstance(error, TimeoutError):
            return TransportError(f"{server} does not start: {error}")
        stderr_tail = self._last_lines()
        reason = ""
        if stderr_tail:
            reason = f"; it said: {stderr_tail}"
        elif error is not None:
            reason = f": {error}"
        if self._stderr is not None:
            return TransportError(f"{server} ended{reason}")
        return TransportError(f"{server} cannot be reached{reason}")

    def _last_lines(self) -> str:
        """Return the last lines that a server process printed to its standard error, in one line."""
        if self._stderr is None:
            return ""
        self._stderr.seek(0)
        last_lines = self._stderr.read()[-_LAST_WORDS:].split("\n")[-6:]
        return " | ".join(last_lines).strip(" |")


def _first(error: BaseException | None) -> BaseException | None:
    """Return the first error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _text(result: JsonDict) -> str:
    """Return the result of a call as one text; structured content is used when there is no other content."""
    parts = [_part(part) for part in result.get("content") or []]
    if not parts and result.get("structuredContent") is not None:
        return orjson.dumps(result["structuredContent"], option=orjson.OPT_INDENT_2).decode()
    return "\n".join(parts) or "(no output)"


def _process_environment(server: McpServer) -> dict[str, str]:
    """Return the variables for a server process, besides those that the SDK passes on."""
    environment: dict[str, str] = {}
    for name in _PASSED_ON:
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment | server.env


def _part(part: Any) -> str:
    """Return one part of a result as text; a part that is not text is named by its type."""
    if not isinstance(part, dict):
        return str(part)
    if part.get("type") == "text":
        return str(part.get("text") or "")
    resource = part.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    kind = part.get("type") or "content"
    description = part.get("mimeType") or part.get("uri")
    if description:
        return f"[{kind} {description}]"
    return f"[{kind}]"
