"""The one way out of a sandbox without a network: a socket inside, whose connections we carry to the model."""

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox import jail
from nemo_evaluator.sandbox.jail import wire


class Forwards:
    """The ways out of one sandbox: each accepts on a socket that lives in its network, and connects from ours."""

    def __init__(self) -> None:
        # URLs of the host as code inside must write them.
        self.urls: dict[str, str] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, url: str, listen: Callable[[], Awaitable[tuple[int, int]]]) -> str:
        """Carry to ``url`` what comes to the socket (its descriptor and port) that ``listen`` makes inside; the URL to
        use there. Only plain HTTP can be carried: a certificate would not fit the name inside."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            fix = "give the http:// address of the proxy"
            raise SandboxError(f"{url!r} cannot be carried into a sandbox", hint=fix)
        fd, port = await listen()
        listening, address = socket.socket(fileno=fd), (parts.hostname, parts.port or 80)
        listening.setblocking(False)
        self._servers.append(await asyncio.start_server(partial(self._serve, address), sock=listening))
        self.urls[url] = urlunsplit(("http", f"127.0.0.1:{port}", parts.path, parts.query, parts.fragment))
        return self.urls[url]

    async def close(self) -> None:
        """Stop, and cut what is under way."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(
        self, address: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writers = [writer]
        try:
            out_reader, out_writer = await asyncio.open_connection(*address)
            writers.append(out_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, out_writer))
                group.create_task(_copy(out_reader, writer))
        except (OSError, asyncio.CancelledError):
            # Nobody is there, or we are done: the caller inside sees its connection close. What is cancelled and says
            # so has asyncio's streams write a traceback (Python 3.11).
            return
        finally:
            self._tasks.discard(task)
            for each in writers:
                each.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def listen_in(pid: int) -> tuple[int, int]:
    """A socket (its descriptor and port) on the loopback of another process's network. Needs root."""
    ours, theirs = wire.pair()
    argv = jail.command("listen", str(theirs.fileno()), str(pid))
    with ours, theirs:
        process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        message = wire.receive(ours)
        process.wait()
    return listening(message or ({"error": "no answer"}, []))


def listening(message: tuple[dict[str, Any], list[int]]) -> tuple[int, int]:
    """The socket (its descriptor and port) that was handed over. Raises SandboxError when none was."""
    answer, fds = message
    if "error" in answer:
        raise SandboxError(f"cannot open a way to the model: {answer['error']}")
    return fds[0], answer["port"]
