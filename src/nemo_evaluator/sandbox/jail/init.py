"""Process 1 of one command: it gives up its privileges, starts the command, waits, and ends everything with itself.

One init serves many commands where these may leave processes running; it lives as long as the sandbox.

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
# How long killed processes may take to end, in seconds.
_DYING: Final = 1.0
_RESET: Final = [
    signal.SIGCHLD,
    signal.SIGPIPE,
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGXFSZ,
    signal.SIGQUIT,
]
# Fields of /proc/PID/stat after the name of the command.
_STATE: Final = 0
_START_TIME: Final = 19


class Running(NamedTuple):
    """A command that runs."""

    #: Its deadline, by the monotonic clock.
    until: float
    #: The pipe for the report of its end.
    report: int
    #: Processes that began at this clock tick or later may be its own; 0 where nobody has to know.
    since: int


class StartError(NamedTuple):
    """Why a command could not be started; ``errno`` is 0 when its working directory is the reason."""

    errno: int
    text: str


def run(sock: socket.socket, seccomp: bytes | None) -> None:
    """Wait for one command and run it; never returns.

    A warden keeps one init ready, since half the cost of a command is here. A background command makes this init its
    home: further commands are run until the socket closes.

    Args:
        sock: The socket to the warden.
        seccomp: The system-call filter of the command; None: there is none for this machine.
    """
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
        _give_up_privileges(request, seccomp)
    except OSError as error:
        _send_report(fds[3], {"error": f"cannot prepare the command: {error}"})
        os._exit(0)
    running = dict[int, Running]()
    _begin(running, request, fds)
    _serve(running, sock, wake, is_home=request["background"])
    os._exit(0)


def _serve(running: dict[int, Running], sock: socket.socket, wake: int, *, is_home: bool) -> None:
    """Report the ends of commands and enforce their deadlines, until the last has ended; a home also starts more."""
    watched = [wake, sock.fileno()] if is_home else [wake]
    while running or is_home:
        ready, _, _ = select.select(watched, [], [], _seconds_left(running))
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)
        _reap(running)
        _end_late(running, is_home=is_home)
        if sock.fileno() in ready:
            message = wire.receive(sock)
            if message is None:
                return
            _begin(running, *message)


def _seconds_left(running: dict[int, Running]) -> float | None:
    """Seconds until the next deadline; None when nothing runs."""
    if not running:
        return None
    return max(0.0, min(job.until for job in running.values()) - time.monotonic())


def _end_late(running: dict[int, Running], *, is_home: bool) -> None:
    """Report the commands that have passed their deadline, and kill their processes."""
    now = time.monotonic()
    late = {pid: job for pid, job in running.items() if job.until <= now}
    # All are taken out first: the kill for one may end another, which is late all the same.
    for pid in late:
        del running[pid]
    for job in late.values():
        # Without a home, the end of this init kills everything.
        if is_home:
            _kill_since(job.since, running)
        _send_report(job.report, {"timed_out": True})


def _prepare() -> int:
    """Do what needs no command yet. Returns a descriptor that is readable when a child has ended."""
    wake = syscalls.child_bell()
    syscalls.die_with_parent()
    syscalls.hide_memory()
    syscalls.set_name("nel-init")
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    syscalls.mount("proc", "/proc", "proc", flags=flags)
    os.umask(0o022)
    return wake


def _begin(running: dict[int, Running], request: dict[str, Any], fds: list[int]) -> None:
    """Start a command and note it, or report why it could not be started.

    Args:
        running: The commands that run, by process id.
        request: The command.
        fds: Its stdin, stdout and stderr, and the pipe for the report.
    """
    until = time.monotonic() + request["timeout"]
    since = 0
    if request["background"]:
        # A process that starts in the same tick as the command is taken for its child: deadlines may not be outrun.
        since = _clock_ticks() if running else _start_time("self")
    started = _spawn(request, fds)
    if isinstance(started, StartError):
        _send_report(fds[3], {"errno": started.errno, "text": started.text})
        return
    if since:
        since = max(since, _start_time(str(started)))
    running[started] = Running(until, fds[3], since)


def _clock_ticks() -> int:
    """The time since boot in the unit of /proc/PID/stat."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def _reap(running: dict[int, Running]) -> None:
    """Report the commands that have ended."""
    for pid, status in syscalls.ended_children():
        job = running.pop(pid, None)
        if job is not None:
            _send_report(job.report, {"status": status})


def _kill_since(ticks: int, running: dict[int, Running]) -> None:
    """Kill all processes that began at ``ticks`` or later; if they fork faster than that, kill everything."""
    killed: set[tuple[int, int]] = set()
    rounds = 0
    until = time.monotonic() + _DYING
    while rounds < _ROUNDS:
        young = _processes_since(ticks)
        # A killed process starts no other, but may take a moment to end; only new ones show that it forks.
        fresh = young - killed
        if fresh:
            rounds += 1
        elif not young or time.monotonic() > until:
            return
        else:
            time.sleep(0.001)
        for pid, _began in fresh:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= fresh
        _reap(running)
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def _processes_since(ticks: int) -> set[tuple[int, int]]:
    """The processes, besides this one, that began at ``ticks`` or later, each with its start time."""
    young: set[tuple[int, int]] = set()
    for path in list(Path("/proc").iterdir()):
        if not path.name.isdigit() or path.name == "1":
            continue
        began = _start_time(path.name)
        if began >= ticks:
            young.add((int(path.name), began))
    return young


def _start_time(pid: str) -> int:
    """When a process began, in clock ticks since boot; 0 when it is gone or a zombie."""
    try:
        text = Path("/proc", pid, "stat").read_text(errors="replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    if fields[_STATE] == "Z":
        return 0
    return int(fields[_START_TIME])


def _send_report(report: int, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(report, marshal.dumps(message))
    os.close(report)


def _private_folders(request: dict[str, Any]) -> None:
    """Mount empty folders for a private command; for any other one, remount those that it may only read.

    This process has a mount namespace of its own: no other command sees these mounts.
    """
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
    if "private" in request:
        syscalls.own_ipc()
        owner = f"uid={os.getuid()},gid={os.getgid()}"
        data = f"mode=0755,size={request['private_size']},{owner}"
        for folder in request["private"]:
            syscalls.mount("tmpfs", folder, "tmpfs", flags=flags, data=data)
        return
    flags |= syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY
    for folder in request["read_only"]:
        syscalls.mount("none", folder, "", flags=flags)


def _give_up_privileges(request: dict[str, Any], seccomp: bytes | None) -> None:
    """Drop capabilities, install the filter and lower the limits; from here on this process can do no more than the
    command."""
    syscalls.drop_capabilities()
    if seccomp is not None:
        syscalls.install_seccomp(seccomp)
    for kind, value in request["rlimits"]:
        _soft, hard = resource.getrlimit(kind)
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (limit, limit))


def _spawn(request: dict[str, Any], fds: list[int]) -> int | StartError:
    """Start the command: its process id, or why it could not be started."""
    try:
        os.chdir(request["cwd"])
    except OSError as error:
        return StartError(0, f"cannot enter {request['cwd']}: {error.strerror}")
    argv = request["argv"]
    try:
        pid = os.posix_spawnp(
            argv[0],
            argv,
            request["env"],
            file_actions=[(os.POSIX_SPAWN_DUP2, fds[number], number) for number in range(3)],
            setsid=True,
            setsigmask=[],
            setsigdef=_RESET,
        )
    except OSError as error:
        return StartError(error.errno or 0, f"{argv[0]}: {error.strerror}")
    for fd in fds[:3]:
        os.close(fd)
    return pid
