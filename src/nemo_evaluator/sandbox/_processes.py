"""Processes by number and birth: a number alone may have been given to someone else."""

from __future__ import annotations

import time
from pathlib import Path


def start_time(pid: int) -> int:
    """When a process began, in clock ticks since boot; 0 when there is none, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def wait_gone(pid: int, seconds: float) -> bool:
    """Wait until a process is gone; False when it still is there."""
    until = time.monotonic() + seconds
    while start_time(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
