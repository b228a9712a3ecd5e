"""``results.jsonl`` as columns: one pass, only what decisions need, texts left on disk until they are asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Keys: TypeAlias = NDArray[np.uint64]
Flags: TypeAlias = NDArray[np.bool_]

_CHUNK: Final = 20_000
_HEAD: Final = 160
_64_BITS: Final = (1 << 64) - 1
_REFUSALS: Final = (
    "i cannot",
    "i can't",
    "i can’t",
    "i'm unable",
    "i am unable",
    "as an ai",
    "i'm sorry, but",
    "i apologize",
)
_TRUNCATED: Final = frozenset({"length", "max_tokens"})
_NO_CATEGORY: Final = "unknown"


@dataclass(slots=True)
class Labels:
    """Words as small numbers."""

    names: list[str] = field(default_factory=list)
    _codes: dict[str, int] = field(default_factory=dict)

    def code(self, name: str) -> int:
        """The number of a word, a new one if need be."""
        found = self._codes.get(name)
        if found is None:
            found = self._codes[name] = len(self.names)
            self.names.append(name)
        return found


@dataclass(slots=True)
class Rows:
    """The columns of a run. ``reward`` is NaN on a failed row; ``content`` is 0 where a row has no problem hash."""

    path: Path | None
    problem: Ints
    repeat: Ints
    reward: Floats
    content: Keys
    prompt: Ints
    category: Ints
    cause: Ints
    finish: Ints
    tokens: Floats
    latency: Floats
    cost: Floats
    unparsed: Flags
    refusal: Flags
    offset: Ints
    categories: list[str]
    causes: list[str]
    finishes: list[str]
    malformed: int = 0
    # Rows of a (problem, repeat) that came again later; the later one counts.
    repeated: int = 0
    # Rows that came from memory rather than from a file.
    held: Sequence[JsonDict] | None = None

    def __len__(self) -> int:
        return len(self.problem)

    @property
    def scored(self) -> Flags:
        """Which rows hold a measurement."""
        return ~np.isnan(self.reward)

    @property
    def truncated(self) -> Flags:
        """Which answers ended because they were too long."""
        codes = [code for code, name in enumerate(self.finishes) if name in _TRUNCATED]
        return np.isin(self.finish, codes)

    @property
    def has_categories(self) -> bool:
        """Whether any row names its category."""
        return any(name != _NO_CATEGORY for name in self.categories)

    def full(self, index: int) -> JsonDict:
        """The whole row, read again from where it lies."""
        if self.held is not None:
            return dict(self.held[index])
        assert self.path is not None
        with self.path.open("rb") as file:
            file.seek(int(self.offset[index]))
            row: JsonDict = orjson.loads(file.readline())
        return row

    def take(self, keep: Flags | Ints) -> Rows:
        """The same columns, fewer rows."""
        columns: dict[str, Any] = {name: getattr(self, name)[keep] for name in _COLUMNS}
        held = None if self.held is None else [self.held[i] for i in np.arange(len(self))[keep]]
        return Rows(
            self.path,
            **columns,
            categories=self.categories,
            causes=self.causes,
            finishes=self.finishes,
            malformed=self.malformed,
            held=held,
        )


_COLUMNS: Final = {
    "problem": np.int64,
    "repeat": np.int64,
    "reward": np.float64,
    "content": np.uint64,
    "prompt": np.int64,
    "category": np.int64,
    "cause": np.int64,
    "finish": np.int64,
    "tokens": np.float64,
    "latency": np.float64,
    "cost": np.float64,
    "unparsed": np.bool_,
    "refusal": np.bool_,
    "offset": np.int64,
}
# What is kept in memory per row; the narrow types are widened by numpy where a sum needs it.
_STORED: Final = _COLUMNS | {
    "problem": np.int32,
    "repeat": np.int32,
    "category": np.int32,
    "cause": np.int16,
    "finish": np.int16,
    "tokens": np.float32,
    "latency": np.float32,
    "cost": np.float32,
}


def read_rows(path: Path, *, scorer: str | None = None) -> Rows:
    """The columns of a ``results.jsonl``; ``scorer`` takes the reward of that further scorer instead.

    A line that is not JSON is counted and left out; a file in which most lines are not is refused.
    """
    reader = _Reader(scorer)
    with path.open("rb") as file:
        chunks = [_arrays(chunk) for chunk in reader.chunks(_lines(file))]
    rows = reader.rows(path, chunks)
    if reader.malformed > len(rows):
        raise UsageError(
            f"{path}: {reader.malformed} lines are not result rows", hint="was the file cut or overwritten?"
        )
    return rows


def rows_of(results: Sequence[JsonDict], *, scorer: str | None = None) -> Rows:
    """The same columns from rows held in memory."""
    reader = _Reader(scorer)
    chunks = [_arrays(chunk) for chunk in reader.chunks(enumerate(results))]
    rows = reader.rows(None, chunks)
    rows.held = results
    return rows


def _lines(file: Any) -> Iterator[tuple[int, JsonDict | None]]:
    loads, offset = orjson.loads, 0
    for line in file:
        try:
            yield offset, loads(line)
        except orjson.JSONDecodeError:
            if line.strip():
                yield offset, None
        offset += len(line)


class _Reader:
    """Turns rows into tuples of numbers, and words into codes on the way."""

    def __init__(self, scorer: str | None) -> None:
        self._scorer = scorer
        self._categories, self._causes, self._finishes = Labels(), Labels(), Labels()
        self._causes.code("")
        self.malformed = 0

    def chunks(self, rows: Iterator[tuple[int, Any]] | enumerate[Any]) -> Iterator[list[tuple[Any, ...]]]:
        chunk: list[tuple[Any, ...]] = []
        for offset, row in rows:
            if type(row) is not dict or "problem_idx" not in row:
                self.malformed += 1
                continue
            chunk.append(self._numbers(offset, row))
            if len(chunk) >= _CHUNK:
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    def _numbers(self, offset: int, row: JsonDict) -> tuple[Any, ...]:
        get = row.get
        metadata = get("metadata")
        category = metadata.get("category") if type(metadata) is dict else None
        finish = get("finish_reason") or ""
        head = (get("model_response") or "")[:_HEAD].lower()
        tokens = get("completion_tokens")
        if tokens is None:
            tokens = get("tokens")
        return (
            row["problem_idx"],
            get("repeat") or 0,
            self._reward(row),
            _content(get("problem_hash")),
            hash(get("prompt")),
            self._categories.code(_NO_CATEGORY if category is None else str(category)),
            self._causes.code(_cause(row)),
            self._finishes.code(finish),
            tokens or 0,
            get("latency_ms") or 0.0,
            get("cost_usd") or 0.0,
            bool(get("unparsed")),
            finish == "content_filter" or any(phrase in head for phrase in _REFUSALS),
            offset,
        )

    def _reward(self, row: JsonDict) -> float:
        if row.get("status", "scored") != "scored" or _cause(row):
            return np.nan
        reward = row.get("reward") if self._scorer is None else _scorer_reward(row, self._scorer)
        return float(reward) if isinstance(reward, int | float) else np.nan

    def rows(self, path: Path | None, chunks: list[dict[str, NDArray[Any]]]) -> Rows:
        columns: dict[str, Any] = {
            name: np.concatenate([chunk[name] for chunk in chunks]) if chunks else np.empty(0, dtype)
            for name, dtype in _STORED.items()
        }
        rows = Rows(
            path,
            **columns,
            categories=self._categories.names,
            causes=self._causes.names,
            finishes=self._finishes.names,
            malformed=self.malformed,
        )
        return _last_of_each(rows)


def _arrays(chunk: list[tuple[Any, ...]]) -> dict[str, NDArray[Any]]:
    columns = zip(_STORED.items(), zip(*chunk, strict=True), strict=True)
    try:
        return {name: np.array(values, dtype=dtype) for (name, dtype), values in columns}
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"a result row holds something that is not a number: {error}") from error


def _content(found: Any) -> int:
    if not found:
        return 0
    try:
        number = int(found, 16)
    except (ValueError, TypeError):
        number = int.from_bytes(hashlib.blake2b(str(found).encode(), digest_size=8).digest())
    # All digits count, folded into 64 bits; 0 is kept for "no hash".
    return (number ^ (number >> 64)) & _64_BITS or 1


def _cause(row: JsonDict) -> str:
    failure = row.get("failure")
    if failure:
        return str(failure.get("cause", "unknown")) if type(failure) is dict else "unknown"
    if "status" in row:
        return ""
    # Rows from before `status` wrote a failed step as a zero and said so in the details.
    details = row.get("scoring_details")
    return "transport" if type(details) is dict and details.get("error_category") == "infra_error" else ""


def _scorer_reward(row: JsonDict, scorer: str) -> Any:
    rewards = row.get("scorer_rewards") or {}
    return rewards.get(scorer, rewards.get(scorer.removeprefix("scorer:")))


def _last_of_each(rows: Rows) -> Rows:
    """One row per (problem, repeat): of several the last one counts."""
    if not len(rows):
        return rows
    step = rows.problem.astype(np.int64) * (int(rows.repeat.max()) + 1) + rows.repeat
    if bool((step[1:] > step[:-1]).all()):
        return rows
    order = np.argsort(step, kind="stable")
    last = np.r_[step[order][1:] != step[order][:-1], True]
    kept = rows.take(order[last])
    kept.repeated = len(rows) - len(kept)
    return kept
