"""Mathematical equivalence, decided by math-verify in worker processes under a CPU limit; a worker that hangs or dies
is replaced."""

import asyncio
import atexit
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache, lru_cache
from typing import Final

from nemo_evaluator.core.errors import ScorerError
from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._formula import extract_expression, is_list, is_relation
from nemo_evaluator.scoring._notation import (
    as_interval,
    is_set,
    notation_differs,
    values_of,
    without_notation,
)
from nemo_evaluator.scoring.number import parse_number
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

_SPACES: Final = lazy_pattern(r"\s+|\\[,;:! ]|\\left|\\right|\\displaystyle")
_WRAP: Final = lazy_pattern(r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf)|mbox)\{([^{}]*)\}")
_NUMBER: Final = lazy_pattern(r"-?\d[\d,]*(?:\.\d+)?|-?\.\d+")
_DEFAULT_SECONDS: Final = 5.0
# No answer is a formula of that length; algebra on it would only spend the limit.
_LONGEST: Final = 1000
_WALL_FACTOR: Final = 6.0
_START_SECONDS: Final = 120.0
_REPLY_SECONDS: Final = 10.0
_REMEMBERED: Final = 4096
_LAST_WORD_SECONDS: Final = 5.0


class MathPool:
    """Up to ``size`` workers, started on first use. Thread-safe: a caller waits for a free worker."""

    def __init__(self, size: int = 2) -> None:
        self._idle: queue.LifoQueue[_SymbolicWorker] = queue.LifoQueue()
        # Repeats of a problem give the same answers again.
        self.equal = lru_cache(_REMEMBERED)(self._equal)
        for _ in range(max(1, size)):
            self._idle.put(_SymbolicWorker())

    def _equal(self, target: str, answer: str, seconds: float) -> bool | None:
        """Whether the expressions are equal; None if the answer is too heavy to compare.

        Raises:
            ScorerError: If the target is too heavy, or no worker replies.
        """
        worker = self._idle.get()
        try:
            verdict = worker.ask(target, answer, seconds)
            if verdict is None and worker.ask(target, target, seconds) is None:
                raise ScorerError(
                    f"no math worker could read the target {target[:80]!r} in {seconds:g} CPU seconds"
                )
        finally:
            self._idle.put(worker)
        return verdict

    def close(self) -> None:
        """End the workers."""
        while not self._idle.empty():
            self._idle.get_nowait().stop()


class _SymbolicWorker:
    """One worker process, started on first use and again after it was lost."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        # Whether the last worker was ended by its CPU limit: another one would end in the same way.
        self._over_limit = False

    def ask(self, target: str, answer: str, seconds: float) -> bool | None:
        """Compare two answers.

        Returns:
            The verdict; None when the CPU limit ended the comparison or its worker, or when two workers were lost.
        """
        line = self._exchange(target, answer, seconds)
        if not line and not self._over_limit:
            line = self._exchange(target, answer, seconds)
        verdict: bool | None = json.loads(line) if line else None
        return verdict

    def _exchange(self, target: str, answer: str, seconds: float) -> bytes:
        """Send one comparison to the worker, which is started if necessary.

        Returns:
            The line of its reply; empty when the worker ended.
        """
        process = self._process
        extra_seconds = _REPLY_SECONDS
        if process is None or process.poll() is not None:
            self.stop()
            process = self._process = _start_worker()
            extra_seconds = _START_SECONDS
        assert process.stdin is not None and process.stdout is not None
        # The worker limits its own CPU time; the wall clock only guards against a worker that does not come back.
        guard = threading.Timer(seconds * _WALL_FACTOR + extra_seconds, process.kill)
        guard.daemon = True
        guard.start()
        try:
            process.stdin.write(json.dumps([target, answer, seconds]).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            guard.cancel()
        self._over_limit = not line and _ended_by_limit(process)
        if not line:
            self.stop()
        return line

    def stop(self) -> None:
        """Kill the worker process, if there is one."""
        process = self._process
        self._process = None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()


def _ended_by_limit(process: subprocess.Popen[bytes]) -> bool:
    try:
        return process.wait(_LAST_WORD_SECONDS) == -signal.SIGVTALRM
    except subprocess.TimeoutExpired:
        # It closed its output without ending.
        return False


def _start_worker() -> subprocess.Popen[bytes]:
    """Start a worker with this process's import path."""
    import_path = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-m", "nemo_evaluator.scoring._math_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": import_path},
    )


