"""Processes by number and birth: a number alone may have been given to someone else. The same on Linux and macOS."""

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.lazy import Lazy

# It takes a while, and most commands look at no other process.
psutil: Final[Any] = Lazy("psutil")


def start_time(pid: int) -> int:
    """Return when a process began, in hundredths of a second since boot; 0 for a missing process or a zombie.

    Times since boot stay the same when the clock is set.
    """
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return 0
        since_boot: float = _seconds_since_boot(process)
    except (psutil.NoSuchProcess, ValueError):
        return 0
    except psutil.AccessDenied:
        return 1  # It is there, and somebody else's.
    return max(1, round(since_boot * 100))


def _seconds_since_boot(process: Any) -> float:
    """Return when a process began, in seconds since boot.

    Both times are by the clock: it is read again if it was set meanwhile.
    """
    while True:
        boot: float = psutil.boot_time()
        began: float = process.create_time()
        if psutil.boot_time() == boot:
            return began - boot


def free_port() -> int:
    """Return a port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_alive(pid: int, began: int) -> bool:
    """Return whether the process with this number is still the one that began then."""
    return began > 0 and start_time(pid) == began


def process_name(pid: int) -> str:
    """Return the name of a process; empty when there is none."""
    try:
        return str(psutil.Process(pid).name())
    except (psutil.Error, ValueError):
        return ""


def command_of(pid: int) -> list[str]:
    """Return the command line of a process; empty when there is no such process."""
    try:
        return list(psutil.Process(pid).cmdline())
    except (psutil.Error, ValueError):
        return []


def marked_processes(variable: str) -> dict[int, int]:
    """Find the processes of our own PID namespace that have a variable with a number in their environment.

    Returns:
        The number of each, by process id.
    """
    numbers = {}
    own_namespace = _namespace(os.getpid())
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            mark = process.environ().get(variable, "")
            if mark.isdigit() and _namespace(process.pid) == own_namespace:
                numbers[process.pid] = int(mark)
    return numbers


def processes_of_sessions(leaders: set[int]) -> set[int]:
    """Return the processes in the sessions of some leaders, which may have ended themselves."""
    members = set()
    for pid in psutil.pids():
        with suppress(OSError):
            if os.getsid(pid) in leaders:
                members.add(pid)
    return members


def _namespace(pid: int) -> Path | None:
    """Return the PID namespace of a process; None where there are no namespaces.

    Process numbers are unique in one namespace only.
    """
    if Path("/proc/self/ns/pid").exists():
        return Path(f"/proc/{pid}/ns/pid").readlink()
    return None


def descendants(pid: int) -> list[int]:
    """Return the ids of all processes that a process started, directly or indirectly; zombies too."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def wait_gone(pid: int, seconds: float) -> bool:
    """Wait until a process has ended; returns False when it is still running after so many seconds."""
    began = start_time(pid)
    deadline = time.monotonic() + seconds
    while is_alive(pid, began):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def end_process(pid: int, grace: float) -> None:
    """Send SIGTERM to a process, and SIGKILL when it is still running after ``grace`` seconds."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        if not wait_gone(pid, grace):
            os.kill(pid, signal.SIGKILL)
            wait_gone(pid, grace)


def owner_label() -> str:
    """Return the label of a container's owner: host, process id, and when that process began."""
    return f"{socket.gethostname()}:{os.getpid()}:{start_time(os.getpid())}"
