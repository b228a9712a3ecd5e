"""Messages between evaluator, keeper and wardens: one packet each, with file descriptors beside it.

Both ends are ours and run the same interpreter, so ``marshal`` will do; nothing that a sandbox wrote is ever read here.
"""

import array
import marshal
import os
import socket
from typing import Any, Final

_IN_PACKET: Final = 60_000
_MAX_FDS: Final = 8


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends that keep the borders of messages."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def pack(message: dict[str, Any], fds: list[int]) -> tuple[bytes, list[int], int | None]:
    """(packet, descriptors, descriptor to close afterwards). A message too long for a packet goes as a memory file."""
    data = marshal.dumps(message)
    if len(data) <= _IN_PACKET:
        return b"P" + data, fds, None
    spill = os.memfd_create("nel-message", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(spill), "wb") as file:
        file.write(data)
    return b"M", [spill, *fds], spill


def send(sock: socket.socket, message: dict[str, Any], fds: list[int] | None = None) -> None:
    """Send one message with its descriptors."""
    packet, passed, spill = pack(message, fds or [])
    try:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", passed))] if passed else []
        sock.sendmsg([packet], rights)
    finally:
        if spill is not None:
            os.close(spill)


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors; None when the other end is gone."""
    try:
        packet, ancillary, _flags, _address = sock.recvmsg(
            _IN_PACKET + 1024, socket.CMSG_SPACE(_MAX_FDS * 4), socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError:
        return None
    fds: list[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            passed = array.array("i")
            passed.frombytes(data[: len(data) - len(data) % passed.itemsize])
            fds += passed
    if not packet:
        return None
    if packet[:1] == b"M":
        spill = fds.pop(0)
        with os.fdopen(spill, "rb") as file:
            file.seek(0)
            return marshal.loads(file.read()), fds
    return marshal.loads(packet[1:]), fds
