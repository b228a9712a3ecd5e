"""The worker behind ``math``: one JSON line in (target, answer, CPU seconds), one out (true, false, null)."""

from __future__ import annotations

import json
import logging
import resource
import signal
import sys
from functools import lru_cache
from types import FrameType
from typing import Any, Final

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

_MEMORY: Final = 4 << 30


class _CpuLimit(BaseException):
    """The CPU time of one comparison is used up; not an Exception, so that no library swallows it."""


def _limit(number: int, frame: FrameType | None) -> None:
    raise _CpuLimit


@lru_cache(maxsize=4096)
def _parsed(text: str) -> list[Any]:
    options = (LatexExtractionConfig(), ExprExtractionConfig())
    wrapped = text if "$" in text or "\\boxed" in text else f"${text}$"
    found: list[Any] = parse(wrapped, options, parsing_timeout=None)
    return found or parse(text, options, parsing_timeout=None)


def _equal(target: str, said: str, seconds: float) -> bool | None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return bool(verify(_parsed(target), _parsed(said), timeout_seconds=None))
    except _CpuLimit:
        return None
    except (RecursionError, MemoryError):
        return False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main() -> None:
    """Answer until the pipe closes."""
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, _limit)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        target, said, seconds = json.loads(line)
        sys.stdout.write(json.dumps(_equal(target, said, seconds)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
