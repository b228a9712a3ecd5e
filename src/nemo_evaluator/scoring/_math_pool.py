"""A few worker processes that compare expressions; a worker that hangs or dies is replaced."""

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache, lru_cache
from typing import Final

from nemo_evaluator.core.errors import ScorerError

_WALL_FACTOR: Final = 6.0
_START_SECONDS: Final = 120.0
_REMEMBERED: Final = 4096


class MathPool:
    """Up to ``size`` workers, started on first use. Thread-safe: a caller waits for a free worker."""

    def __init__(self, size: int = 2) -> None:
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
        # Repeats of a problem give the same answers again.
        self.equal = lru_cache(_REMEMBERED)(self._equal)
        for _ in range(max(1, size)):
            self._idle.put(_Worker())

    def _equal(self, target: str, said: str, seconds: float) -> bool | None:
        """Whether the expressions are equal; None when ``said`` is too heavy to tell. Raises ScorerError when the
        target is too heavy, or when no worker answers."""
        worker = self._idle.get()
        try:
            verdict = worker.ask(target, said, seconds)
            if verdict is None and worker.ask(target, target, seconds) is None:
                raise ScorerError(f"no math worker could read the target {target[:80]!r} in {seconds:g} CPU seconds")
        finally:
            self._idle.put(worker)
        return verdict

    def close(self) -> None:
        while True:
            try:
                self._idle.get_nowait().stop()
            except queue.Empty:
                return


class _Worker:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, target: str, said: str, seconds: float) -> bool | None:
        """The verdict; None when the CPU limit ended the comparison, or when it ended two workers."""
        line = self._exchange(target, said, seconds) or self._exchange(target, said, seconds)
        verdict: bool | None = json.loads(line) if line else None
        return verdict

    def _exchange(self, target: str, said: str, seconds: float) -> bytes:
        fresh = self._process is None or self._process.poll() is not None
        process = self._start() if fresh else self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        # The worker limits its own CPU time; the wall clock only guards against a worker that does not come back.
        limit = seconds * _WALL_FACTOR + (_START_SECONDS if fresh else 10.0)
        guard = threading.Timer(limit, process.kill)
        guard.daemon = True
        guard.start()
        try:
            process.stdin.write(json.dumps([target, said, seconds]).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            guard.cancel()
        if not line:
            self.stop()
        return line

    def _start(self) -> subprocess.Popen[bytes]:
        self.stop()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nemo_evaluator.scoring._math_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        return self._process

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()


@cache
def shared_pool() -> MathPool:
    pool = MathPool(size=min(4, os.cpu_count() or 1))
    atexit.register(pool.close)
    return pool
