"""Messages between evaluator, keeper and wardens: one packet each, with file descriptors beside it.

Both ends are ours and run the same interpreter, so ``marshal`` will do; nothing that a sandbox wrote is ever read here.
"""

import array
import marshal
import os
import socket
from collections.abc import Sequence
from typing import Any, Final

_IN_PACKET: Final = 60_000
_MAX_FDS: Final = 8


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends that keep the borders of messages."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(sock: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one message with its descriptors; one too long for a packet goes as a memory file."""
    data = marshal.dumps(message)
    spill = -1
    packet = b"P" + data
    try:
        if len(data) > _IN_PACKET:
            spill = os.memfd_create("nel-message", os.MFD_CLOEXEC)
            with os.fdopen(os.dup(spill), "wb") as file:
                file.write(data)
            packet = b"M"
            fds = [spill, *fds]
        socket.send_fds(sock, [packet], fds)
    finally:
        if spill >= 0:
            os.close(spill)


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors; None when the other end is gone."""
    fds = array.array("i")
    room = socket.CMSG_SPACE(_MAX_FDS * 4)
    try:
        # Not recv_fds, which drops the flag in some versions of Python: commands would inherit the descriptors.
        packet, ancillary, _flags, _address = sock.recvmsg(
            _IN_PACKET + 1024, room, socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError:
        return None
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if packet[:1] == b"M":
        with os.fdopen(fds.pop(0), "rb") as file:
            file.seek(0)
            return marshal.loads(file.read()), list(fds)
    if packet:
        return (marshal.loads(packet[1:]), list(fds))
    return None
