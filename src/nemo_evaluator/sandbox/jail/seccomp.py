"""The system-call filter of local sandboxes, assembled by hand as classic BPF.

It refuses what a program has no business doing in a sandbox (new namespaces, mounts, ptrace, kernel keys, bpf,
io_uring, exotic socket families) and lets the rest pass; namespaces and dropped capabilities do the main work.
"""

from __future__ import annotations

import errno
import struct
from typing import Final

from .syscalls import NAMESPACES, machine

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
# Numbers from 424 on are the same everywhere.
_COMMON: Final = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "open_tree_attr": 467,
}
_CLONE3: Final = 435
_X86_64: Final = {
    "uselib": 134,
    "ustat": 136,
    "sysfs": 139,
    "vhangup": 153,
    "modify_ldt": 154,
    "pivot_root": 155,
    "_sysctl": 156,
    "adjtimex": 159,
    "chroot": 161,
    "acct": 163,
    "settimeofday": 164,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "sethostname": 170,
    "setdomainname": 171,
    "iopl": 172,
    "ioperm": 173,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "nfsservctl": 180,
    "lookup_dcookie": 212,
    "clock_settime": 227,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "migrate_pages": 256,
    "unshare": 272,
    "move_pages": 279,
    "perf_event_open": 298,
    "fanotify_init": 300,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "clock_adjtime": 305,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
    "ptrace": 101,
    "syslog": 103,
}
_AARCH64: Final = {
    "lookup_dcookie": 18,
    "umount2": 39,
    "mount": 40,
    "pivot_root": 41,
    "nfsservctl": 42,
    "chroot": 51,
    "vhangup": 58,
    "quotactl": 60,
    "acct": 89,
    "unshare": 97,
    "kexec_load": 104,
    "init_module": 105,
    "delete_module": 106,
    "clock_settime": 112,
    "syslog": 116,
    "ptrace": 117,
    "reboot": 142,
    "sethostname": 161,
    "setdomainname": 162,
    "settimeofday": 170,
    "adjtimex": 171,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "swapon": 224,
    "swapoff": 225,
    "migrate_pages": 238,
    "move_pages": 239,
    "perf_event_open": 241,
    "fanotify_init": 262,
    "name_to_handle_at": 264,
    "open_by_handle_at": 265,
    "clock_adjtime": 266,
    "setns": 268,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "kcmp": 272,
    "finit_module": 273,
    "bpf": 280,
    "userfaultfd": 282,
    "kexec_file_load": 294,
}
_REFUSED: Final = {"x86_64": _X86_64, "aarch64": _AARCH64}
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
    return _op(_JEQ, nr, 0, len(body) // 8) + body


def build_filter(arch: str | None = None) -> bytes | None:
    """The BPF program for an architecture; None for one that we have no table for."""
    arch = arch or machine()
    if arch not in _AUDIT_ARCH:
        return None
    program = _op(_LOAD, _AT_ARCH) + _op(_JEQ, _AUDIT_ARCH[arch], 1, 0) + _op(_RET, _KILL) + _op(_LOAD, _AT_NR)
    if arch == "x86_64":
        program += _op(_JGE, _X32_BIT, 0, 1) + _refuse(errno.ENOSYS)
    # The C library falls back to clone, whose flags can be read here; those of clone3 lie behind a pointer.
    program += _op(_JEQ, _CLONE3, 0, 1) + _refuse(errno.ENOSYS)
    for nr in sorted({*_REFUSED[arch].values(), *_COMMON.values()}):
        program += _op(_JEQ, nr, 0, 1) + _refuse(errno.EPERM)
    program += _when(_CLONE[arch], _op(_LOAD, _AT_ARG0) + _op(_JSET, NAMESPACES, 0, 1) + _refuse(errno.EPERM))
    families = b"".join(_op(_JEQ, family, len(_FAMILIES) - i, 0) for i, family in enumerate(_FAMILIES))
    program += _when(_SOCKET[arch], _op(_LOAD, _AT_ARG0) + families + _refuse(errno.EAFNOSUPPORT))
    ioctls = b"".join(_op(_JEQ, number, 0, 1) + _refuse(errno.EPERM) for number in _IOCTLS)
    program += _when(_IOCTL[arch], _op(_LOAD, _AT_ARG1) + ioctls)
    return program + _op(_RET, _ALLOW)
