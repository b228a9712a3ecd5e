"""The evaluator's side of local sandboxes: it starts the keeper, and sends requests to one warden per sandbox."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import uuid
from pathlib import Path
from typing import Any, Final, TypeAlias

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox import _bwrap, jail
from nemo_evaluator.sandbox._reaper import own_folder
from nemo_evaluator.sandbox.jail import wire

_START: Final = 20.0
# A message and its descriptors.
Answer: TypeAlias = tuple[dict[str, Any], list[int]]
# High enough to belong to nobody; commands of one evaluator share it, their namespaces keep them apart.
_FIRST_UID: Final = 5_129_000


def state_root() -> Path:
    """Return the folder in which live sandboxes of this user are recorded, for ``nel sandbox``."""
    return own_folder("nel-sandboxes")


class WardenConnection:
    """A socket to a warden, for numbered requests with answers as futures.

    Args:
        sock: Our end, which is closed by ``hang_up``.

    Attributes:
        greeting: The answer to the request for the sandbox, which went to the keeper.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self.greeting: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting = {self._number: self.greeting}
        self._gone = asyncio.Event()
        self._loop.add_reader(sock.fileno(), self._read)

    def ask(self, message: dict[str, Any], fds: list[int]) -> asyncio.Future[Answer]:
        """Send a request.

        Returns:
            A future of its answer and descriptors.

        Raises:
            SandboxError: The warden is gone.
        """
        self._number += 1
        future = self._waiting[self._number] = self._loop.create_future()
        try:
            wire.send(self._sock, {**message, "id": self._number}, fds)
        except OSError as error:
            self._waiting.pop(self._number, None)
            raise SandboxError(f"the sandbox is gone: {error}") from error
        return future

    async def hang_up(self, patience: float = 5.0) -> None:
        """Close the connection, upon which the warden ends with all commands; waits for that up to ``patience`` s."""
        if not self._gone.is_set():
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), patience)
            self._lose()
        self._sock.close()

    def _read(self) -> None:
        """Receive all available messages, and hand each to the request that waits for it."""
        while True:
            try:
                message = wire.receive(self._sock)
            except BlockingIOError:
                return
            if message is None:
                return self._lose()
            body, fds = message
            future = self._waiting.pop(body["id"], None)
            if future is not None and not future.done():
                future.set_result(message)
                continue
            for fd in fds:
                os.close(fd)

    def _lose(self) -> None:
        """Note that the warden is gone: open requests fail."""
        if not self._gone.is_set():
            self._gone.set()
            self._loop.remove_reader(self._sock.fileno())
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(
                    SandboxError("the sandbox ended while it, or a command in it, was starting")
                )
        self._waiting.clear()


class KeeperClient:
    """One keeper process, which all local sandboxes of a manager share.

    Attributes:
        uid: The unprivileged user that commands run as; None: nel itself is unprivileged, and they run as its user.
        controllers: The controllers of control groups that can limit sandboxes.
        folder: The folder of the keeper's files.
    """

    def __init__(self) -> None:
        is_root = os.getuid() == 0
        self.uid: int | None = _FIRST_UID + os.getpid() % 1000 if is_root else None
        self.controllers: list[str] = []
        self._sock: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = asyncio.Lock()
        self.folder = Path()

    async def start(self) -> None:
        """Start the keeper process unless it runs.

        Raises:
            SandboxError: It did not start.
        """
        async with self._lock:
            if self._sock is None:
                await asyncio.to_thread(self._launch)

    def _launch(self) -> None:
        """Start the keeper and wait for its greeting. Raises SandboxError when it does not send one."""
        self.folder = state_root() / f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.folder.mkdir(mode=0o711)
        _bwrap.prepare(self.folder, self.uid if self.uid is not None else os.getuid())
        own_socket, keeper_socket = wire.pair()
        argv = jail.command("keeper", str(keeper_socket.fileno()), str(self.folder))
        with keeper_socket:
            self._process = subprocess.Popen(
                argv,
                pass_fds=[keeper_socket.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={},
                cwd="/",
            )
        own_socket.settimeout(_START)
        try:
            message = wire.receive(own_socket)
        except TimeoutError:
            message = None
        if message is None:
            own_socket.close()
            raise SandboxError("the keeper of local sandboxes did not start")
        self.controllers = message[0]["controllers"]
        self._sock = own_socket

    async def open(self, request: dict[str, Any]) -> tuple[WardenConnection, list[str]]:
        """Create a sandbox; the keeper must run.

        Args:
            request: Its name, limits and shape.

        Returns:
            The connection to its warden, and the folders of its control groups.

        Raises:
            SandboxError: It could not be created.
        """
        assert self._sock is not None
        own_socket, keeper_socket = wire.pair()
        with keeper_socket:
            try:
                wire.send(self._sock, request, [keeper_socket.fileno()])
            except OSError as error:
                own_socket.close()
                raise SandboxError(f"the keeper of local sandboxes is gone: {error}") from error
        connection = WardenConnection(own_socket)
        try:
            async with asyncio.timeout(_START):
                answer, _fds = await connection.greeting
            if "error" in answer:
                raise SandboxError(f"cannot start a local sandbox: {answer['error']}")
        except BaseException as error:
            await connection.hang_up(0)
            if isinstance(error, TimeoutError):
                raise SandboxError("a local sandbox did not start in time") from error
            raise
        return connection, answer["groups"]

    async def close(self) -> None:
        """End the keeper and, through it, every sandbox that is still open."""
        if self._sock is None or self._process is None:
            return
        self._sock.close()
        self._sock = None
        try:
            await asyncio.to_thread(self._process.wait, 15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)
