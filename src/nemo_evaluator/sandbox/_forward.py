"""The only way out of a sandbox without a network: a socket inside, whose connections nel forwards to the model."""

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

# Concurrent connections of one sandbox, at most and at least.
_MOST_OF_ONE: Final = 64
_FEWEST_OF_ONE: Final = 4
# Each connection takes two files here, and one more in the proxy.
_SHARE_OF_FILES: Final = 8
_MOST_IN_ALL: Final = 4096
# Seconds without accepting after a connection over the limit, and after a failed accept.
_PAUSE: Final = 0.01
_LONG_PAUSE: Final = 0.1


class Forwards:
    """The forwarded URLs of one sandbox: each has a socket in the sandbox's network, and connects from the host's.

    The number of connections is limited per sandbox and in total; one over the limit is closed at once. At the total
    limit, a new connection replaces the newest one of the sandbox with the most, if that has clearly more.

    Attributes:
        urls: The forwarded URLs of the host, with the URL to use inside.
        carried: The connections, the oldest first.
    """

    def __init__(self) -> None:
        self.urls: dict[str, str] = {}
        self.carried: dict[asyncio.Task[None], None] = {}
        self._accepting: list[asyncio.Task[None]] = []

    async def add(self, url: str, listen: Callable[[], Awaitable[tuple[int, int]]]) -> str:
        """Forward the connections to a socket inside.

        Args:
            url: Where to forward them; only plain HTTP, since a certificate would not match the name inside.
            listen: Creates the socket inside, and returns its descriptor and port.

        Returns:
            The URL to use inside.

        Raises:
            SandboxError: The URL cannot be forwarded.
        """
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise SandboxError(
                f"{url!r} cannot be carried into a sandbox",
                hint="give the http:// address of the proxy",
            )
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
        """Stop accepting, and close all connections."""
        tasks = [*self._accepting, *self.carried]
        self._accepting.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def drop_newest(self) -> None:
        """Close the newest connection."""
        newest = next(reversed(self.carried), None)
        if newest is not None:
            del self.carried[newest]
            newest.cancel()

    async def _accept(
        self, listening_socket: socket.socket, url: str, address: tuple[str, int]
    ) -> None:
        """Accept until the sandbox ends; a lack of file descriptors only delays the next connection."""
        loop = asyncio.get_running_loop()
        with listening_socket:
            while True:
                try:
                    accepted_socket, _ = await loop.sock_accept(listening_socket)
                except OSError as error:
                    if not is_own_fault(error) and not isinstance(error, ConnectionError):
                        note_broken(
                            url, f"nothing is accepted from the sandbox any more: {error.strerror}"
                        )
                        return
                    await asyncio.sleep(_LONG_PAUSE)
                    continue
                if not _places.take(self):
                    accepted_socket.close()
                    await asyncio.sleep(_PAUSE)
                    continue
                task = asyncio.ensure_future(self._carry(accepted_socket, url, address))
                self.carried[task] = None
                task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self.carried.pop(task, None)

    async def _carry(self, inside: socket.socket, url: str, address: tuple[str, int]) -> None:
        """Forward one connection until either side closes it."""
        writers: list[asyncio.StreamWriter] = []
        try:
            reader, writer = await asyncio.open_connection(sock=inside)
            writers.append(writer)
            try:
                out_reader, out_writer = await asyncio.open_connection(*address)
            except OSError as error:
                # The proxy is ours: the agent did not cause this.
                note_broken(url, os.strerror(error.errno) if error.errno else str(error))
                raise
            writers.append(out_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, out_writer))
                group.create_task(_copy(out_reader, writer))
        except (OSError, asyncio.CancelledError):
            # The proxy is gone, or the sandbox ends: the caller inside sees its connection close. Raising the
            # cancellation again would make asyncio's streams print a traceback (Python 3.11).
            return
        finally:
            for open_writer in writers:
                open_writer.close()
            if not writers:
                inside.close()


class _Places:
    """The connections of all sandboxes of this process, and the rule for when there are too many."""

    def __init__(self) -> None:
        self._owners: WeakSet[Forwards] = WeakSet()
        self._most = _MOST_IN_ALL

    def enter(self, owner: Forwards) -> None:
        """Register a sandbox that will have connections."""
        self._owners.add(owner)
        self._most = max(2 * _FEWEST_OF_ONE, min(_MOST_IN_ALL, raise_limit() // _SHARE_OF_FILES))

    def take(self, owner: Forwards) -> bool:
        """Whether a sandbox may have one more connection; another sandbox may lose one for it."""
        own_count = len(owner.carried)
        own_limit = max(_FEWEST_OF_ONE, min(_MOST_OF_ONE, self._most // 2))
        if own_count >= own_limit:
            return False
        total = sum([len(forwards.carried) for forwards in self._owners])
        if total < self._most:
            return True
        largest = max(self._owners, key=lambda forwards: len(forwards.carried))
        if len(largest.carried) <= own_count + 1:
            return False
        largest.drop_newest()
        return True


_places: Final = _Places()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction of a connection to its end."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def listen_in(pid: int) -> tuple[int, int]:
    """Listen on the loopback of another process's network, as root.

    Args:
        pid: The process.

    Returns:
        The descriptor of the socket, and its port.

    Raises:
        SandboxError: The network cannot be entered.
    """
    own_socket, helper_socket = wire.pair()
    argv = jail.command("listen", str(helper_socket.fileno()), str(pid))
    with own_socket, helper_socket:
        process = subprocess.Popen(
            argv, pass_fds=[helper_socket.fileno()], stdin=subprocess.DEVNULL
        )
        helper_socket.close()
        message = wire.receive(own_socket)
        process.wait()
    return listening(message or ({"error": "no answer"}, []))


def listening(message: tuple[dict[str, Any], list[int]]) -> tuple[int, int]:
    """Return the descriptor and the port of the socket in a message.

    Raises:
        SandboxError: The message is an error.
    """
    answer, fds = message
    if "error" in answer:
        raise SandboxError(f"cannot open a way to the model: {answer['error']}")
    return fds[0], answer["port"]
