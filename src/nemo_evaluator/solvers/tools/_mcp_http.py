"""MCP over streamable HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

import aiohttp
import orjson

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.solvers.tools._jsonrpc import result_of

_STOP_GRACE: Final = 2.0


class HttpChannel:
    """A server that speaks streamable HTTP: each message is a POST, answered by JSON or by an event stream."""

    def __init__(self, name: str, url: str, headers: Mapping[str, str]) -> None:
        self._name = name
        self._url = url
        self._headers = dict(headers)
        self._http = aiohttp.ClientSession()
        self._next = 0

    def agree(self, version: str) -> None:
        """Say the agreed protocol version with every further message."""
        self._headers["MCP-Protocol-Version"] = version

    async def request(self, method: str, params: JsonDict, timeout: float) -> JsonDict:
        """POST and wait for the answer with our number."""
        self._next += 1
        message = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        answer = await self._post(message, timeout)
        if answer is None:
            raise TransportError(f"MCP server {self._name!r} did not answer {method}")
        return result_of(answer)

    async def notify(self, method: str) -> None:
        """POST without waiting for an answer."""
        await self._post({"jsonrpc": "2.0", "method": method}, 30.0)

    async def close(self) -> None:
        """End the session at the server, if it gave us one."""
        try:
            if "Mcp-Session-Id" in self._headers:
                limit = aiohttp.ClientTimeout(total=_STOP_GRACE)
                # A server may refuse to end a session, or be gone: either way it is over for us.
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with self._http.delete(self._url, headers=self._headers, timeout=limit):
                        pass
        finally:
            await self._http.close()

    async def _post(self, message: JsonDict, timeout: float) -> JsonDict | None:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **self._headers}
        try:
            async with self._http.post(
                self._url, data=orjson.dumps(message), headers=headers, timeout=aiohttp.ClientTimeout(total=timeout)
            ) as reply:
                if "Mcp-Session-Id" in reply.headers:
                    self._headers["Mcp-Session-Id"] = reply.headers["Mcp-Session-Id"]
                return await self._answer(reply, message.get("id"))
        except aiohttp.ClientError as error:
            raise TransportError(f"MCP server {self._name!r} cannot be reached: {error!r}") from error
        except orjson.JSONDecodeError as error:
            raise TransportError(f"MCP server {self._name!r} did not answer in JSON: {error}") from error

    async def _answer(self, reply: aiohttp.ClientResponse, number: int | None) -> JsonDict | None:
        if reply.content_type == "text/event-stream" and reply.status < 400:
            return await self._from_stream(reply, number)
        body = await reply.read()
        if reply.status >= 400:
            try:
                parsed = orjson.loads(body)
            except orjson.JSONDecodeError:
                parsed = None
            if isinstance(parsed, dict) and "error" in parsed and parsed.get("id") == number and number is not None:
                return parsed
            text = body.decode("utf-8", "replace")[:300]
            raise TransportError(f"MCP server {self._name!r} answered {reply.status}: {text}", status=reply.status)
        if number is None or not body:
            return None
        answer: JsonDict = orjson.loads(body)
        return answer

    async def _from_stream(self, reply: aiohttp.ClientResponse, number: int | None) -> JsonDict | None:
        data: list[str] = []
        async for raw in reply.content:
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            if line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif not line and data:
                text, data = "\n".join(data), []
                message = orjson.loads(text) if text.strip() else None
                if isinstance(message, dict) and message.get("id") == number and "method" not in message:
                    return message
        return None
