"""The one way out of a sandbox without a network: a socket inside, whose connections we carry to the model."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox.jail import wire


@dataclass(frozen=True, slots=True)
class Target:
    """Where connections go."""

    host: str
    port: int

    @staticmethod
    def rewrite(url: str, port: int) -> str:
        """The URL as code inside the sandbox must write it."""
        parts = urlsplit(url)
        return urlunsplit(("http", f"127.0.0.1:{port}", parts.path, parts.query, parts.fragment))


def target_of(url: str) -> Target:
    """Host and port of a proxy URL; only plain HTTP can be carried: a certificate would not fit the name inside."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise SandboxError(f"{url!r} cannot be carried into a sandbox", hint="give the http:// address of the proxy")
    return Target(parts.hostname, parts.port or 80)


class Forward:
    """Accepts on a socket that lives in the sandbox's network and connects to the target from ours."""

    def __init__(self, target: Target, fd: int) -> None:
        self._target = target
        self._socket = socket.socket(fileno=fd)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to accept."""
        self._socket.setblocking(False)
        self._server = await asyncio.start_server(self._serve, sock=self._socket)

    async def close(self) -> None:
        """Stop, and cut what is under way."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            out_reader, out_writer = await asyncio.open_connection(self._target.host, self._target.port)
        except OSError:
            writer.close()
            return
        finally:
            self._tasks.discard(task)
        self._tasks.add(task)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, out_writer))
                group.create_task(_copy(out_reader, writer))
        finally:
            self._tasks.discard(task)
            for each in (writer, out_writer):
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
    folder = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {folder!r}); from jail.listen import main; main()"
    argv = [sys.executable, "-I", "-S", "-c", code, str(theirs.fileno()), str(pid)]
    with ours, theirs:
        process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        message = wire.receive(ours)
        process.wait()
    if message is None or "error" in message[0]:
        raise SandboxError(f"cannot open a way to the model: {message[0]['error'] if message else 'no answer'}")
    return message[1][0], message[0]["port"]
