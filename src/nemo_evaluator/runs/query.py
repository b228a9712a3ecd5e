"""Rows by what is known of them: which, in which order, and how many."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.runs.index import REFUSED_FLAG, REPEAT_BITS, TRUNCATED_FLAG, UNPARSED_FLAG

Order = Literal["problem_idx", "-problem_idx", "reward", "-reward", "tokens", "-tokens", "latency_ms", "-latency_ms"]
_ORDERS: Final = {"problem_idx": "id", "reward": "reward", "tokens": "tokens", "latency_ms": "latency_ms"}
_LOOKED_UP: Final = {"status": "cause", "min_reward": "reward", "max_reward": "reward"}
_FLAGS: Final = {"truncated": TRUNCATED_FLAG, "unparsed": UNPARSED_FLAG, "refused": REFUSED_FLAG}


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows are meant; what is None is not asked about."""

    status: Literal["scored", "failed"] | None = None
    cause: str | None = None
    category: str | None = None
    finish_reason: str | None = None
    truncated: bool | None = None
    unparsed: bool | None = None
    refused: bool | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    problem_idx: int | None = None

    def __bool__(self) -> bool:
        return self != RowFilter()

    def fields(self) -> list[str]:
        """What is asked about, by the names of lookups."""
        asked = {name for name in self.__slots__ if getattr(self, name) not in (None, False)}
        return [_LOOKED_UP.get(name, name) for name in asked if self.status != "scored" or name != "status"]

    def where(self) -> tuple[str, list[Any]]:
        """The condition in SQL, and its values."""
        parts: list[tuple[str, list[Any]]] = []
        if self.status is not None:
            parts.append(("cause IS NULL" if self.status == "scored" else "cause IS NOT NULL", []))
        texts = {"cause": self.cause, "category": self.category, "finish_reason": self.finish_reason}
        parts += [(f"{name} = ?", [value]) for name, value in texts.items() if value is not None]
        for name, flag in _FLAGS.items():
            if (value := getattr(self, name)) is not None:
                parts.append((f"flags & {flag}" if value else f"NOT flags & {flag}", []))
        if self.min_reward is not None:
            parts.append(("reward >= ?", [self.min_reward]))
        if self.max_reward is not None:
            parts.append(("reward <= ?", [self.max_reward]))
        if self.problem_idx is not None:
            first = self.problem_idx << REPEAT_BITS
            parts.append(("id BETWEEN ? AND ?", [first, first + (1 << REPEAT_BITS) - 1]))
        words = " AND ".join(text for text, _ in parts)
        return (f" WHERE {words}" if words else ""), [value for _, values in parts for value in values]


def places(
    db: sqlite3.Connection, which: RowFilter, order: Order, offset: int, limit: int | None
) -> Iterator[tuple[int, int, int | None]]:
    """Offset, length and the answer's offset of the rows asked for."""
    name = order.removeprefix("-")
    if name not in _ORDERS:
        hint = did_you_mean(name, _ORDERS, f"known: {', '.join(_ORDERS)}; with - before it, descending")
        raise UsageError(f"rows cannot be ordered by {order!r}", hint=hint)
    direction = " DESC" if order.startswith("-") else ""
    where, values = which.where()
    by = f"{_ORDERS[name]}{direction}" + ("" if name == "problem_idx" else f", id{direction}")
    page = f"rows{where} ORDER BY {by} LIMIT ? OFFSET ?"
    if limit is not None:
        # Numbers first, which a lookup alone can give; then the places of those few.
        page = f"rows WHERE id IN (SELECT id FROM {page}) ORDER BY {by}"
    query = f"SELECT at, length, answer FROM {page}"
    yield from db.execute(query, [*values, -1 if limit is None else limit, offset])


def count(db: sqlite3.Connection, which: RowFilter) -> int:
    """How many rows there are."""
    where, values = which.where()
    found: int = db.execute(f"SELECT count(*) FROM rows{where}", values).fetchone()[0]
    return found
