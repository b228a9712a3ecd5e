"""A listening socket of a network without a way out, handed over to whoever will accept on it outside."""

import contextlib
import os
import socket
import sys

from . import syscalls, wire


def hand_over(sock: socket.socket, number: int = 0, *, network_of: int | None = None) -> None:
    """Listen on the loopback of our network, or of another process's, and answer with the socket and its port."""
    try:
        if network_of is not None:
            syscalls.setns(
                os.open(f"/proc/{network_of}/ns/net", os.O_RDONLY | os.O_CLOEXEC),
                syscalls.CLONE_NEWNET,
            )
        with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
            wire.send(sock, {"id": number, "port": server.getsockname()[1]}, [server.fileno()])
    except OSError as error:
        with contextlib.suppress(OSError):
            wire.send(sock, {"id": number, "error": str(error)})


def main() -> None:
    """``listen.py FD PID``: a process of a moment."""
    hand_over(socket.socket(fileno=int(sys.argv[1])), network_of=int(sys.argv[2]))
