"""The few system calls that Python 3.11 does not offer, by ctypes."""

import contextlib
import ctypes
import os
import platform
import signal
import struct
from collections.abc import Iterator
from typing import Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000
CLONE_PIDFD: Final = 0x00001000
NAMESPACES: Final = 0x7E020000

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REMOUNT: Final = 32
MS_BIND: Final = 4096

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_NAME: Final = 15
_PR_SET_SECCOMP: Final = 22
_PR_CAPBSET_DROP: Final = 24
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2
_CAPABILITY_VERSION_3: Final = 0x20080522
_LAST_CAP: Final = 63
# Fields of /proc/PID/stat after the name of the command.
_ARG_START: Final = 45
_ARG_END: Final = 46

_SIGCHLD: Final = 17
_CLONE_NR: Final = {"x86_64": 56, "aarch64": 220}
_CAPSET_NR: Final = {"x86_64": 126, "aarch64": 91}

_libc = ctypes.CDLL(None, use_errno=True)


def _must(result: int, call: str) -> int:
    """The result of a system call. Raises OSError, with the name of the call, when it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return int(result)


def child_bell() -> int:
    """A descriptor that is readable when a child has ended, or a signal arrived."""
    wake, bell = os.pipe()
    os.set_blocking(bell, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return wake


def ended_children() -> Iterator[tuple[int, int]]:
    """Process id and status of the children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended


def clone(flags: int) -> tuple[int, int]:
    """Fork into new namespaces, in a process with one thread.

    Args:
        flags: The ``CLONE_NEW...`` flags of the new namespaces.

    Returns:
        The process id and pidfd of the child in the parent; (0, -1) in the child.
    """
    pidfd = ctypes.c_int(-1)
    pid = _libc.syscall(
        ctypes.c_long(_CLONE_NR[platform.machine()]),
        ctypes.c_ulong(flags | CLONE_PIDFD | _SIGCHLD),
        ctypes.c_ulong(0),
        ctypes.byref(pidfd),
        ctypes.c_ulong(0),
        ctypes.c_ulong(0),
    )
    if _must(pid, "clone"):
        return (pid, pidfd.value)
    return (0, -1)


def setns(fd: int, kind: int) -> None:
    """Enter the namespace that ``fd`` refers to, of the kind of a ``CLONE_NEW...`` flag."""
    _must(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def own_ipc() -> None:
    """Enter a new namespace of shared memory, semaphores and message queues."""
    _must(_libc.unshare(ctypes.c_int(CLONE_NEWIPC)), "unshare")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount a file system of a kind at ``target``, with ``MS_...`` flags and the options of that kind."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _must(result, f"mount {kind} on {target}")


def _prctl(option: int, value: int, name: str) -> None:
    zero = ctypes.c_ulong(0)
    _must(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero), name)


def die_with_parent() -> None:
    """Get SIGKILL when the parent dies. Call it after changes of credentials, which clear it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, "PR_SET_PDEATHSIG")


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent died, so that they can be reaped at once."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, "PR_SET_CHILD_SUBREAPER")


def hide_memory() -> None:
    """Keep processes of the same user from reading this one."""
    _prctl(_PR_SET_DUMPABLE, 0, "PR_SET_DUMPABLE")


def set_name(name: str) -> None:
    """Set the name that ``ps`` shows."""
    _libc.prctl(ctypes.c_int(_PR_SET_NAME), ctypes.c_char_p(name.encode()[:15]), 0, 0, 0)


def drop_bounding_set() -> None:
    """Keep every program that is started from here on from gaining a capability."""
    zero = ctypes.c_ulong(0)
    for capability in range(_LAST_CAP + 1):
        if _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), zero, zero, zero) != 0:
            break


def drop_capabilities() -> None:
    """Give up every capability, for this process and all that it will start."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, "PR_SET_NO_NEW_PRIVS")
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    no_capabilities = bytes(24)
    number = ctypes.c_long(_CAPSET_NR[platform.machine()])
    _must(_libc.syscall(number, header, no_capabilities), "capset")


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install_seccomp(program: bytes) -> None:
    """Install a BPF program as the system-call filter of this process and its children."""
    packed = _Program(len(program) // 8, program)
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    _must(_libc.prctl(_PR_SET_SECCOMP, mode, ctypes.byref(packed), 0, 0), "PR_SET_SECCOMP")


def blank_arguments() -> None:
    """Wipe the command line that ``ps`` shows: a sandbox sees it on its process 1, and it holds paths of the host."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        text = file.read()
    fields = text.rpartition(")")[2].split()
    start = int(fields[_ARG_START])
    end = int(fields[_ARG_END])
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
