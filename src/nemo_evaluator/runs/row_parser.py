"""Parses lines of ``results.jsonl`` from any writer into columns of numbers for decisions."""

import hashlib
import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nemo_evaluator.core.json_coerce import as_dict, as_text
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.index_piece import Codes
from nemo_evaluator.runs.row import category_of, cause_of
from nemo_evaluator.store.view_rows import is_refusal

NO_CATEGORY: Final = "unknown"

_64_BITS: Final = (1 << 64) - 1
_MOST: Final = (1 << 31) - 1


# The values kept in memory per row; numpy widens the narrow types where a sum needs it.
COLUMNS: Final = {
    "problem": np.int32,
    "repeat": np.int32,
    "reward": np.float64,
    "content": np.uint64,
    "cluster": np.int64,
    "prompt": np.int64,
    "expected": np.int64,
    "category": np.int32,
    "cause": np.int16,
    "finish": np.int16,
    "tokens": np.float32,
    "total": np.float32,
    "latency": np.float32,
    "cost": np.float32,
    "unparsed": np.bool_,
    "refusal": np.bool_,
    "unanswered": np.bool_,
    "offset": np.int64,
}
_CHUNK: Final = 2_000


class RowColumns:
    """Columns that grow row by row; words become codes."""

    def __init__(self, scorer: str | None = None) -> None:
        """Start with empty columns.

        Args:
            scorer: The extra scorer whose reward to use; the row's own reward without one.
        """
        self._scorer = scorer
        self.categories = Codes()
        self.causes = Codes("")
        self.finishes = Codes()
        self.malformed = self._count = 0
        self._rows: list[tuple[Any, ...]] = []
        columns: dict[str, np.ndarray[tuple[Any, ...], np.dtype[Any]]] = {}
        for name, dtype in COLUMNS.items():
            columns[name] = np.zeros(_CHUNK, dtype)
        self._columns: dict[str, NDArray[Any]] = columns

    def add(self, offset: int, row: Any) -> None:
        """Add a row; a value that is not a row is counted as malformed."""
        if type(row) is not dict:
            self.malformed += 1
            return
        try:
            self._rows.append(self._numbers(offset, row))
        except (TypeError, AttributeError, ValueError, OverflowError):
            # Rows of other writers may have a list instead of a text; only such rows take the slow path.
            tidy_row = _tidy(row)
            if tidy_row is None:
                self.malformed += 1
                return
            self._rows.append(self._numbers(offset, tidy_row))
        if len(self._rows) >= _CHUNK:
            self._take()

    def columns(self) -> dict[str, Any]:
        """Return the columns by name; no rows can be added after that."""
        self._take()
        return {name: column[: self._count] for name, column in self._columns.items()}

    def _take(self) -> None:
        """Move the waiting rows to the columns."""
        end = self._count + len(self._rows)
        for (name, dtype), values in zip(
            COLUMNS.items(), zip(*self._rows, strict=True), strict=False
        ):
            column = previous_column = self._columns[name]
            if len(column) < end:
                column = self._columns[name] = np.zeros(2 * end, dtype)
                column[: self._count] = previous_column[: self._count]
            column[self._count : end] = np.array(values, dtype)
        self._rows = []
        self._count = end

    def _numbers(self, offset: int, row: JsonDict) -> tuple[Any, ...]:
        """Return the numbers of a row in the order of the columns.

        Raises:
            ValueError: The row has no usable sample number or a value that is not finite.
        """
        get = row.get
        index = get("problem_idx")
        repeat = get("repeat") or 0
        if (
            type(index) is not int
            or type(repeat) is not int
            or not 0 <= repeat <= _MOST
            or not -_MOST <= index <= _MOST
        ):
            raise ValueError("no problem_idx")
        finish_reason = get("finish_reason") or ""
        text = get("model_response") or ""
        cause = cause_of(row)
        category = category_of(row)
        if cause:
            reward = math.nan
        else:
            reward = self._reward(row)
        tokens = get("completion_tokens") or 0
        total = get("tokens") or 0
        latency = get("latency_ms") or 0.0
        cost = get("cost_usd") or 0.0
        # The sum raises TypeError for anything that is not a number.
        if not math.isfinite(tokens + total + latency + cost):
            raise ValueError("not a number")
        return (
            index,
            repeat,
            reward,
            content_key(get("problem_hash")),
            cluster_key(get("cluster")),
            hash(get("prompt") or ""),
            _answer_key(get("expected_answer")),
            self.categories[NO_CATEGORY if category is None else category],
            self.causes[cause],
            self.finishes[finish_reason],
            tokens,
            total,
            latency,
            cost,
            bool(get("unparsed")),
            is_refusal(text, finish_reason),
            # An empty answer may be right; an agent may leave its answer elsewhere; a label explains a missing answer.
            reward < 1
            and (
                finish_reason == "content_filter"
                or not (text.strip() or get("trajectory") or get("label"))
            ),
            offset,
        )

    def _reward(self, row: JsonDict) -> float:
        """Return the reward of a row, or that of the chosen scorer; NaN if there is none."""
        if row.get("status", "scored") != "scored":
            return math.nan
        reward = row.get("reward")
        if self._scorer is not None:
            rewards = row.get("scorer_rewards") or {}
            reward = rewards.get(self._scorer, rewards.get(self._scorer.removeprefix("scorer:")))
        if not isinstance(reward, int | float) or not math.isfinite(reward):
            return math.nan
        return float(reward)


def _tidy(row: JsonDict) -> JsonDict | None:
    """Return the row with the expected type in every field, or None if it does not name its problem."""
    index = _whole(row.get("problem_idx"))
    if index is None:
        return None
    clean_numbers: dict[str, float] = {}
    for name in ("completion_tokens", "tokens", "latency_ms", "cost_usd"):
        clean_numbers[name] = _number(row.get(name))
    clean_texts = {
        name: as_text(row.get(name)) for name in ("finish_reason", "model_response", "prompt")
    }
    clean_objects: dict[str, dict[str, Any]] = {}
    for name in ("scorer_rewards", "scoring_details", "metadata"):
        clean_objects[name] = as_dict(row.get(name))
    return (
        row
        | clean_numbers
        | clean_texts
        | clean_objects
        | {"problem_idx": index, "repeat": max(_whole(row.get("repeat")) or 0, 0)}
    )


def _whole(value: Any) -> int | None:
    """Return a whole number, also one that is stored as a float; None for any other value."""
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int and -_MOST <= value <= _MOST:
        return value
    return None


def _number(value: Any) -> float:
    """Return a number of reasonable size as a float; 0 for any other value."""
    is_usable = isinstance(value, int | float) and abs(value) < _64_BITS
    if is_usable:
        return float(value)
    return 0.0


def content_key(found: Any) -> int:
    """Return the digest of a problem's content as a number; 0 if a row has none."""
    if not found:
        return 0
    try:
        number = int(found, 16)
    except (ValueError, TypeError):
        number = int.from_bytes(hashlib.blake2b(str(found).encode(), digest_size=8).digest())
    # All digits are folded into 64 bits; 0 is reserved for "no hash".
    return (number ^ (number >> 64)) & _64_BITS or 1


def cluster_key(cluster: Any) -> int:
    """Return a hash of a cluster's label, the same within a process; 0 for a row without one."""
    if not cluster:
        return 0
    return hash(str(cluster)) or 1


def _answer_key(expected: Any) -> int:
    """Return a hash of an expected answer; 0 for None."""
    if type(expected) is str:
        return hash(expected)
    if expected is None:
        return 0
    return hash(repr(expected))
