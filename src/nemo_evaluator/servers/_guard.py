"""Runs one server and takes it down, with all it started, when told to or when the evaluator is gone.

Started as ``python -m nemo_evaluator.servers._guard LIFELINE_FD GRACE_SECONDS COMMAND...``. The evaluator holds the
other end of the lifeline, a pipe; the kernel closes it however the evaluator ends, SIGKILL included. A server that
is a container has a client here; ``NEL_GUARD_CONTAINER`` names the container, which is removed with it.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time

from nemo_evaluator.core.processes import descendants

# In the environment of everything that a guard starts: the number of the guard.
MARK = "NEL_GUARDED_BY"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# Seconds in which an engine makes a container.
_CREATION_S = 8


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
    """Exit codes of the children that have ended."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def _take_down(grace: float) -> None:
    _signal_all(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and descendants(os.getpid()):
        _reap()
        time.sleep(0.02)
    while descendants(os.getpid()):
        _signal_all(signal.SIGKILL)
        _reap()
        time.sleep(0.01)


def _say(text: str) -> None:
    try:
        print(text, file=sys.stderr)
    except OSError:
        # The evaluator, who kept the log, is gone; taking down comes first.
        return


def _docker(*words: str) -> bool:
    """Whether the engine did it, and did it to something."""
    try:
        done = subprocess.run(["docker", *words], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        _say(f"docker {' '.join(words)}: {error}; the container may be left behind")
        return False
    return done.returncode == 0 and b"No such container" not in done.stderr


def _end(container: str, grace: float) -> None:
    """Take everything down, and remove the container; one that is being created appears after its client is gone."""
    made = not container or _docker("container", "inspect", container)
    _take_down(grace)
    for _ in range(1 if made else _CREATION_S):
        if not container or _docker("rm", "--force", container) or made:
            return
        time.sleep(1.0)


def main(arguments: list[str]) -> int:
    """Run the command until it ends or the lifeline breaks; the exit code is the command's own."""
    lifeline = int(arguments[0])
    grace = float(arguments[1])
    command = arguments[2:]
    container = os.environ.pop("NEL_GUARD_CONTAINER", "")
    os.environ[MARK] = str(os.getpid())
    kept = [int(word) for word in os.environ.pop("NEL_GUARD_FDS", "").split(",") if word]
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        # This process has one thread, so the hook is safe; it covers the death of the guard itself.
        server = subprocess.Popen(
            command, pass_fds=kept, preexec_fn=lambda: _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        )
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    for fd in kept:
        os.close(fd)
    while True:
        ready, _, _ = select.select([lifeline, woken], [], [])
        if woken in ready:
            numbers = os.read(woken, 1024)
        else:
            numbers = b""
        code = _reap().get(server.pid)
        if code is not None:
            _take_down(grace)
            if container:
                _docker("rm", "--force", container)
            return code if code >= 0 else 128 - code
        if lifeline in ready or set(numbers) - {signal.SIGCHLD}:
            _end(container, grace)
            return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
