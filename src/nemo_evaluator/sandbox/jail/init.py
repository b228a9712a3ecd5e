"""Process 1 of one command: it gives up every power, starts the command, waits, and takes all along when it ends.

For commands that may leave something running it serves many, and lives as long as the sandbox.

Nothing inside can signal it (it is process 1 of its namespace) or read it (it is not dumpable, and ptrace is refused).
"""

import contextlib
import marshal
import os
import resource
import select
import signal
import socket
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from . import syscalls, wire

_ROUNDS: Final = 20
# How long what was killed may take to be gone, in seconds.
_DYING: Final = 1.0
_RESET: Final = [
    *(signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT, signal.SIGTERM),
    *(signal.SIGHUP, signal.SIGXFSZ, signal.SIGQUIT),
]


class Running(NamedTuple):
    """A command under way."""

    until: float
    report: int
    since: int


def run(sock: socket.socket, seccomp: bytes | None) -> None:
    """Wait for one command and run it; never returns. A warden keeps one ready, since half the cost is here. One that
    may leave something running makes this its home: further commands are run until the socket closes."""
    try:
        wake = _prepare()
        message = wire.receive(sock)
    except OSError:
        message = None
    if message is None:
        os._exit(1)
    request, fds = message
    try:
        _private_folders(request)
        _give_up_powers(request, seccomp)
    except OSError as error:
        _tell(fds[3], {"error": f"cannot prepare the command: {error}"})
        os._exit(0)
    home = request["background"]
    running = dict[int, Running]()
    _begin(running, request, fds)
    if home:
        heard = [wake, sock.fileno()]
    else:
        heard = [wake]
    while running or home:
        now = time.monotonic()
        left = min((job.until - now for job in running.values()), default=None)
        ready, _, _ = select.select(heard, [], [], None if left is None else max(0.0, left))
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)
        _reap(running)
        now = time.monotonic()
        for pid, job in [(pid, job) for pid, job in running.items() if job.until <= now]:
            del running[pid]
            if home:
                _kill_since(job.since, running)
            _tell(job.report, {"timed_out": True})
        if sock.fileno() in ready:
            message = wire.receive(sock)
            if message is None:
                break
            _begin(running, *message)
    os._exit(0)


def _prepare() -> int:
    """What can be done ahead; gives a descriptor that can be read when a child has ended."""
    wake = syscalls.child_bell()
    syscalls.die_with_parent()
    syscalls.hide_memory()
    syscalls.set_name("nel-init")
    syscalls.mount(
        "proc", "/proc", "proc", flags=syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    )
    os.umask(0o022)
    return wake


def _begin(running: dict[int, Running], request: dict[str, Any], fds: list[int]) -> None:
    """``fds`` are stdin, stdout, stderr and the pipe for the report."""
    until = time.monotonic() + request["timeout"]
    since = 0
    if request["background"]:
        # A process that starts in the same tick as the command is taken for its child: deadlines may not be outrun.
        now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
        if not running:
            since = _start_time("self")
        else:
            since = now
    started = _spawn(request, fds)
    if isinstance(started, dict):
        return _tell(fds[3], started)
    # A command that is alone takes all along at its end: nobody asks when it began.
    running[started] = Running(until, fds[3], max(since, _start_time(str(started))) if since else 0)


def _reap(running: dict[int, Running]) -> None:
    for pid, status in syscalls.ended_children():
        job = running.pop(pid, None)
        if job is not None:
            _tell(job.report, {"status": status})


def _kill_since(ticks: int, running: dict[int, Running]) -> None:
    """Kill all that began with the command or after it; if it breeds faster than that, kill everything."""
    killed: set[tuple[int, int]] = set()
    rounds = 0
    until = time.monotonic() + _DYING
    while rounds < _ROUNDS:
        running_now = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        young: set[tuple[int, int]] = set()
        for pid in running_now:
            if pid != 1 and (began := _start_time(str(pid))) >= ticks:
                young.add((pid, began))
        # One that was killed starts no other, but may take a moment to die; only new ones show that it breeds.
        fresh = young - killed
        if fresh:
            rounds += 1
        elif not young or time.monotonic() > until:
            return
        else:
            time.sleep(0.001)
        for pid, _ in fresh:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= fresh
        _reap(running)
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def _start_time(pid: str) -> int:
    try:
        fields = Path("/proc", pid, "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    if fields[0] == "Z":
        return 0
    return int(fields[19])


def _tell(report: int, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(report, marshal.dumps(message))
    os.close(report)


def _private_folders(request: dict[str, Any]) -> None:
    # This process has a mount namespace of its own: what is mounted here, no other command sees.
    if "private" in request:
        syscalls.own_ipc()
    for folder in request.get("private", ()):
        owner = f"uid={os.getuid()},gid={os.getgid()}"
        data = f"mode=0755,size={request['private_size']},{owner}"
        syscalls.mount(
            "tmpfs", folder, "tmpfs", flags=syscalls.MS_NOSUID | syscalls.MS_NODEV, data=data
        )
    if "private" not in request:
        for folder in request["read_only"]:
            flags = syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY
            syscalls.mount("none", folder, "", flags=flags | syscalls.MS_NOSUID | syscalls.MS_NODEV)


def _give_up_powers(request: dict[str, Any], seccomp: bytes | None) -> None:
    """No capabilities, no new ones, fewer system calls, lower limits: from here on we are like the command."""
    syscalls.drop_capabilities()
    if seccomp is not None:
        syscalls.install_seccomp(seccomp)
    for kind, value in request["rlimits"]:
        _soft, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY:
            lower = value
        else:
            lower = min(value, hard)
        resource.setrlimit(kind, (lower, lower))


def _spawn(request: dict[str, Any], fds: list[int]) -> int | dict[str, Any]:
    """Start the command: its process id, or the report of why it could not be started."""
    try:
        os.chdir(request["cwd"])
    except OSError as error:
        return {"errno": 0, "text": f"cannot enter {request['cwd']}: {error.strerror}"}
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
        return {"errno": error.errno, "text": f"{argv[0]}: {error.strerror}"}
    for fd in fds[:3]:
        os.close(fd)
    return pid
