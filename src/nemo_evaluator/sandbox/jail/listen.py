"""A process of a moment: enter another process's network, listen on its loopback, hand the socket over."""

import os
import socket
import sys

from . import syscalls, wire


def main() -> None:
    """``listen.py FD PID``."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    try:
        fd = os.open(f"/proc/{int(sys.argv[2])}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        syscalls.setns(fd, syscalls.CLONE_NEWNET)
        with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
            wire.send(sock, {"port": server.getsockname()[1]}, [server.fileno()])
    except OSError as error:
        wire.send(sock, {"error": str(error)})
