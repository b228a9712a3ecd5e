"""The one way out of a sandbox without a network: a socket inside, whose connections we carry to the model."""

import asyncio
import contextlib
import socket
import subprocess
from functools import partial
from urllib.parse import urlsplit, urlunsplit

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox import jail
from nemo_evaluator.sandbox.jail import wire


def address_of(url: str) -> tuple[str, int]:
    """Host and port of a proxy URL; only plain HTTP can be carried: a certificate would not fit the name inside."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise SandboxError(f"{url!r} cannot be carried into a sandbox", hint="give the http:// address of the proxy")
    return parts.hostname, parts.port or 80


class Forwards:
    """The ways out of one sandbox: each accepts on a socket that lives in its network, and connects from ours."""

    def __init__(self) -> None:
        # URLs of the host as code inside must write them.
        self.urls: dict[str, str] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        return bool(self._servers)

    async def add(self, url: str, fd: int, port: int) -> str:
        """Carry what comes to the listening socket ``fd`` to ``url``; the URL to use inside."""
        address = address_of(url)
        listening = socket.socket(fileno=fd)
        listening.setblocking(False)
        self._servers.append(await asyncio.start_server(partial(self._serve, address), sock=listening))
        parts = urlsplit(url)
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
    """(descriptor, port) of a socket that listens on the loopback of another process's network. Needs root."""
    ours, theirs = wire.pair()
    argv = jail.command("listen", str(theirs.fileno()), str(pid))
    with ours, theirs:
        process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        message = wire.receive(ours)
        process.wait()
    if message is None or "error" in message[0]:
        raise SandboxError(f"cannot open a way to the model: {message[0]['error'] if message else 'no answer'}")
    return message[1][0], message[0]["port"]
