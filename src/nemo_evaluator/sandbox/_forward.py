"""The one way out of a sandbox without a network: a socket inside, whose connections we carry to the model."""

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakSet

from nemo_evaluator.core.broken_ways import note_broken
from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.open_files import is_own_fault, raise_limit
from nemo_evaluator.sandbox import jail
from nemo_evaluator.sandbox.jail import wire

# Connections of one sandbox at once.
_MOST_OF_ONE: Final = 64
_FEWEST_OF_ONE: Final = 4
# Each connection takes two files here, and one more in the proxy.
_SHARE_OF_FILES: Final = 8
_MOST_IN_ALL: Final = 4096
# How long nothing is accepted after a connection over the limit, and after one that the system could not give us.
_PAUSE: Final = 0.01
_LONG_PAUSE: Final = 0.1


class Forwards:
    """The ways out of one sandbox: each accepts on a socket that lives in its network, and connects from ours.

    Connections are capped per sandbox and in all. One that is over the cap is closed at once. When all places are
    taken, a sandbox with fewer connections than the one with most of them gets a place of that one.
    """

    def __init__(self) -> None:
        # URLs of the host as code inside must write them.
        self.urls: dict[str, str] = {}
        # In the order in which they came.
        self.carried: dict[asyncio.Task[None], None] = {}
        self._accepting: list[asyncio.Task[None]] = []

    async def add(self, url: str, listen: Callable[[], Awaitable[tuple[int, int]]]) -> str:
        """Carry to ``url`` what comes to the socket (its descriptor and port) that ``listen`` makes inside; the URL to
        use there. Only plain HTTP can be carried: a certificate would not fit the name inside."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            fix = "give the http:// address of the proxy"
            raise SandboxError(f"{url!r} cannot be carried into a sandbox", hint=fix)
        fd, port = await listen()
        listening_socket = socket.socket(fileno=fd)
        listening_socket.setblocking(False)
        address = (parts.hostname, parts.port or 80)
        _places.enter(self)
        self._accepting.append(asyncio.ensure_future(self._accept(listening_socket, url, address)))
        self.urls[url] = urlunsplit(
            ("http", f"127.0.0.1:{port}", parts.path, parts.query, parts.fragment)
        )
        return self.urls[url]

    async def close(self) -> None:
        """Stop, and cut what is under way."""
        tasks = [*self._accepting, *self.carried]
        self._accepting.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def drop_newest(self) -> None:
        """Cut the connection that came last."""
        newest = next(reversed(self.carried), None)
        if newest is not None:
            del self.carried[newest]
            newest.cancel()

    async def _accept(
        self, listening_socket: socket.socket, url: str, address: tuple[str, int]
    ) -> None:
        """Accept until the sandbox ends; lack of files only delays that."""
        loop = asyncio.get_running_loop()
        with listening_socket:
            while True:
                try:
                    inside, _ = await loop.sock_accept(listening_socket)
                except OSError as error:
                    if not is_own_fault(error) and not isinstance(error, ConnectionError):
                        note_broken(
                            url, f"nothing is accepted from the sandbox any more: {error.strerror}"
                        )
                        return
                    await asyncio.sleep(_LONG_PAUSE)
                    continue
                if not _places.take(self):
                    inside.close()
                    await asyncio.sleep(_PAUSE)
                    continue
                task = asyncio.ensure_future(self._carry(inside, url, address))
                self.carried[task] = None
                task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self.carried.pop(task, None)

    async def _carry(self, inside: socket.socket, url: str, address: tuple[str, int]) -> None:
        writers: list[asyncio.StreamWriter] = []
        try:
            reader, writer = await asyncio.open_connection(sock=inside)
            writers.append(writer)
            try:
                out_reader, out_writer = await asyncio.open_connection(*address)
            except OSError as error:
                # The proxy is ours: that it cannot be reached is nothing that the agent did.
                note_broken(url, os.strerror(error.errno) if error.errno else str(error))
                raise
            writers.append(out_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, out_writer))
                group.create_task(_copy(out_reader, writer))
        except (OSError, asyncio.CancelledError):
            # Nobody is there, or we are done: the caller inside sees its connection close. What is cancelled and says
            # so has asyncio's streams write a traceback (Python 3.11).
            return
        finally:
            for each in writers:
                each.close()
            if not writers:
                inside.close()


class _Places:
    """The connections of all sandboxes of this process, and whose turn it is when there are too many."""

    def __init__(self) -> None:
        self._owners: WeakSet[Forwards] = WeakSet()
        self._most = _MOST_IN_ALL

    def enter(self, owner: Forwards) -> None:
        """A sandbox will have connections."""
        self._owners.add(owner)
        self._most = max(2 * _FEWEST_OF_ONE, min(_MOST_IN_ALL, raise_limit() // _SHARE_OF_FILES))

    def take(self, owner: Forwards) -> bool:
        """Whether a sandbox may have one more connection; another one may lose one for it."""
        own = len(owner.carried)
        if own >= max(_FEWEST_OF_ONE, min(_MOST_OF_ONE, self._most // 2)):
            return False
        in_all = sum([len(each.carried) for each in self._owners])
        if in_all < self._most:
            return True
        largest = max(self._owners, key=lambda each: len(each.carried))
        if len(largest.carried) <= own + 1:
            return False
        largest.drop_newest()
        return True


_places: Final = _Places()


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
