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
    """Raised when the CPU time of one comparison is used up.

    It is not an Exception, so no library swallows it.
    """


def _limit(number: int, frame: FrameType | None) -> None:
    """The handler of the CPU timer: interrupts the comparison that is running."""
    raise _CpuLimit


@lru_cache(maxsize=4096)
def _parsed(text: str) -> list[Any]:
    """Parse an answer with LaTeX delimiters around it, or else as it is.

    Returns:
        The expressions that it may mean; empty when it cannot be parsed.
    """
    options = (LatexExtractionConfig(), ExprExtractionConfig())
    delimited = text if "$" in text or "\\boxed" in text else f"${text}$"
    expressions: list[Any] = parse(delimited, options, parsing_timeout=None)
    return expressions or parse(text, options, parsing_timeout=None)


def _equal(target: str, said: str, seconds: float) -> bool | None:
    """Compare two answers: symbolically within the time limit, then numerically within half of it.

    Returns:
        Whether they are equal; None when neither comparison ended in time or decided it.
    """
    for compare, time_share in ((_symbolically, 1.0), (_numerically, 0.5)):
        signal.setitimer(signal.ITIMER_PROF, seconds * time_share)
        # One step inside a library, such as a power with millions of digits, cannot be interrupted from Python.
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds * time_share + _GRACE)
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
    """Whether ``math_verify`` considers two answers equal."""
    return bool(verify(_parsed(target), _parsed(said), timeout_seconds=None))


def _numerically(target: str, said: str) -> bool | None:
    """Compare numbers that are too heavy to simplify: equal to fifty digits counts as equal.

    Returns:
        Whether they are equal; None when either has no numeric value.
    """
    target_value, answer_value = (
        next((expression for expression in _parsed(text) if isinstance(expression, Expr)), None)
        for text in (target, said)
    )
    if (
        target_value is None
        or answer_value is None
        or target_value.free_symbols
        or answer_value.free_symbols
    ):
        return None
    target_number = target_value.evalf(_DIGITS)
    answer_number = answer_value.evalf(_DIGITS)
    if not (
        target_number.is_number
        and answer_number.is_number
        and target_number.is_finite
        and answer_number.is_finite
    ):
        return None
    return bool(
        abs(target_number - answer_number) <= abs(target_number) * Float(10) ** (10 - _DIGITS)
    )


def main() -> None:
    """Answer comparisons, one JSON line each, until stdin ends."""
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, _limit)
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        target, answer, seconds = json.loads(line)
        sys.stdout.write(json.dumps(_equal(target, answer, seconds)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
