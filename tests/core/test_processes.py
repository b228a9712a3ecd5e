"""Facts about processes: the same numbers as the kernel's, and no mistaking one process for another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from nemo_evaluator.core.processes import (
    descendants,
    end_process,
    is_alive,
    process_name,
    start_time,
    wait_gone,
)


def sleeper(code: str = "import time; time.sleep(60)") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_birth_is_the_kernels_number_so_that_labels_of_earlier_versions_still_fit() -> None:
    ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    assert start_time(os.getpid()) == int(ticks)


def test_a_birth_does_not_move_with_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    before, boot = start_time(os.getpid()), psutil.boot_time()
    monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: boot + 3600)
    monkeypatch.setattr(psutil, "boot_time", lambda: boot + 3600)
    assert start_time(os.getpid()) == before


def test_a_birth_does_not_move_when_the_clock_is_set_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, boot = start_time(os.getpid()), psutil.boot_time()
    looks = iter([boot, boot + 1])

    def boot_time() -> float:
        return next(looks, boot + 1)

    monkeypatch.setattr(psutil._psplatform, "boot_time", boot_time)
    monkeypatch.setattr(psutil, "boot_time", boot_time)
    assert start_time(os.getpid()) == before


def test_liveness_does_not_need_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """No /proc on macOS: nothing of ours reads it for liveness."""

    def absent(self: Path, *args: object, **more: object) -> str:
        raise FileNotFoundError(str(self))

    for name in ("read_text", "read_bytes", "iterdir"):
        monkeypatch.setattr(Path, name, absent)
    assert is_alive(os.getpid(), start_time(os.getpid()))
    assert process_name(os.getpid())


@pytest.mark.parametrize("pid", [0x7FFFFFF0, -1])
def test_no_such_process_is_not_alive(pid: int) -> None:
    assert start_time(pid) == 0
    assert not is_alive(pid, 0)
    assert process_name(pid) == ""


def test_a_zombie_and_a_successor_are_not_the_process() -> None:
    process = sleeper()
    began = start_time(process.pid)
    assert is_alive(process.pid, began) and not is_alive(process.pid, began + 1)
    process.kill()
    assert wait_gone(process.pid, 10)
    assert not is_alive(process.pid, began)
    process.communicate()


def test_an_end_is_asked_for_and_then_insisted_on() -> None:
    deaf = sleeper(
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    )
    assert deaf.stdout is not None and deaf.stdout.readline() == b"up\n"
    started = time.monotonic()
    end_process(deaf.pid, 0.3)
    assert deaf.wait(10) == -signal.SIGKILL
    assert time.monotonic() - started >= 0.3
    deaf.stdout.close()
    end_process(deaf.pid, 0.3)


def test_descendants_are_found() -> None:
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    parent = sleeper(code)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert descendants(parent.pid) == [child] and child in descendants(os.getpid())
    os.kill(child, signal.SIGKILL)
    parent.communicate(timeout=60)
    assert descendants(parent.pid) == []
