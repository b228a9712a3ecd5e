"""The answer store: one SQLite file in WAL mode, read directly, written in batches by a thread."""

import asyncio
import sqlite3
import time
import zlib
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import scrub_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass

FILE: Final = "answers.db"
# Answers are written in batches, at most this many seconds late.
_BATCH: Final = 64
_DELAY: Final = 0.25
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, body BLOB NOT NULL, model TEXT NOT NULL, created REAL NOT NULL
) WITHOUT ROWID
"""
# Removes the oldest answers, so that the rest fit in a number of bytes.
_DELETE_OLDEST: Final = """
DELETE FROM answers WHERE key IN (SELECT key FROM (
    SELECT key, SUM(LENGTH(body)) OVER (ORDER BY created DESC ROWS UNBOUNDED PRECEDING) AS total FROM answers
) WHERE total > ?)
"""


@dataclass(frozen=True, slots=True)
class StoreStats:
    """The size of a store; ``oldest`` and ``newest`` are times in seconds since 1970."""

    path: Path
    entries: int
    bytes: int
    models: dict[str, int]
    oldest: float | None
    newest: float | None


class _Entry(NamedTuple):
    """A row of the store; ``packed`` is the compressed body."""

    key: str
    packed: bytes
    model: str
    created: float


class AnswerStore:
    """Answers by key. Several processes may share a store."""

    def __init__(self, folder: Path) -> None:
        """Open the store in a folder.

        Raises:
            UsageError: The file there is not a usable database.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._db = _connect(self.path)
        self._pending: dict[str, _Entry] = {}
        self._writing: dict[str, _Entry] = {}
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._closing = False

    def get(self, key: str) -> JsonDict | None:
        """The answer of a key, if there is one."""
        unwritten = self._pending.get(key) or self._writing.get(key)
        if unwritten is not None:
            packed = unwritten.packed
        else:
            row = self._db.execute("SELECT body FROM answers WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            packed = row[0]
        body: JsonDict = orjson.loads(zlib.decompress(packed))
        return body

    async def put(self, key: str, body: JsonDict, *, model: str) -> None:
        """Store an answer; it is on disk at most a quarter of a second later."""
        packed = zlib.compress(scrub_json(orjson.dumps(body)), 1)
        self._pending[key] = _Entry(key, packed, model, created=time.time())
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write_behind())
        if len(self._pending) >= _BATCH:
            self._wake.set()

    async def close(self) -> None:
        """Write the remaining answers and close the file."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await self._task
        self._db.close()

    async def _write_behind(self) -> None:
        """Write pending answers together, a short time after the first of them."""
        while not (self._closing and not self._pending):
            try:
                await asyncio.wait_for(self._wake.wait(), _DELAY)
            except TimeoutError:
                pass
            self._wake.clear()
            if self._pending:
                self._writing = self._pending
                self._pending = {}
                await asyncio.to_thread(_write, self.path, list(self._writing.values()))
                self._writing = {}


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file of the store, and create its table.

    Raises:
        UsageError: The file is not a usable database.
    """
    db: sqlite3.Connection | None = None
    try:
        db = sqlite3.connect(path, timeout=10.0, isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute(_SCHEMA)
    except sqlite3.DatabaseError as error:
        if db is not None:
            db.close()
        hint = "remove the file, or choose another cache dir"
        raise UsageError(f"the answer cache {path} cannot be used: {error}", hint=hint) from error
    return db


def _write(path: Path, rows: list[_Entry]) -> None:
    with closing(_connect(path)) as db:
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", rows)
        db.execute("COMMIT")


def store_stats(folder: Path) -> StoreStats:
    """The size of the store in a folder."""
    path = folder / FILE
    if not path.is_file():
        return StoreStats(path, 0, 0, models={}, oldest=None, newest=None)
    with closing(_connect(path)) as db:
        entries, oldest, newest = db.execute(
            "SELECT COUNT(*), MIN(created), MAX(created) FROM answers"
        ).fetchone()
        counts = db.execute("SELECT model, COUNT(*) FROM answers GROUP BY model ORDER BY 2 DESC")
        models = dict(counts.fetchall())
    size = sum(item.stat().st_size for item in folder.glob(f"{FILE}*"))
    return StoreStats(path, entries, size, models=models, oldest=oldest, newest=newest)


def prune_store(
    folder: Path, *, older_than: float | None = None, max_bytes: int | None = None
) -> int:
    """Remove old answers from a store.

    Args:
        folder: The folder of the store.
        older_than: Remove answers older than this many seconds.
        max_bytes: Then remove the oldest ones until the rest fit in this many bytes.

    Returns:
        The number of removed answers.
    """
    path = folder / FILE
    if not path.is_file():
        return 0
    with closing(_connect(path)) as db:
        removed = 0
        if older_than is not None:
            limit = time.time() - older_than
            removed += db.execute("DELETE FROM answers WHERE created < ?", (limit,)).rowcount
        if max_bytes is not None:
            removed += db.execute(_DELETE_OLDEST, (max_bytes,)).rowcount
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return removed


def clear_store(folder: Path) -> int:
    """Remove the whole store. Returns the number of answers it held."""
    entries = store_stats(folder).entries
    for item in folder.glob(f"{FILE}*"):
        item.unlink()
    return entries
