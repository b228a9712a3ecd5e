"""The system-call filter of local sandboxes, assembled by hand as classic BPF.

It refuses what a program in a sandbox does not need (new namespaces, mounts, ptrace, kernel keys, bpf, io_uring,
exotic socket families) and lets the rest pass; namespaces and dropped capabilities do the main work.
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
# Bytes of one BPF instruction.
_OP_SIZE: Final = 8

# Offsets in the kernel's ``struct seccomp_data``.
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
    """One instruction; ``if_true`` and ``if_false`` are the numbers of instructions that a jump skips."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(number: int) -> bytes:
    """Return an errno to the caller."""
    return _op(_RET, _ERRNO | number)


def _refuse_if(test: int, value: int, number: int) -> bytes:
    """Return an errno when the accumulator passes a test."""
    return _op(test, value, if_true=0, if_false=1) + _refuse(number)


def _only_for(nr: int, body: bytes) -> bytes:
    """``body``, which may change the accumulator, for one system call only; what it does not refuse is allowed."""
    body += _op(_RET, _ALLOW)
    return _op(_JEQ, nr, if_true=0, if_false=len(body) // _OP_SIZE) + body


def build_filter(arch: str | None = None) -> bytes | None:
    """Assemble the filter.

    Args:
        arch: The architecture, as ``platform.machine`` names it; None: this machine's.

    Returns:
        The BPF program, or None for an architecture without a table of system calls.
    """
    arch = arch or platform.machine()
    if arch not in _AUDIT_ARCH:
        return None
    program = _check_architecture(arch)
    # The C library falls back to clone, whose flags can be read here; those of clone3 lie behind a pointer.
    program += _refuse_if(_JEQ, _CLONE3, errno.ENOSYS)
    for nr in sorted({*_REFUSED[arch].values(), *_REFUSED["any"].values()}):
        program += _refuse_if(_JEQ, nr, errno.EPERM)
    program += _only_for(_CLONE[arch], _check_clone())
    program += _only_for(_SOCKET[arch], _check_socket())
    program += _only_for(_IOCTL[arch], _check_ioctl())
    return program + _op(_RET, _ALLOW)


def _check_architecture(arch: str) -> bytes:
    """Kill a caller of another architecture, whose numbers mean other calls; then load the number of the call."""
    program = _op(_LOAD, _AT_ARCH)
    program += _op(_JEQ, _AUDIT_ARCH[arch], if_true=1, if_false=0)
    program += _op(_RET, _KILL)
    program += _op(_LOAD, _AT_NR)
    if arch == "x86_64":
        program += _refuse_if(_JGE, _X32_BIT, errno.ENOSYS)
    return program


def _check_clone() -> bytes:
    """Refuse new namespaces."""
    return _op(_LOAD, _AT_ARG0) + _refuse_if(_JSET, NAMESPACES, errno.EPERM)


def _check_socket() -> bytes:
    """Refuse all but the usual families of sockets."""
    program = _op(_LOAD, _AT_ARG0)
    for position, family in enumerate(_FAMILIES):
        # A known family skips the remaining tests and the refusal.
        program += _op(_JEQ, family, if_true=len(_FAMILIES) - position, if_false=0)
    return program + _refuse(errno.EAFNOSUPPORT)


def _check_ioctl() -> bytes:
    """Refuse the requests that write into a terminal's input."""
    program = _op(_LOAD, _AT_ARG1)
    for request in _IOCTLS:
        program += _refuse_if(_JEQ, request, errno.EPERM)
    return program
