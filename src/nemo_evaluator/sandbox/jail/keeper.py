"""The keeper, one per evaluator: it creates control groups, forks wardens, and removes both when the evaluator ends."""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from . import cgroups, syscalls, warden, wire

# How often to try again to remove control groups whose processes were slow to end, in seconds.
_LEFTOVER_PAUSE: Final = 5.0


class Embryo(NamedTuple):
    """A warden that waits for its request: forked, and in its control group."""

    pid: int
    sock: socket.socket
    group: cgroups.ControlGroups
    #: The shape of the sandbox that it has built in advance; None: it has built none.
    shape: dict[str, Any] | None


class Warden(NamedTuple):
    """A warden's control groups, and the file that records its sandbox."""

    group: cgroups.ControlGroups
    record: Path


class Keeper:
    """Serves the evaluator's socket until it closes.

    Args:
        sock: The socket to the evaluator.
        state: The folder for the records of live sandboxes.
    """

    def __init__(self, sock: socket.socket, state: Path) -> None:
        self._sock = sock
        self._state = state
        self._wardens: dict[int, Warden] = {}
        self._parents = cgroups.parents()
        self._leftover: list[cgroups.ControlGroups] = []
        self._owner = os.getppid()
        self._number = 0
        self._next: Embryo | None = None
        # Sandboxes of a run are alike, so the next one is built in advance, like the last.
        self._shape: dict[str, Any] | None = None

    def serve(self) -> None:
        """Answer requests until the evaluator ends; then kill all sandboxes and clean up."""
        syscalls.set_name("nel-keeper")
        syscalls.adopt_orphans()
        wake = syscalls.child_bell()
        for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # A Ctrl-C reaches the whole group; the keeper ends when the evaluator does.
            signal.signal(kind, signal.SIG_IGN)
        controllers: list[str] = []
        for parent in self._parents:
            controllers += parent.controllers
        wire.send(self._sock, {"ready": True, "controllers": controllers})
        while True:
            if self._next is None:
                self._next = self._conceive(self._shape)
            pause = _LEFTOVER_PAUSE if self._leftover else None
            ready, _, _ = select.select([self._sock.fileno(), wake], [], [], pause)
            if wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
            self._reap()
            if self._sock.fileno() in ready:
                message = wire.receive(self._sock)
                if message is None:
                    return self._end()
                self._open(*message)

    def _conceive(self, shape: dict[str, Any] | None) -> Embryo | None:
        """Fork the next warden in advance.

        Args:
            shape: The sandbox that the warden builds at once; None: it waits for a request.

        Returns:
            The warden; None when its control group cannot be created.
        """
        self._number += 1
        try:
            group = cgroups.create(f"nel-{os.getpid()}-{self._number}", self._parents)
        except OSError:
            return None
        ours, theirs = wire.pair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._become_warden(theirs, group, shape)
        theirs.close()
        self._wardens[pid] = Warden(group, self._state / f"{pid}.json")
        return Embryo(pid, ours, group, shape=shape)

    def _open(self, request: dict[str, Any], fds: list[int]) -> None:
        """Give a request to the prepared warden if that fits, else to a new one."""
        self._shape = request["shape"]
        embryo = self._next
        self._next = None
        with socket.socket(fileno=fds[0]) as sock:
            fits = embryo is not None and embryo.shape in (self._shape, None)
            if embryo is not None and fits and self._hand_over(embryo, request, fds):
                return
            embryo = self._conceive(None)
            if embryo is not None and self._hand_over(embryo, request, fds):
                return
            refusal = {"id": 0, "error": "its control group or its process could not be created"}
            with contextlib.suppress(OSError):
                wire.send(sock, refusal)

    def _hand_over(self, embryo: Embryo, request: dict[str, Any], fds: list[int]) -> bool:
        """Set the limits, give the request to a warden, and record the sandbox; False when that failed."""
        with embryo.sock:
            try:
                embryo.group.limit(**request["limits"])
                wire.send(embryo.sock, request, fds)
            except OSError:
                return False
        record = {
            "name": request["name"],
            "run_id": request["run_id"],
            "pid": embryo.pid,
            "started": time.time(),
            "keeper": os.getpid(),
            "owner": self._owner,
            "groups": [[str(folder.path), folder.version] for folder in embryo.group.folders],
        }
        with contextlib.suppress(OSError):
            self._wardens[embryo.pid].record.write_text(json.dumps(record))
        return True

    def _become_warden(
        self, line: socket.socket, group: cgroups.ControlGroups, shape: dict[str, Any] | None
    ) -> None:
        """Run the warden in this forked process; never returns."""
        try:
            signal.set_wakeup_fd(-1)
            for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(kind, signal.SIG_DFL)
            os.setsid()
            self._sock.close()
            group.join()
            warden.serve(line, [str(folder.path) for folder in group.folders], shape)
        finally:
            os._exit(1)

    def _reap(self) -> None:
        """Clean up after wardens that have ended."""
        for pid, _status in syscalls.ended_children():
            warden_of_pid = self._wardens.pop(pid, None)
            if warden_of_pid is None:
                continue
            warden_of_pid.group.kill()
            if not warden_of_pid.group.remove(0.05):
                self._leftover.append(warden_of_pid.group)
            warden_of_pid.record.unlink(missing_ok=True)
        self._leftover = [group for group in self._leftover if not group.remove(0)]

    def _end(self) -> None:
        """Kill all wardens with their sandboxes, and remove their groups and records."""
        for pid, (group, _record) in self._wardens.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            group.kill()
        for pid, (group, record) in self._wardens.items():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
            group.kill()
            group.remove(5.0)
            record.unlink(missing_ok=True)
        for group in self._leftover:
            group.remove(1.0)
        for _ in syscalls.ended_children():
            pass
        with contextlib.suppress(OSError):
            self._state.rmdir()


def main() -> None:
    """``python -c 'from jail.keeper import main; main()' FD STATE_FOLDER``."""
    os.setsid()
    syscalls.blank_arguments()
    Keeper(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])).serve()
