"""Process 1 of one command: it gives up every power, starts the command, waits, and takes all along when it ends.

Nothing inside can signal it (it is process 1 of its namespace) or read it (it is not dumpable, and ptrace is refused).
"""

import contextlib
import marshal
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

from . import background_init, syscalls, wire
from .powers import give_up_powers, private_folders, spawn


def run(sock: socket.socket, seccomp: bytes | None) -> None:
    """Wait for one command and run it; never returns. A warden keeps one ready, since half the cost is here."""
    try:
        _prepare()
        message = wire.receive(sock)
    except OSError:
        message = None
    if message is None:
        os._exit(1)
    request, fds = message
    if request["background"]:
        background_init.serve(sock, message, seccomp)
    sock.close()
    try:
        answer = _run(request, fds, seccomp)
    except OSError as error:
        answer = {"error": f"cannot prepare the command: {error}"}
    with contextlib.suppress(OSError):
        os.write(fds[3], marshal.dumps(answer))
    os._exit(0)


def _prepare() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    syscalls.die_with_parent()
    syscalls.hide_memory()
    syscalls.set_name("nel-init")
    syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
    os.umask(0o022)


def _run(request: dict[str, Any], fds: list[int], seccomp: bytes | None) -> dict[str, Any]:
    """``fds`` are stdin, stdout, stderr and the pipe for the report."""
    until = time.monotonic() + request["timeout"]
    private_folders(request)
    give_up_powers(request, seccomp)
    _write_files(request)
    started = spawn(request, fds)
    return started if isinstance(started, dict) else _wait(started, until)


def _write_files(request: dict[str, Any]) -> None:
    for path, content in request.get("files", {}).items():
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def _wait(pid: int, until: float) -> dict[str, Any]:
    while True:
        left = until - time.monotonic()
        if left <= 0:
            return {"timed_out": True}
        while True:
            try:
                done, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return {"error": "the command was lost"}
            if done == 0:
                break
            if done == pid:
                return {"status": status}
        signal.sigtimedwait([signal.SIGCHLD], max(0.0, until - time.monotonic()))
