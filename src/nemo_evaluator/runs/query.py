"""Rows by what is known of them: which, in which order, and how many."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.runs.index import REFUSED_FLAG, REPEAT_BITS, TRIPPED_FLAG, TRUNCATED_FLAG, UNPARSED_FLAG

Order = Literal["problem_idx", "-problem_idx", "reward", "-reward", "tokens", "-tokens", "latency_ms", "-latency_ms"]
_ORDERS: Final = {"problem_idx": "id"} | {name: name for name in ("reward", "tokens", "latency_ms", "cost")}
_RANGES: Final = ("reward", "tokens", "latency_ms")
_LOOKED_UP: Final = {"status": "cause"} | {f"{end}_{name}": name for end in ("min", "max") for name in _RANGES}
FLAGS: Final = {
    "truncated": TRUNCATED_FLAG,
    "unparsed": UNPARSED_FLAG,
    "refused": REFUSED_FLAG,
    "tripped": TRIPPED_FLAG,
}


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
    tripped: bool | None = None
    min_tokens: float | None = None
    max_tokens: float | None = None
    min_latency_ms: float | None = None
    max_latency_ms: float | None = None
    # Only these rows, or none of these, by problem and repeat.
    among: frozenset[tuple[int, int]] | None = field(default=None, repr=False)
    beyond: frozenset[tuple[int, int]] | None = field(default=None, repr=False)

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
        for name, flag in FLAGS.items():
            if (value := getattr(self, name)) is not None:
                parts.append((f"flags & {flag}" if value else f"NOT flags & {flag}", []))
        for end, sign in (("min", ">="), ("max", "<=")):
            bounds = [(name, getattr(self, f"{end}_{name}")) for name in _RANGES]
            parts += [(f"{name} {sign} ?", [value]) for name, value in bounds if value is not None]
        for keys, within in ((self.among, "IN"), (self.beyond, "NOT IN")):
            if keys is not None:
                numbers = orjson.dumps([(problem << REPEAT_BITS) | repeat for problem, repeat in keys]).decode()
                parts.append((f"id {within} (SELECT value FROM json_each(?))", [numbers]))
        if self.problem_idx is not None:
            first = self.problem_idx << REPEAT_BITS
            parts.append(("id BETWEEN ? AND ?", [first, first + (1 << REPEAT_BITS) - 1]))
        words = " AND ".join(text for text, _ in parts)
        return (f" WHERE {words}" if words else ""), [value for _, values in parts for value in values]


@dataclass(frozen=True, slots=True)
class Place:
    """What the index knows of a row: where it lies (its answer elsewhere in a journal), and its columns."""

    number: int
    at: int
    length: int
    answer: int | None
    reward: float | None
    cause: str | None
    category: str | None
    finish_reason: str | None
    tokens: int | None
    latency_ms: float | None
    flags: int
    cost_usd: float | None

    @property
    def key(self) -> tuple[int, int]:
        """Problem and repeat."""
        return self.number >> REPEAT_BITS, self.number & ((1 << REPEAT_BITS) - 1)


def places(
    db: sqlite3.Connection, which: RowFilter, order: Order | str, offset: int, limit: int | None
) -> Iterator[Place]:
    """The rows asked for, as the index knows them."""
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
    found = db.execute(f"SELECT * FROM {page}", [*values, -1 if limit is None else limit, offset])
    return (Place(*row) for row in found)


def count(db: sqlite3.Connection, which: RowFilter) -> int:
    """How many rows there are."""
    where, values = which.where()
    found: int = db.execute(f"SELECT count(*) FROM rows{where}", values).fetchone()[0]
    return found


def tally(
    db: sqlite3.Connection, column: Literal["cause", "category", "finish_reason"]
) -> list[tuple[str, int, float]]:
    """The values of a column, the most frequent first, each with its rows and their mean reward (0 without any)."""
    said = f"SELECT {column}, count(*), coalesce(avg(reward), 0.0) FROM rows WHERE {column} IS NOT NULL"
    return db.execute(f"{said} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1000").fetchall()


def outcomes(db: sqlite3.Connection) -> tuple[dict[str, int], bool]:
    """Rows by what became of them, in the words of reports; and whether every reward is 0 or 1."""
    kind = (
        "CASE WHEN cause IS NOT NULL THEN 'failed' WHEN reward IS NULL THEN 'unscored' WHEN reward >= 1 THEN 'right'"
        f" WHEN flags & {UNPARSED_FLAG} THEN 'unparsed' WHEN flags & {TRUNCATED_FLAG} THEN 'truncated' ELSE 'wrong' END"
    )
    found = db.execute(f"SELECT {kind}, count(*), max(reward NOT IN (0, 1)) FROM rows GROUP BY 1").fetchall()
    return {name: count for name, count, _ in found}, not any(graded for *_, graded in found)


def distribution(
    db: sqlite3.Connection, column: Literal["latency_ms", "tokens"], bins: int = 24
) -> tuple[list[float], list[int]] | None:
    """Edges and counts of a column above 0, the last percent in a bin of its own; None where there is nothing."""
    known = f"FROM rows WHERE {column} > 0"
    number, low, top = db.execute(f"SELECT count(*), min({column}), max({column}) {known}").fetchone()
    if not number:
        return None
    place = max(0, -(-99 * number // 100) - 1)
    high = db.execute(f"SELECT {column} {known} ORDER BY 1 LIMIT 1 OFFSET ?", [place]).fetchone()[0]
    if high <= low:
        return [low, top if top > low else low + 1.0], [number]
    width, tail = (high - low) / bins, int(top > high)
    # What is exactly on the last edge belongs to the bin before it.
    part = f"CASE WHEN {column} > ? THEN {bins} ELSE min(CAST(({column} - ?) / ? AS INTEGER), {bins - 1}) END"
    counts = dict(db.execute(f"SELECT {part}, count(*) {known} GROUP BY 1", [high, low, width]).fetchall())
    edges = [low + width * at for at in range(bins)] + [high] + [top] * tail
    return edges, [counts.get(at, 0) for at in range(bins + tail)]
