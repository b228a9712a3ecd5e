"""A small client for the API of the Docker engine, with the calls that sandboxes need; Podman's service works too."""

import asyncio
import os
import struct
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final
from urllib.parse import quote, urlsplit

import aiohttp
import orjson

from nemo_evaluator.core.errors import SandboxError

_DEFAULT: Final = ("/var/run/docker.sock", "/run/podman/podman.sock")
_VERSION: Final = "v1.40"
_STREAMS: Final = {1: "stdout", 2: "stderr"}
_HINT: Final = (
    "is the engine running, and is DOCKER_HOST right? without one, use sandbox type: local"
)


class DockerApi:
    """Calls one engine: that of ``DOCKER_HOST``, else the one at the usual socket."""

    def __init__(self) -> None:
        default_socket = next((path for path in _DEFAULT if os.path.exists(path)), _DEFAULT[0])  # noqa: PTH110
        self.host = os.environ.get("DOCKER_HOST") or f"unix://{default_socket}"
        parts = urlsplit(self.host)
        if parts.scheme not in ("unix", "tcp", "http"):
            raise SandboxError(
                f"DOCKER_HOST {self.host!r} cannot be used", hint="give a unix:// or tcp:// address"
            )
        # The path of a socket, which means that the engine runs on this machine; None: it is reached over TCP.
        self.socket = parts.path if parts.scheme == "unix" else None
        self._base = f"http://{'docker' if self.socket else parts.netloc}"
        self._session: aiohttp.ClientSession | None = None

    def _request(
        self, method: str, path: str, query: dict[str, Any], data: Any, timeout: float, kind: str
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Begin a request; values of the query that are not text are sent as JSON."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(connector=self._connector())
        params: dict[str, str] = {}
        for name, value in query.items():
            params[name] = value if isinstance(value, str) else orjson.dumps(value).decode()
        url = f"{self._base}/{_VERSION}{path}"
        limit = aiohttp.ClientTimeout(total=timeout)
        headers = {"Content-Type": kind}
        return self._session.request(
            method, url, params=params, data=data, timeout=limit, headers=headers
        )

    def _connector(self) -> aiohttp.BaseConnector:
        if self.socket:
            return aiohttp.UnixConnector(self.socket, limit=0)
        return aiohttp.TCPConnector(limit=0)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        timeout: float = 60.0,
        ok: tuple[int, ...] = (),
        **query: Any,
    ) -> Any:
        """Send one request.

        Args:
            method: The HTTP method.
            path: The path, without the version.
            body: The content, which is sent as JSON.
            timeout: Seconds for the whole request.
            ok: Error statuses that are accepted.
            query: The parameters of the query; values other than strings are sent as JSON.

        Returns:
            The decoded answer; None when it is not JSON.

        Raises:
            SandboxError: The engine cannot be reached, or answered with an error.
        """
        data: bytes | None = None if body is None else orjson.dumps(body)
        try:
            async with self._request(
                method, path, query, data=data, timeout=timeout, kind="application/json"
            ) as response:
                text = await response.read()
                if response.status >= 400 and response.status not in ok:
                    raise SandboxError(f"docker: {_message(text)}", status=response.status)
        except (aiohttp.ClientError, OSError) as error:
            raise SandboxError(
                f"cannot reach the docker engine at {self.host}: {error}", hint=_HINT
            ) from error
        except TimeoutError as error:
            raise SandboxError(
                f"the docker engine did not answer {method} {path} in {timeout:g} s"
            ) from error
        if text.strip().startswith((b"{", b"[")) and b"\n{" not in text:
            return orjson.loads(text)
        return None

    async def stream(self, path: str, *, timeout: float, data: Any = None, **query: Any) -> None:
        """Send a POST request whose answer is a stream of progress lines (pull, build).

        Args:
            path: The path, without the version.
            timeout: Seconds for the whole request.
            data: The content, a tar archive.
            query: The parameters of the query.

        Raises:
            SandboxError: The request failed, or one of the lines reports an error.
        """
        try:
            async with self._request(
                "POST", path, query, data=data, timeout=timeout, kind="application/x-tar"
            ) as response:
                if response.status >= 400:
                    raise SandboxError(
                        f"docker: {_message(await response.read())}", status=response.status
                    )
                async for line in response.content:
                    if b'"error"' in line:
                        raise SandboxError(f"docker: {orjson.loads(line).get('error', 'failed')}")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise SandboxError(f"docker: {path} failed: {error or 'timed out'}") from error

    @asynccontextmanager
    async def attach(
        self, exec_id: str
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Start an exec, and take over its connection: its output arrives in frames (see ``frames``), and the writer is
        its stdin. Raises SandboxError when it cannot be started."""
        try:
            if self.socket:
                reader, writer = await asyncio.open_unix_connection(self.socket, limit=1 << 20)
            else:
                parts = urlsplit(self._base)
                reader, writer = await asyncio.open_connection(
                    parts.hostname, parts.port, limit=1 << 20
                )
        except OSError as error:
            raise SandboxError(
                f"cannot reach the docker engine at {self.host}: {error}", hint=_HINT
            ) from error
        try:
            body = b'{"Detach":false,"Tty":false}'
            head = (
                f"POST /{_VERSION}/exec/{quote(exec_id)}/start HTTP/1.1\r\nHost: docker\r\n"
                "Content-Type: application/json\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
            try:
                answer = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise SandboxError(
                    "docker: the engine closed the connection of a command"
                ) from error
            status = int(answer.split(b" ", 2)[1])
            if status not in (101, 200):
                raise SandboxError(f"docker: {_message(await reader.read(4096))}", status=status)
            yield reader, writer
        finally:
            writer.close()


async def frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[str, bytes]]:
    """The output of an attached exec: pairs of "stdout" or "stderr" and a piece."""
    while True:
        try:
            header = await reader.readexactly(8)
            kind, size = struct.unpack(">BxxxI", header)
            yield _STREAMS.get(kind, "stdout"), await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return


def _message(text: bytes) -> str:
    """The message in an error answer, or the answer itself."""
    try:
        return str(orjson.loads(text)["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return text.decode("utf-8", "replace").strip()[:500]
