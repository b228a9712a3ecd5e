"""The worker behind ``math``: one JSON line in (target, answer, CPU seconds), one out (true, false, null)."""

import json
import logging
import resource
import signal
import sys
from functools import lru_cache
from types import FrameType
from typing import Any, Final

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
from sympy import Expr, Float  # type: ignore[import-untyped]

_MEMORY: Final = 4 << 30
_DIGITS: Final = 60
# So much longer than its CPU time a comparison may take before the kernel ends the worker.
_GRACE: Final = 1.0


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
    for compare, share in ((_symbolically, 1.0), (_numerically, 0.5)):
        signal.setitimer(signal.ITIMER_PROF, seconds * share)
        # One step inside a library, such as a power with millions of digits, cannot be interrupted from Python.
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds * share + _GRACE)
        try:
            return compare(target, said)
        except _CpuLimit:
            continue
        except (RecursionError, MemoryError):
            return False
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return None


def _symbolically(target: str, said: str) -> bool:
    return bool(verify(_parsed(target), _parsed(said), timeout_seconds=None))


def _numerically(target: str, said: str) -> bool | None:
    """For numbers too heavy to simplify: equal to fifty digits is equal. None when they have no numeric value."""
    left, right = (
        next((one for one in _parsed(text) if isinstance(one, Expr)), None)
        for text in (target, said)
    )
    if left is None or right is None or left.free_symbols or right.free_symbols:
        return None
    a = left.evalf(_DIGITS)
    b = right.evalf(_DIGITS)
    if not (a.is_number and b.is_number and a.is_finite and b.is_finite):
        return None
    return bool(abs(a - b) <= abs(a) * Float(10) ** (10 - _DIGITS))


def main() -> None:
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, _limit)
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        target, said, seconds = json.loads(line)
        sys.stdout.write(json.dumps(_equal(target, said, seconds)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
