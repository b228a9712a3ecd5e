"""The warden, one per sandbox: it builds the namespaces with bubblewrap, stays in them, and starts commands there.

It runs as the unprivileged user, in the sandbox's control group, but outside its process namespaces: no command can
see it. When its socket closes (the evaluator is gone) it ends, and every command ends with it.
"""

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from . import init, listen, seccomp, syscalls, wire

_NAMESPACES: Final = (
    ("user", syscalls.CLONE_NEWUSER),
    ("mnt", syscalls.CLONE_NEWNS),
    ("ipc", syscalls.CLONE_NEWIPC),
    ("uts", syscalls.CLONE_NEWUTS),
    ("net", syscalls.CLONE_NEWNET),
)
# How long to wait for the error message of bubblewrap, in seconds.
_ERROR_TIME: Final = 1.0


class Spare(NamedTuple):
    """An init that waits for its command."""

    sock: socket.socket
    pidfd: int


def serve(line: socket.socket, groups: list[str], shape: dict[str, Any] | None) -> None:
    """Build the sandbox, receive the connection of its evaluator, and run commands until it closes; never returns.

    Args:
        line: The socket to the keeper, over which the request for the sandbox comes.
        groups: The folders of the sandbox's control groups.
        shape: How to build the sandbox; None: the request says it.
    """
    syscalls.set_name("nel-warden")
    program = seccomp.build_filter()
    spare = None
    if shape is not None:
        _enter(shape)
        spare = _try_spare(program)
    message = wire.receive(line)
    if message is None:
        os._exit(0)
    request, fds = message
    line.close()
    sock = socket.socket(fileno=fds[0])
    if shape is None:
        try:
            _enter(request["shape"])
        except (OSError, ValueError) as error:
            _answer(sock, {"id": 0, "error": str(error)})
            os._exit(1)
    _answer(sock, {"id": 0, "groups": groups})
    _serve(sock, spare or _try_spare(program), program)


def _serve(sock: socket.socket, spare: Spare | None, program: bytes | None) -> None:
    """Hand requests to inits. Background commands share one init, their home; any other command gets its own."""
    home: Spare | None = None
    while True:
        message = wire.receive(sock)
        if message is None:
            os._exit(0)
        body, fds = message
        if body["op"] == "listen":
            # A socket made here belongs to the sandbox's network; whoever accepts on it outside is its only way out.
            listen.hand_over(sock, body["id"])
            continue
        if body["background"]:
            previous_home = home
            home = _exec(sock, body, fds, chosen=home or spare, program=program)
            # A previous home is replaced only when it is gone: then the spare was not used.
            if previous_home is None:
                spare = None
        else:
            init_process = _exec(sock, body, fds, chosen=spare, program=program)
            spare = None
            if init_process is not None:
                # The init needs no more from us: close our ends.
                init_process.sock.close()
                os.close(init_process.pidfd)
        spare = spare or _try_spare(program)


def _answer(sock: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    with contextlib.suppress(OSError):
        wire.send(sock, message, fds)


def _spare(program: bytes | None) -> Spare:
    """Clone an init that waits for its command, in new process and mount namespaces."""
    ours, theirs = wire.pair()
    with theirs:
        try:
            pid, pidfd = syscalls.clone(syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS)
        except OSError:
            ours.close()
            raise
        if pid == 0:
            ours.close()
            init.run(theirs, program)
    return Spare(ours, pidfd)


def _try_spare(program: bytes | None) -> Spare | None:
    try:
        return _spare(program)
    except OSError:
        return None


def _exec(
    sock: socket.socket,
    body: dict[str, Any],
    fds: list[int],
    chosen: Spare | None,
    program: bytes | None,
) -> Spare | None:
    """Hand a command to the chosen init, or to a new one, and answer with the init's pidfd.

    Returns:
        The init that received the command; None when none could be started.
    """
    try:
        try:
            receiver = chosen or _spare(program)
            wire.send(receiver.sock, body, fds)
        except BrokenPipeError:
            # That init is gone (killed for lack of memory, say); its processes are lost, the sandbox is not.
            receiver = _spare(program)
            wire.send(receiver.sock, body, fds)
        _answer(sock, {"id": body["id"]}, [receiver.pidfd])
    except OSError as error:
        _answer(sock, {"id": body["id"], "error": str(error)})
        return None
    finally:
        for fd in fds:
            os.close(fd)
    return receiver


def _enter(shape: dict[str, Any]) -> None:
    """Give up root, start bubblewrap with a command that waits, enter its namespaces, and let it end.

    Raises:
        ValueError: Bubblewrap could not build the sandbox; the message is its own.
        OSError: A namespace could not be entered.
    """
    if shape["uid"] is not None:
        _become_user(shape["uid"])
    # After the change of user, which would clear it.
    syscalls.die_with_parent()
    builder = _start_bubblewrap(shape["bwrap"])
    _enter_namespaces(builder.wait_until_built(), share_net=shape["share_net"])
    os.chdir("/")
    builder.end()
    # Children are reaped by the kernel; their reports come through a pipe of their own.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    syscalls.drop_bounding_set()


def _become_user(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


class Bubblewrap(NamedTuple):
    """A bubblewrap whose command (``cat``) keeps the namespaces alive, and our ends of its pipes."""

    pid: int
    stdin: int
    stdout: int
    stderr: int
    # Bubblewrap writes the process id of its command here.
    info: int

    def wait_until_built(self) -> int:
        """Wait until the command runs: its process id. Raises ValueError with bubblewrap's message."""
        os.write(self.stdin, b"x\n")
        if os.read(self.stdout, 1) != b"x":
            raise ValueError(self._error_text() or "bubblewrap ended without a message")
        child_pid: int = json.loads(os.read(self.info, 4096))["child-pid"]
        return child_pid

    def end(self) -> None:
        """Close the pipes, which ends the command and bubblewrap."""
        for fd in (self.stdin, self.stdout, self.info, self.stderr):
            os.close(fd)
        os.waitpid(self.pid, 0)

    def _error_text(self) -> str:
        text = b""
        deadline = time.monotonic() + _ERROR_TIME
        while time.monotonic() < deadline:
            part = os.read(self.stderr, 4096)
            if not part:
                break
            text += part
        return text.decode(errors="replace").strip()


def _start_bubblewrap(command: list[str]) -> Bubblewrap:
    """Start bubblewrap; ``{info}`` in its command becomes the number of the info pipe."""
    child_stdin, stdin = os.pipe()
    stdout, child_stdout = os.pipe()
    info, child_info = os.pipe()
    stderr, child_stderr = os.pipe()
    os.set_inheritable(child_info, True)
    argv = [arg.replace("{info}", str(child_info)) for arg in command]
    actions: list[tuple[int, int, int]] = []
    for number, fd in enumerate((child_stdin, child_stdout, child_stderr)):
        actions.append((os.POSIX_SPAWN_DUP2, fd, number))
    pid = os.posix_spawn(argv[0], argv, {}, file_actions=actions)
    for fd in (child_stdin, child_stdout, child_info, child_stderr):
        os.close(fd)
    return Bubblewrap(pid, stdin, stdout, stderr=stderr, info=info)


def _enter_namespaces(pid: int, *, share_net: bool) -> None:
    """Enter the namespaces of a process."""
    # All are opened before the first is entered: afterwards this /proc is out of sight.
    opened: list[tuple[int, int]] = []
    for name, kind in _NAMESPACES:
        if name == "net" and share_net:
            continue
        fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        opened.append((fd, kind))
    for fd, kind in opened:
        syscalls.setns(fd, kind)
        os.close(fd)
