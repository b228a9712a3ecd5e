"""What process 1 does before and as a command starts: own folders, fewer powers, the start itself."""

import os
import resource
import signal
from typing import Any, Final

from . import syscalls

SPAWN_FAILED: Final = "spawn"
_RESET: Final = [
    signal.SIGCHLD,
    signal.SIGPIPE,
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGXFSZ,
    signal.SIGQUIT,
]


def private_folders(request: dict[str, Any]) -> None:
    # This process has a mount namespace of its own: what is mounted here, no other command sees.
    if "private" in request:
        syscalls.own_ipc()
    for folder in request.get("private", ()):
        owner = f"uid={os.getuid()},gid={os.getgid()}"
        data = f"mode=0755,size={request['private_size']},{owner}"
        syscalls.mount("tmpfs", folder, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, data)
    if "private" not in request:
        for folder in request["read_only"]:
            flags = syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY
            syscalls.mount("none", folder, "", flags | syscalls.MS_NOSUID | syscalls.MS_NODEV)


def give_up_powers(request: dict[str, Any], seccomp: bytes | None) -> None:
    """No capabilities, no new ones, fewer system calls, lower limits: from here on we are like the command."""
    syscalls.drop_capabilities()
    if seccomp is not None:
        syscalls.install_seccomp(seccomp)
    for kind, value in request["rlimits"]:
        _lower(kind, value)


def spawn(request: dict[str, Any], fds: list[int]) -> int | dict[str, Any]:
    """Start the command: its process id, or the report of why it could not be started."""
    try:
        os.chdir(request["cwd"])
    except OSError as error:
        return {"failed": SPAWN_FAILED, "errno": 0, "text": f"cannot enter {request['cwd']}: {error.strerror}"}
    argv = request["argv"]
    try:
        pid = os.posix_spawnp(
            argv[0],
            argv,
            request["env"],
            file_actions=[(os.POSIX_SPAWN_DUP2, fds[n], n) for n in range(3)],
            setsid=True,
            setsigmask=[],
            setsigdef=_RESET,
        )
    except OSError as error:
        return {"failed": SPAWN_FAILED, "errno": error.errno, "text": f"{argv[0]}: {error.strerror}"}
    for fd in fds[:3]:
        os.close(fd)
    return pid


def _lower(kind: int, value: int) -> None:
    _soft, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))
