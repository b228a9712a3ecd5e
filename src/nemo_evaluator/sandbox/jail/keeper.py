"""One per evaluator: it makes control groups, forks wardens, and when the evaluator is gone leaves nothing behind."""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from . import cgroups, syscalls, warden, wire


class Embryo(NamedTuple):
    """A warden to be: forked, in its control group, inside the namespaces of ``shape`` if that was foreseen."""

    pid: int
    sock: socket.socket
    group: cgroups.ControlGroups
    shape: dict[str, Any] | None


class Keeper:
    """Serves the evaluator's socket until it closes."""

    def __init__(self, sock: socket.socket, state: Path) -> None:
        self._sock = sock
        self._state = state
        self._wardens: dict[int, tuple[cgroups.ControlGroups, Path]] = {}
        self._parents = cgroups.parents()
        self._leftover: list[cgroups.ControlGroups] = []
        self._owner = os.getppid()
        self._number = 0
        self._next: Embryo | None = None
        # Sandboxes of a run are alike, so the next one is built like the last before it is asked for.
        self._shape: dict[str, Any] | None = None

    def serve(self) -> None:
        """Answer requests; on the end of the evaluator, kill and clean up."""
        syscalls.set_name("nel-keeper")
        syscalls.adopt_orphans()
        wake = syscalls.child_bell()
        for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # A Ctrl-C reaches the whole group; the evaluator decides, and its end is ours.
            signal.signal(kind, signal.SIG_IGN)
        wire.send(
            self._sock,
            {"ready": True, "controllers": [c for p in self._parents for c in p.controllers]},
        )
        while True:
            if self._next is None:
                self._next = self._conceive(self._shape)
            ready, _, _ = select.select(
                [self._sock.fileno(), wake], [], [], 5.0 if self._leftover else None
            )
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
        """Fork the next warden ahead of time."""
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
        self._wardens[pid] = (group, self._state / f"{pid}.json")
        return Embryo(pid, ours, group, shape=shape)

    def _open(self, request: dict[str, Any], fds: list[int]) -> None:
        self._shape = request["shape"]
        embryo = self._next
        self._next = None
        with socket.socket(fileno=fds[0]) as sock:
            if (
                embryo is not None
                and embryo.shape in (self._shape, None)
                and self._hand_over(embryo, request, fds)
            ):
                return
            embryo = self._conceive(None)
            if embryo is None or not self._hand_over(embryo, request, fds):
                with contextlib.suppress(OSError):
                    wire.send(
                        sock,
                        {"id": 0, "error": "its control group or its process could not be made"},
                    )

    def _hand_over(self, embryo: Embryo, request: dict[str, Any], fds: list[int]) -> bool:
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
            self._wardens[embryo.pid][1].write_text(json.dumps(record))
        return True

    def _become_warden(
        self, line: socket.socket, group: cgroups.ControlGroups, shape: dict[str, Any] | None
    ) -> None:
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
        for pid, _status in syscalls.ended_children():
            if pid in self._wardens:
                group, record = self._wardens.pop(pid)
                group.kill()
                if not group.remove(0.05):
                    self._leftover.append(group)
                record.unlink(missing_ok=True)
        self._leftover = [group for group in self._leftover if not group.remove(0)]

    def _end(self) -> None:
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
