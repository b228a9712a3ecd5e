"""The system-call filter of local sandboxes, assembled by hand as classic BPF.

It refuses what a program has no business doing in a sandbox (new namespaces, mounts, ptrace, kernel keys, bpf,
io_uring, exotic socket families) and lets the rest pass; namespaces and dropped capabilities do the main work.
"""

import errno
import json
import platform
import struct
from pathlib import Path
from typing import Final

from .syscalls import NAMESPACES

_LOAD: Final = 0x20
_JEQ: Final = 0x15
_JGE: Final = 0x35
_JSET: Final = 0x45
_RET: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000
_KILL: Final = 0x80000000

_AT_NR: Final = 0
_AT_ARCH: Final = 4
_AT_ARG0: Final = 16
_AT_ARG1: Final = 24

_AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ARCHITECTURES: Final = tuple(_AUDIT_ARCH)
# The system calls that are refused, with their numbers; those from 424 on are the same everywhere.
_REFUSED: Final = json.loads(Path(__file__).with_name("refused_calls.json").read_text())
_CLONE3: Final = 435
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
_SOCKET: Final = {"x86_64": 41, "aarch64": 198}
_IOCTL: Final = {"x86_64": 16, "aarch64": 29}
_X32_BIT: Final = 0x40000000
# Unix, IPv4, IPv6, netlink. Others (packet, vsock, ...) reach past a network namespace or are attack surface.
_FAMILIES: Final = (1, 2, 10, 16)
# TIOCSTI types into the terminal of whoever started us; TIOCLINUX does worse.
_IOCTLS: Final = (0x5412, 0x541C)


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(number: int) -> bytes:
    return _op(_RET, _ERRNO | number)


def _when(nr: int, body: bytes) -> bytes:
    """``body``, which may change the accumulator, for one system call only."""
    body += _op(_RET, _ALLOW)
    return _op(_JEQ, nr, 0, if_false=len(body) // 8) + body


def build_filter(arch: str | None = None) -> bytes | None:
    """The BPF program for an architecture; None for one that we have no table for."""
    arch = arch or platform.machine()
    if arch not in _AUDIT_ARCH:
        return None
    program = (
        _op(_LOAD, _AT_ARCH)
        + _op(_JEQ, _AUDIT_ARCH[arch], 1, if_false=0)
        + _op(_RET, _KILL)
        + _op(_LOAD, _AT_NR)
    )
    if arch == "x86_64":
        program += _op(_JGE, _X32_BIT, 0, if_false=1) + _refuse(errno.ENOSYS)
    # The C library falls back to clone, whose flags can be read here; those of clone3 lie behind a pointer.
    program += _op(_JEQ, _CLONE3, 0, if_false=1) + _refuse(errno.ENOSYS)
    for nr in sorted({*_REFUSED[arch].values(), *_REFUSED["any"].values()}):
        program += _op(_JEQ, nr, 0, if_false=1) + _refuse(errno.EPERM)
    program += _when(
        _CLONE[arch],
        _op(_LOAD, _AT_ARG0) + _op(_JSET, NAMESPACES, 0, if_false=1) + _refuse(errno.EPERM),
    )
    families = b"".join(
        _op(_JEQ, family, len(_FAMILIES) - i, if_false=0) for i, family in enumerate(_FAMILIES)
    )
    program += _when(_SOCKET[arch], _op(_LOAD, _AT_ARG0) + families + _refuse(errno.EAFNOSUPPORT))
    ioctls = b"".join(_op(_JEQ, number, 0, if_false=1) + _refuse(errno.EPERM) for number in _IOCTLS)
    program += _when(_IOCTL[arch], _op(_LOAD, _AT_ARG1) + ioctls)
    return program + _op(_RET, _ALLOW)
