"""Detached runs: start one, see whether it lives, stop it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nemo_evaluator.core.arguments import carried_arguments, masked_arguments
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.executors.console import LOG
from nemo_evaluator.store.lock import holder_of
from nemo_evaluator.store.runs import RunMeta

_STOP_WAIT: Final = 20.0
# Tells a detached run which id it was announced under.
RUN_ID: Final = "NEL_RUN_ID"


def start_detached(meta: RunMeta, output_dir: Path, command: Sequence[str]) -> str:
    """Start a command of ``nel`` in a session of its own; returns what to tell the user."""
    words = [word for word in command if word != "--background"]
    output_dir.mkdir(parents=True, exist_ok=True)
    with (output_dir / LOG).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "nemo_evaluator.cli.main", *masked_arguments(words)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=os.environ | carried_arguments(words) | {"NEL_DETACHED": "1", RUN_ID: meta.run_id},
        )
    meta.details["pid"] = meta.details["starting"] = process.pid
    meta.save()
    where = f"-o {output_dir}"
    return (
        f"Started in the background: pid {process.pid}, run {meta.run_id}\n"
        f"  nel eval status {where}\n  nel eval logs {where} -f\n  nel eval stop {where}"
    )


def is_alive(pid: int) -> bool:
    """True when a process runs (a zombie does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def running_pid(meta: RunMeta) -> int | None:
    """The process of a run, while it lives."""
    holder = holder_of(Path(meta.output_dir))
    if holder is not None and (holder.host != socket.gethostname() or holder.run_id in ("", meta.run_id)):
        return holder.pid
    # Just started: it has not come as far as the lock.
    pid = int(meta.details.get("starting", 0))
    return pid if pid and is_alive(pid) and _is_ours(pid) else None


def stop(meta: RunMeta) -> str:
    """Ask a run to stop, wait for it, and insist if need be; returns what to tell the user."""
    pid = running_pid(meta)
    if pid is None:
        raise UsageError(f"run {meta.run_id} is not running", hint="`nel eval status` says what is known of it")
    holder = holder_of(Path(meta.output_dir))
    if holder is not None and holder.host != socket.gethostname():
        raise UsageError(f"run {meta.run_id} runs on {holder.host}", hint=f"stop it there: kill {pid}")
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_WAIT
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    if is_alive(pid):
        os.kill(pid, signal.SIGKILL)
    return f"Stopped run {meta.run_id} (pid {pid}); continue with: nel eval resume -r {meta.run_id}"


def _is_ours(pid: int) -> bool:
    """True when the process is a nel of ours: numbers of processes are used again."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"nemo_evaluator" in words or b"/nel\0" in words or words.startswith(b"nel\0")
