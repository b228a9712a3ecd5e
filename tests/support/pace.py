"""Limits of CPU time that mean the same on a slow machine: they are stretched by how slow this one is."""

from __future__ import annotations

import functools
import re
import time

# CPU seconds of the work below on the machine on which the limits of tests were set.
_SET_ON = 0.0155
_WORK = re.compile(r"\b(?:a|b)+c?\s")


def _work() -> float:
    started = time.process_time()
    text = "abab bba aabbc " * 4000
    _WORK.sub("x", text)
    parts = [piece.upper() for piece in text.split()]
    sum(len(piece) * at for at, piece in enumerate(parts * 8))
    return time.process_time() - started


@functools.cache
def pace() -> float:
    """How many times slower than that machine this one is, at least 1."""
    return max(1.0, min(_work() for _ in range(5)) / _SET_ON)


def cpu_limit(seconds: float) -> float:
    """A limit of CPU time, for this machine."""
    return seconds * pace()
