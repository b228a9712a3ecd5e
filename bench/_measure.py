"""Running a command and measuring what it cost."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds (user and system, children included), wall seconds, peak resident kilobytes."""

    cpu: float
    wall: float
    peak_kb: int


def run(words: list[str], *, env: dict[str, str] | None = None, cwd: Path | None = None) -> Cost:
    """Run a command to its end; a failing command is an error."""
    started = time.monotonic()
    # An installed package has its bytecode: compiling it anew in every process would be measured as ours.
    inherited = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    with subprocess.Popen(
        words,
        env=inherited | (env or {}),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(
            f"{' '.join(words)} ended with {process.returncode}:\n{output.decode()[-3000:]}"
        )
    return Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - started, usage.ru_maxrss)


def best(times: int, words: list[str], **options: Any) -> Cost:
    """The cheapest of a few runs: what the machine did beside is not ours."""
    return min((run(words, **options) for _ in range(times)), key=lambda cost: cost.cpu)


def median_cpu(times: int, *commands: Callable[[], Cost]) -> list[float]:
    """The median CPU seconds of each command.

    The commands take turns, so that other work on the machine slows all of them alike, and the median ignores what
    slowed one of them alone.
    """
    samples: list[list[float]] = [[] for _ in commands]
    for _ in range(times):
        for command, seconds in zip(commands, samples, strict=True):
            seconds.append(command().cpu)
    return [statistics.median(seconds) for seconds in samples]


@contextmanager
def server(*flags: str) -> Iterator[str]:
    """The scripted server in a process of its own; gives its URL."""
    words = [sys.executable, "-m", "nemo_evaluator.testing.server", "--until-eof", *flags]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.stdin.close()
            process.wait(20)
