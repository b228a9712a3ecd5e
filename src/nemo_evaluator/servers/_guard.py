"""Runs one server, and ends it with all its descendants on a signal or when the evaluator is gone.

Started as ``python -m nemo_evaluator.servers._guard LIFELINE_FD GRACE_SECONDS COMMAND...``. The evaluator holds the
other end of the lifeline, a pipe; the kernel closes it however the evaluator ends, SIGKILL included. For a server in
a container, the command is the engine's client; ``NEL_GUARD_CONTAINER`` names the container, which the guard removes.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time

from nemo_evaluator.core.processes import descendants

# In the environment of everything that a guard starts: the process id of the guard.
MARK = "NEL_GUARDED_BY"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# Seconds that an engine may take to create a container.
_CREATION_S = 8


class Wakeups:
    """Signals as bytes on a pipe, so that ``select`` waits for them together with the lifeline."""

    _WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in self._WATCHED:
            signal.signal(number, lambda *_: None)

    def take(self) -> set[int]:
        """The numbers of the signals that have arrived."""
        return set(os.read(self.reader, 1024))


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _signal_all(number: signal.Signals) -> None:
    for pid in descendants(os.getpid()):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _reap() -> dict[int, int]:
    """Collect the children that have ended.

    Returns:
        Their exit codes by process id; negative for a child that a signal ended.
    """
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def _end_descendants(grace: float) -> None:
    """Send SIGTERM to all descendants, and SIGKILL to those that still run after ``grace`` seconds."""
    _signal_all(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and descendants(os.getpid()):
        _reap()
        time.sleep(0.02)
    while descendants(os.getpid()):
        _signal_all(signal.SIGKILL)
        _reap()
        time.sleep(0.01)


def _log(text: str) -> None:
    try:
        print(text, file=sys.stderr)
    except OSError:
        # The evaluator, which wrote the log, is gone; ending the server comes first.
        return


def _docker(*words: str) -> bool:
    """Run a docker command; True when it succeeded and its container existed."""
    try:
        ended = subprocess.run(["docker", *words], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        _log(f"docker {' '.join(words)}: {error}; the container may be left behind")
        return False
    return ended.returncode == 0 and b"No such container" not in ended.stderr


def _remove_container(container: str) -> bool:
    return _docker("rm", "--force", container)


def _end_server(container: str, grace: float) -> None:
    """End the server and, if it is a container, remove the container."""
    if not container:
        _end_descendants(grace)
        return
    exists = _docker("container", "inspect", container)
    _end_descendants(grace)
    if exists:
        _remove_container(container)
        return
    # The engine may still be creating it: then the container appears after its client is gone.
    for _ in range(_CREATION_S):
        if _remove_container(container):
            return
        time.sleep(1.0)


def _start(command: list[str], pass_fds: list[int]) -> subprocess.Popen[bytes]:
    """Start the server. The kernel kills it when the guard itself is killed."""
    # This process has one thread, so running Python code between fork and exec is safe.
    return subprocess.Popen(
        command, pass_fds=pass_fds, preexec_fn=lambda: _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    )


def main(arguments: list[str]) -> int:
    """Run a server until it ends or the lifeline breaks.

    Args:
        arguments: The number of the lifeline's descriptor, the seconds between SIGTERM and SIGKILL, and the command.

    Returns:
        The exit code of the server, or 0 when the guard ended it.
    """
    lifeline = int(arguments[0])
    grace = float(arguments[1])
    command = arguments[2:]
    container = os.environ.pop("NEL_GUARD_CONTAINER", "")
    os.environ[MARK] = str(os.getpid())
    fd_list = os.environ.pop("NEL_GUARD_FDS", "")
    server_fds = [int(number) for number in fd_list.split(",") if number]
    wakeups = Wakeups()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        server = _start(command, server_fds)
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    for fd in server_fds:
        os.close(fd)
    code = _watch(server.pid, lifeline, wakeups)
    if code is None:
        _end_server(container, grace)
        return 0
    _end_descendants(grace)
    if container:
        _remove_container(container)
    if code < 0:
        return 128 - code
    return code


def _watch(server_pid: int, lifeline: int, wakeups: Wakeups) -> int | None:
    """Wait until the server ends, and return its exit code; None when it has to be ended."""
    while True:
        ready, _, _ = select.select([lifeline, wakeups.reader], [], [])
        signals: set[int] = set()
        if wakeups.reader in ready:
            signals = wakeups.take()
        code = _reap().get(server_pid)
        if code is not None:
            return code
        asked_to_end = bool(signals - {signal.SIGCHLD})
        if asked_to_end or lifeline in ready:
            return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
