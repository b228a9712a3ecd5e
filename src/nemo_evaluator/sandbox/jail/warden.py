"""One per sandbox: it builds the namespaces with bubblewrap, stays in them, and starts commands there on request.

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


class Spare(NamedTuple):
    """An init that waits for its command."""

    sock: socket.socket
    pidfd: int


def serve(line: socket.socket, groups: list[str], shape: dict[str, Any] | None) -> None:
    """Build the sandbox (now, if its shape is known), hear whom it is for, run commands for them; never returns."""
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
        chosen = home if body["background"] and home is not None else spare
        taken = _exec(sock, body, fds, chosen=chosen, program=program)
        if body["background"]:
            home, old = taken, home
            spare = spare if old is chosen and old is not None else None
        else:
            spare = None
            if taken is not None:
                # Let go of our ends; the init goes on by itself.
                taken.sock.close()
                os.close(taken.pidfd)
        spare = spare or _try_spare(program)


def _answer(sock: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    with contextlib.suppress(OSError):
        wire.send(sock, message, fds)


def _spare(program: bytes | None) -> Spare:
    """Clone an init that waits for its command."""
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
    """Hand the command to the chosen init, or to a new one; the one that took it, if any did."""
    try:
        try:
            taken = chosen or _spare(program)
            wire.send(taken.sock, body, fds)
        except BrokenPipeError:
            # That init is gone (killed for want of memory, say); what it held is lost, the sandbox is not.
            taken = _spare(program)
            wire.send(taken.sock, body, fds)
        _answer(sock, {"id": body["id"]}, [taken.pidfd])
    except OSError as error:
        _answer(sock, {"id": body["id"], "error": str(error)})
        return None
    finally:
        for fd in fds:
            os.close(fd)
    return taken


def _enter(shape: dict[str, Any]) -> None:
    """Give up root, start bubblewrap with a command that waits, enter its namespaces, and let it go."""
    if shape["uid"] is not None:
        os.setgroups([])
        os.setresgid(shape["uid"], shape["uid"], shape["uid"])
        os.setresuid(shape["uid"], shape["uid"], shape["uid"])
    syscalls.die_with_parent()
    hold_in = os.pipe()
    hold_out = os.pipe()
    info = os.pipe()
    errors = os.pipe()
    os.set_inheritable(info[1], True)
    argv = [arg.replace("{info}", str(info[1])) for arg in shape["bwrap"]]
    actions: list[tuple[int, int, int]] = []
    for number, fd in enumerate((hold_in[0], hold_out[1], errors[1])):
        actions.append((os.POSIX_SPAWN_DUP2, fd, number))
    pid = os.posix_spawn(argv[0], argv, {}, file_actions=actions)
    for fd in (hold_in[0], hold_out[1], info[1], errors[1]):
        os.close(fd)
    os.write(hold_in[1], b"x\n")
    if os.read(hold_out[0], 1) != b"x":
        text = b""
        until = time.monotonic() + 1
        while time.monotonic() < until and (part := os.read(errors[0], 4096)):
            text += part
        raise ValueError(text.decode(errors="replace").strip() or "bubblewrap ended without a word")
    child = json.loads(os.read(info[0], 4096))["child-pid"]
    # Opened before any is entered: afterwards this /proc is out of sight.
    kinds = [(name, kind) for name, kind in _NAMESPACES if name != "net" or not shape["share_net"]]
    doors: list[tuple[int, int]] = []
    for name, kind in kinds:
        doors.append((os.open(f"/proc/{child}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind))
    for fd, kind in doors:
        syscalls.setns(fd, kind)
        os.close(fd)
    os.chdir("/")
    for fd in (hold_in[1], hold_out[0], info[0], errors[0]):
        os.close(fd)
    os.waitpid(pid, 0)
    # Children are reaped by the kernel; their reports come through a pipe of their own.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    syscalls.drop_bounding_set()
