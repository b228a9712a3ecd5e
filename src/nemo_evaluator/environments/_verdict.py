"""Running a scorer: on the loop while it is fast, in a thread once it is slow; and what its answer is worth."""

import ast
import asyncio
import inspect
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from time import perf_counter
from types import CodeType
from typing import Any, Final

from nemo_evaluator.core.code_words import class_file, source_file
from nemo_evaluator.core.errors import ScorerError
from nemo_evaluator.core.hashing import digest, digest_parts
from nemo_evaluator.core.local_sources import imported_sources
from nemo_evaluator.core.types import JsonDict, VerifyResult
from nemo_evaluator.scoring.types import SCORER_LOOP, SCORING_VERSION, ScorerInput

# A call that takes longer than this on the event loop would hold up every other request.
SLOW_SECONDS: Final = 0.005
# Our own scorers take microseconds; only one that turns out to be very slow is worth a thread.
OWN_SLOW_SECONDS: Final = 0.1
# Calls that hold the loop for longer than half of that add up, until there is this much of it. A busy machine holds a
# fast call up now and then, for however long: one call alone is never enough.
_HELD_CALLS: Final = 20
_HELD_AT_MOST: Final = 12
_OURS: Final = "nemo_evaluator."
_OWN_FOLDER: Final = Path(__file__).resolve().parents[1]
# Scorers that wait for programs in sandboxes, at most.
_WAITING: Final = 64
_SANDBOXED: Final = f"{_OURS}scoring.code.code_sandbox@"
_SHOWN: Final = 200
# What the file of a built-in benchmark says to people and to the tests.
_DESCRIBING: Final = frozenset({"BenchmarkInfo", "SelfTest"})


class ScorerRunner:
    """Calls one scorer. A synchronous one from a user's file moves to a thread of its own once it is slow.

    One thread per benchmark, so that a scorer that keeps state between calls is never entered twice at once.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.in_thread = False
        self._method = f"byob_{name}"
        self._is_async = inspect.iscoroutinefunction(function)
        self._is_ours = (function.__module__ or "").startswith(_OURS)
        self._pool: ThreadPoolExecutor | None = None
        self._held = 0.0
        if not self._is_async and not self._is_ours and _calls_sandbox(function):
            # It waits for a program: the loop, which serves the sandbox, must not wait with it.
            self._pool = ThreadPoolExecutor(_WAITING, thread_name_prefix=f"nel-{self._method}")
            self.in_thread = True

    async def run(self, sample: ScorerInput) -> VerifyResult:
        if self._is_async:
            scores = await self.function(sample)
        elif self.in_thread:
            loop = asyncio.get_running_loop()
            SCORER_LOOP.set(loop)
            scores = await loop.run_in_executor(
                self._pool, copy_context().run, self.function, sample
            )
        else:
            started = perf_counter()
            scores = self.function(sample)
            self._note(perf_counter() - started)
        if type(scores) is not dict and inspect.isawaitable(scores):
            scores = await scores
        return verdict(scores, sample.response, self._method)

    def _note(self, seconds: float) -> None:
        calls = seconds / (OWN_SLOW_SECONDS if self._is_ours else SLOW_SECONDS)
        self._held = max(0.0, self._held + min(calls, _HELD_AT_MOST) - 0.5)
        if self._held > _HELD_CALLS:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"nel-{self._method}")
            self.in_thread = True

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
            self.in_thread = False


def verdict(scores: Any, response: str, method: str) -> VerifyResult:
    """The value of what a scorer returned: ``correct``, else ``reward``, else the first value, as a number."""
    if isinstance(scores, (bool, int, float)):
        scores = {"correct": scores}
    if not isinstance(scores, dict) or not scores:
        raise ScorerError(
            f"the scorer returned {scores!r}", hint='return a dict such as {"correct": True}'
        )
    if "correct" in scores:
        value = scores["correct"]
    else:
        value = scores.get("reward", next(iter(scores.values())))
    try:
        reward = float(value)
    except (TypeError, ValueError):
        raise ScorerError(
            f"the scorer returned {value!r} as its score", hint="a score is a bool or a number"
        ) from None
    if not math.isfinite(reward):
        raise ScorerError(
            f"the scorer returned {reward} as its score", hint="a score is a finite number"
        )
    if "extracted" in scores:
        extracted: Any = scores["extracted"]
    else:
        extracted = response[:_SHOWN]
    details = scores if "method" in scores else {"method": method, **scores}
    return VerifyResult(reward, None if extracted is None else str(extracted), details)


def fingerprint(functions: list[Callable[..., Any]], settings: JsonDict) -> str:
    """Identity of scoring code: the text of the files it was written in, the versions of the scorers it calls."""
    files: set[Path] = set()
    versions: set[str] = set()
    loose: list[str] = []
    for function in functions:
        _gather(function, files, versions, loose=loose)
    texts = sorted(digest_parts(_scoring_text(path)) for path in files)
    identity = [SCORING_VERSION, texts, sorted(versions), loose, _plain(settings)]
    imported = imported_sources(path for path in files if not _is_own(path)).digest()
    return digest([*identity, imported] if imported else identity)


def _scoring_text(path: Path) -> str:
    """The text of a file that decides verdicts. In a file of nel the benchmark's page text and its ``SELF_TEST`` do
    not: a better wording must not make users' verdicts be computed again."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if not _is_own(path):
        return text
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in _DESCRIBING:
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[number - 1] = ""
    return "".join(lines)


def _is_own(path: Path) -> bool:
    """True for files of nel, whose scorers have versions."""
    return path.resolve().is_relative_to(_OWN_FOLDER)


def _calls_sandbox(function: Callable[..., Any]) -> bool:
    """Whether a scorer runs programs with ``code_sandbox``, itself or through the functions beside it."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    versions: set[str] = set()
    _gather(function, set(), versions, loose=[])
    named = code is not None and "code_sandbox" in _names(code)
    return named or any(version.startswith(_SANDBOXED) for version in versions)


def _gather(
    function: Callable[..., Any], files: set[Path], versions: set[str], loose: list[str]
) -> None:
    """Collect a function's file, and those of the functions it names that are of the same folder."""
    if isinstance(function, partial):
        function = function.func
    version = getattr(function, "version", None)
    if isinstance(version, str):
        versions.add(f"{function.__module__}.{function.__qualname__}@{version}")
        return
    file = source_file(function)
    code = getattr(inspect.unwrap(function), "__code__", None)
    if file is None and code is None:
        file = class_file(type(function))
    if file is None:
        loose.append(
            repr((code.co_code, code.co_names)) if code is not None else repr(type(function))
        )
    elif file in files:
        return
    else:
        files.update(file.parent.glob("*.py") if file.name == "__init__.py" else [file])
    if code is None:
        return
    known = getattr(function, "__globals__", {})
    for name in _names(code):
        used = known.get(name)
        if inspect.isfunction(used) and used is not function and _is_near(used, file):
            _gather(used, files, versions, loose=loose)


def _is_near(function: Callable[..., Any], file: Path | None) -> bool:
    """A function that a benchmark calls counts when it is a versioned scorer or its file is in or below the
    benchmark's folder."""
    if isinstance(getattr(function, "version", None), str):
        return True
    other = source_file(function)
    if other is None or file is None:
        return False
    # A benchmark that is a package shares the helpers of the folder around it.
    folder = file.parent.parent if file.name == "__init__.py" else file.parent
    return folder in other.parents


def _names(code: CodeType) -> set[str]:
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


def _plain(value: Any) -> Any:
    """Settings without addresses: functions by name."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if callable(value):
        return getattr(value, "__qualname__", value)
    return value
