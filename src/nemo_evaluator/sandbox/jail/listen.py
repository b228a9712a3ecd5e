"""A listening socket in a network without a way out, handed over to the process outside that accepts on it."""

import contextlib
import os
import socket
import sys

from . import syscalls, wire


def hand_over(sock: socket.socket, number: int = 0, *, network_of: int | None = None) -> None:
    """Listen on loopback and send the socket and its port, or an error.

    Args:
        sock: Where to send them.
        number: The number of the request that this answers.
        network_of: Listen in the network namespace of this process; None: in our own.
    """
    try:
        if network_of is not None:
            namespace = os.open(f"/proc/{network_of}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            syscalls.setns(namespace, syscalls.CLONE_NEWNET)
        with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
            wire.send(sock, {"id": number, "port": server.getsockname()[1]}, [server.fileno()])
    except OSError as error:
        with contextlib.suppress(OSError):
            wire.send(sock, {"id": number, "error": str(error)})


def main() -> None:
    """``listen.py FD PID``: send a socket in the network of process PID over descriptor FD."""
    hand_over(socket.socket(fileno=int(sys.argv[1])), network_of=int(sys.argv[2]))
