"""Run a scorer, on the event loop while it is fast and in a thread once it is slow, and convert its result to a
verdict.
"""

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
from nemo_evaluator.core.registry import nearest
from nemo_evaluator.core.types import JsonDict, VerifyResult
from nemo_evaluator.scoring.types import SCORER_LOOP, SCORING_VERSION, ScorerInput

# A call that takes longer than this on the event loop would delay every other request.
SLOW_SECONDS: Final = 0.005
# Our own scorers take microseconds, so only a very slow one is worth a thread.
OWN_SLOW_SECONDS: Final = 0.1
# Calls longer than half of that limit add up; beyond this sum, the scorer moves to a thread. One call adds a limited
# amount, because a busy machine sometimes delays a fast call for long.
_HELD_CALLS: Final = 20
_HELD_AT_MOST: Final = 12
_OURS: Final = "nemo_evaluator."
_OWN_FOLDER: Final = Path(__file__).resolve().parents[1]
# The maximum number of concurrent scorers that wait for programs in sandboxes.
_WAITING: Final = 64
_SANDBOXED: Final = f"{_OURS}scoring.code.code_sandbox@"
_SHOWN: Final = 200
_REWARD_KEYS: Final = ("correct", "reward")
# Calls in the file of a built-in benchmark that only describe or test it.
_DESCRIBING: Final = frozenset({"BenchmarkInfo", "SelfTest"})


class ScorerRunner:
    """Calls a scorer; a slow synchronous scorer of a user moves to its own thread.

    There is one thread per benchmark, so that a scorer with state between calls never runs twice at the same time.
    Scorers that run programs with ``code_sandbox`` are an exception: they mostly wait, so many of them run at once.

    Args:
        function: The scorer.
        name: The name of the benchmark.
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
            # The scorer waits for a program in a sandbox. The event loop serves that sandbox, so it must not wait too.
            self._pool = ThreadPoolExecutor(_WAITING, thread_name_prefix=f"nel-{self._method}")
            self.in_thread = True

    async def run(self, sample: ScorerInput) -> VerifyResult:
        """Score a sample.

        Raises:
            ScorerError: The scorer's result is not a valid score.
        """
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
        """Record how long a call held the event loop; move the scorer to a thread once this adds up."""
        slow_call_units = seconds / (OWN_SLOW_SECONDS if self._is_ours else SLOW_SECONDS)
        self._held = max(0.0, self._held + min(slow_call_units, _HELD_AT_MOST) - 0.5)
        if self._held > _HELD_CALLS:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"nel-{self._method}")
            self.in_thread = True

    def close(self) -> None:
        """Stop the scorer's threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
            self.in_thread = False


def verdict(scores: Any, response: str, method: str) -> VerifyResult:
    """Convert a scorer's result to a verdict: the reward is ``correct``, else ``reward``, else the first value.

    Args:
        scores: The scorer's result: a number, or a dict.
        response: The answer; its beginning stands for a missing ``extracted``.
        method: The default for ``method`` in the details.

    Raises:
        ScorerError: The result has no finite number as its score.
    """
    if isinstance(scores, (bool, int, float)):
        scores = {"correct": scores}
    if not isinstance(scores, dict) or not scores:
        raise ScorerError(
            f"the scorer returned {scores!r}", hint='return a dict such as {"correct": True}'
        )
    reward = _reward(scores)
    extracted = scores.get("extracted", response[:_SHOWN])
    if extracted is not None:
        extracted = str(extracted)
    details = scores if "method" in scores else {"method": method, **scores}
    return VerifyResult(reward, extracted, details)


def _reward(scores: JsonDict) -> float:
    """The reward of a scorer's result: ``correct``, else ``reward``, else the first value.

    Raises:
        ScorerError: That value is not a finite number, or seems not to be meant.
    """
    if "correct" in scores:
        value = scores["correct"]
    elif "reward" in scores:
        value = scores["reward"]
    else:
        value = _first_value(scores)
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
    return reward


def _first_value(scores: JsonDict) -> Any:
    """Return the first value of a result without ``correct`` and ``reward``.

    Raises:
        ScorerError: Another key is nearly one of these names, or the first value is one of several and no share.
    """
    names = list(scores)
    value = scores[names[0]]
    misspelt = [name for name in names[1:] if nearest(str(name), list(_REWARD_KEYS)) is not None]
    is_number = isinstance(value, (int, float))
    is_share = is_number and 0 <= value <= 1
    if misspelt or (is_number and not is_share and len(names) > 1):
        listed = ", ".join(repr(name) for name in names)
        raise ScorerError(
            f"the scorer returned no 'correct' and no 'reward', but {listed}",
            hint="name the reward: {'correct': ...}",
        )
    return value