@cache
def shared_pool() -> MathPool:
    """Return the workers that all samples share; they end with this process."""
    pool = MathPool(size=min(4, os.cpu_count() or 1))
    atexit.register(pool.close)
    return pool


@versioned("5", inline=False)
async def math(
    sample: ScorerInput, timeout: float = _DEFAULT_SECONDS, pool: MathPool | None = None
) -> Score:
    """Is the announced answer mathematically equal to the target?

    Equal spelling and plain numbers are decided here, the rest by math-verify.

    Args:
        sample: The answer.
        timeout: CPU seconds. An answer that takes longer to compare is unparsed.
        pool: The workers; by default those that all samples share.

    Raises:
        ScorerError: If the target cannot be compared with itself in that time.
    """
    target = str(sample.target)
    answer = extract_expression(sample.response, listed=is_list(target), question=sample.question)
    if answer is None or len(answer) > _LONGEST:
        return found(None, False)
    workers = pool or shared_pool()
    same_spelling = _bare(answer) == _bare(target)
    if notation_differs(target, answer):
        return found(answer, False)
    answer = as_interval(answer)
    wanted = as_interval(target)
    target_values = values_of(wanted)
    # A list without brackets and a set have no order.
    if is_set(wanted) or len(target_values) > 1:
        is_equal_list = await _paired(target_values, values_of(answer), workers, timeout=timeout)
        return found(answer, is_equal_list or same_spelling)
    is_only_list = is_list(answer) and not is_list(wanted)
    is_only_relation = is_relation(answer) and not is_relation(wanted)
    if is_only_list or is_only_relation:
        return found(answer if same_spelling else None, same_spelling)
    verdict = await _equal(
        without_notation(answer), without_notation(wanted), workers, timeout=timeout
    )
    return found(None if verdict is None else answer, bool(verdict))


async def _equal(answer: str, target: str, workers: MathPool, timeout: float) -> bool | None:
    """Return whether two values are equal: by plain comparison where that decides, else by algebra."""
    bare_answer = _bare(answer)
    bare_target = _bare(target)
    if bare_answer == bare_target:
        return True
    if _NUMBER.fullmatch(bare_answer) and _NUMBER.fullmatch(bare_target):
        own_number = parse_number(bare_answer)
        target_number = parse_number(bare_target)
        return (
            own_number is not None
            and target_number is not None
            and own_number.equals(target_number)
        )
    return await asyncio.to_thread(workers.equal, target, answer, timeout)


async def _paired(wanted: list[str], values: list[str], workers: MathPool, timeout: float) -> bool:
    """Return whether each wanted value equals a different one of the values, and none is left."""
    if len(wanted) != len(values):
        return False
    unused = list(values)
    for target in wanted:
        for value in unused:
            if await _equal(value, target, workers, timeout=timeout):
                unused.remove(value)
                break
        else:
            return False
    return True


def _bare(text: str) -> str:
    """Return a formula without spacing, units and wrappers, so that equal spellings are equal texts."""
    text = _WRAP.sub(r"\1", text.strip().strip("$"))
    text = _SPACES.sub("", text)
    text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    text = text.replace("{,}", ",").replace("\\$", "").replace("\\%", "").rstrip(".%")
    return text.removesuffix("^\\circ").removesuffix("^{\\circ}").casefold()
