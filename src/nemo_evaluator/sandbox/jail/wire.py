"""Messages between evaluator, keeper and wardens: one packet each, with file descriptors attached.

Both ends are ours and run the same interpreter, so ``marshal`` is safe here; nothing that a sandbox wrote is ever read.
"""

import array
import marshal
import os
import socket
from collections.abc import Sequence
from typing import Any, Final

_IN_PACKET: Final = 60_000
_MAX_FDS: Final = 8
# The first byte of a packet: the message follows, or it is in a memory file, which is the first descriptor.
_INLINE: Final = b"P"
_IN_MEMORY_FILE: Final = b"M"


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets that keep messages apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(sock: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one message.

    Args:
        sock: One end of a ``pair``.
        message: The message, of values that ``marshal`` knows.
        fds: Descriptors to send with it; the sender keeps its own.

    Raises:
        OSError: The other end is gone.
    """
    data = marshal.dumps(message)
    if len(data) <= _IN_PACKET:
        socket.send_fds(sock, [_INLINE + data], fds)
        return
    memory_file = os.memfd_create("nel-message", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(memory_file), "wb") as file:
            file.write(data)
        socket.send_fds(sock, [_IN_MEMORY_FILE], [memory_file, *fds])
    finally:
        os.close(memory_file)


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Receive one message.

    Args:
        sock: One end of a ``pair``.

    Returns:
        The message and its descriptors, which the receiver has to close; None when the other end is gone.
    """
    ancillary_size = socket.CMSG_SPACE(_MAX_FDS * 4)
    try:
        # Not recv_fds, which drops the flag in some versions of Python: commands would inherit the descriptors.
        packet, ancillary, _flags, _address = sock.recvmsg(
            _IN_PACKET + 1024, ancillary_size, socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError:
        return None
    fds = _descriptors(ancillary)
    if not packet:
        return None
    if packet[:1] == _IN_MEMORY_FILE:
        with os.fdopen(fds.pop(0), "rb") as file:
            file.seek(0)
            return marshal.loads(file.read()), fds
    return marshal.loads(packet[1:]), fds


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors among the ancillary data of a packet."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            whole = len(data) - len(data) % fds.itemsize
            fds.frombytes(data[:whole])
    return list(fds)