def fingerprint(functions: list[Callable[..., Any]], settings: JsonDict) -> str:
    """Return the identity of scoring code: the text of its files, and the versions of the scorers that it calls.

    Args:
        functions: The functions that decide verdicts.
        settings: Everything else that verdicts depend on.
    """
    files: set[Path] = set()
    versions: set[str] = set()
    unlocated_functions: list[str] = []
    for function in functions:
        _gather(function, files, versions, loose=unlocated_functions)
    text_digests = sorted(digest_parts(_scoring_text(path)) for path in files)
    identity = [
        SCORING_VERSION,
        text_digests,
        sorted(versions),
        unlocated_functions,
        _plain(settings),
    ]
    user_files = [path for path in files if not _is_own(path)]
    imports_digest = imported_sources(user_files).digest()
    if imports_digest:
        identity.append(imports_digest)
    return digest(identity)


def _scoring_text(path: Path) -> str:
    """Return the part of a file's text that decides verdicts.

    Files of nel count without descriptions and self-tests: better wording must not invalidate users' verdicts.
    """
    source = path.read_text(encoding="utf-8", errors="replace")
    if not _is_own(path):
        return source
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in _DESCRIBING:
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[number - 1] = ""
    return "".join(lines)


def _is_own(path: Path) -> bool:
    """Return whether a file belongs to nel, whose scorers have versions."""
    return path.resolve().is_relative_to(_OWN_FOLDER)


def _calls_sandbox(function: Callable[..., Any]) -> bool:
    """Return whether a scorer runs programs with ``code_sandbox``, directly or through functions of the same folder."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    versions: set[str] = set()
    _gather(function, set(), versions, loose=[])
    is_named = code is not None and "code_sandbox" in _names(code)
    return is_named or any(version.startswith(_SANDBOXED) for version in versions)


def _gather(
    function: Callable[..., Any], files: set[Path], versions: set[str], loose: list[str]
) -> None:
    """Collect the file of a function, and the files of the functions from the same folder that it mentions.

    Args:
        function: The function, or an object that can be called.
        files: Receives the files.
        versions: Receives the versions of scorers that have one; their files do not count.
        loose: Receives the code of functions without a file.
    """
    if isinstance(function, partial):
        function = function.func
    version = getattr(function, "version", None)
    if isinstance(version, str):
        versions.add(f"{function.__module__}.{function.__qualname__}@{version}")
        return
    code: CodeType | None = getattr(inspect.unwrap(function), "__code__", None)
    file = source_file(function)
    if file is None and code is None:
        file = class_file(type(function))
    if file in files:
        return
    if file is not None:
        files.update(_files_of_module(file))
    elif code is not None:
        # A function without a file is identified by its code, any other object by its type.
        loose.append(repr((code.co_code, code.co_names)))
    else:
        loose.append(repr(type(function)))
    if code is None:
        return
    global_names = getattr(function, "__globals__", {})
    for name in _names(code):
        callee = global_names.get(name)
        if not inspect.isfunction(callee) or callee is function:
            continue
        if _is_near(callee, file):
            _gather(callee, files, versions, loose=loose)


def _files_of_module(file: Path) -> list[Path]:
    """Return the files of a module: all in the folder of a package, else the file itself."""
    if file.name == "__init__.py":
        return list(file.parent.glob("*.py"))
    return [file]


def _is_near(function: Callable[..., Any], file: Path | None) -> bool:
    """Return whether a called function belongs to a benchmark: a versioned scorer, or a file in or below its folder."""
    if isinstance(getattr(function, "version", None), str):
        return True
    function_file = source_file(function)
    if function_file is None or file is None:
        return False
    # A benchmark that is a package shares the helpers of the folder around it.
    folder = file.parent.parent if file.name == "__init__.py" else file.parent
    return folder in function_file.parents


def _names(code: CodeType) -> set[str]:
    """Return the names that a function's code mentions, including nested functions."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _plain(value: Any) -> Any:
    """Return settings without memory addresses: functions are replaced by their names."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if callable(value):
        return getattr(value, "__qualname__", value)
    return value
