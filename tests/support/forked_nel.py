"""Runs ``nel`` in forks of a process that has everything loaded, and may kill them around a write of the ledger.

As a program it reads one JSON object per line: ``argv``, ``cwd``, ``log`` and, if it is to die, ``crash`` (the state
that is written, and ``before`` or ``after``); it answers with the pid of the fork, then with its exit status.
"""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# What every run loads, one way or another.
LOADED = (
    *("launch.start", "launch.worker", "executors.local", "launch.status", "cli.eval_run"),
    *(
        "suite.run",
        "suite.build",
        "suite.summary",
        "preflight.problems",
        "suite.console",
        "engine.api",
    ),
    *(
        "environments.registry",
        "solvers.simple",
        "services.api",
        "services.runner",
        "adapters.in_process",
    ),
    *(
        "reports",
        "runs.index",
        "models.batch.transport",
        "models.batch.openai",
        "models.batch.anthropic",
    ),
)


class ForkedNel:
    """The other end: starts such a process and asks it for runs."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(
        self,
        cwd: Path,
        *argv: str,
        crash: tuple[str, str] | None = None,
        started: Callable[[int], None] = lambda pid: None,
    ) -> int:
        """Run a command; returns its exit code, negative when a signal ended it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"argv": argv, "cwd": str(cwd), "log": str(cwd / "nel.log"), "crash": crash}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        started(int(self._process.stdout.readline()))
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@contextlib.contextmanager
def forked_nel() -> Iterator[ForkedNel]:
    nel = ForkedNel()
    try:
        yield nel
    finally:
        nel.close()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _crash_at(state: str, when: str) -> None:
    from nemo_evaluator.models.batch.ledger import BatchLedger

    plain = BatchLedger.note

    def note(self: BatchLedger, wave: Any, new: Any, **facts: Any) -> None:
        if new == state and when == "before":
            _die()
        plain(self, wave, new, **facts)
        if new == state:
            _die()

    BatchLedger.note = note


def _main() -> None:
    from nemo_evaluator.cli.main import main

    for name in LOADED:
        importlib.import_module(f"nemo_evaluator.{name}")
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.chdir(order["cwd"])
            log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            if order["crash"] is not None:
                _crash_at(*order["crash"])
            sys.argv = ["nel", *order["argv"]]
            main()
            os._exit(0)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    _main()
