"""The index beside the rows: where each one is, and the fields it is looked up by, in SQLite.

While a run writes, the index covers the journal and the run keeps it; afterwards it covers ``results.jsonl``. It holds
nothing that cannot be read again: an index that is missing, older than its file or broken is built anew.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.core.failures import POLICY, Cause
from nemo_evaluator.core.failures import Row as RowPolicy
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.row import Row, category_of
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.records import ANSWER, OUTCOME, total_tokens
from nemo_evaluator.store.sealed import open_line
from nemo_evaluator.store.view_rows import TRUNCATED, is_refusal, is_tripped, is_unparsed

if TYPE_CHECKING:
    from nemo_evaluator.store.journal import Journal

TRUNCATED_FLAG: Final = 1
UNPARSED_FLAG: Final = 2
REFUSED_FLAG: Final = 4
TRIPPED_FLAG: Final = 8
# A row's number: problems above, repeats in the lower bits, so that the order of numbers is the order of rows.
REPEAT_BITS: Final = 20
_VERSION: Final = 2
_WAIT: Final = 10.0
_BATCH: Final = 5_000
# How often a run writes what its journal got, in seconds.
_EVERY: Final = 2.0
_ABSENT: Final = frozenset(cause.value for cause in Cause if POLICY[cause].row is RowPolicy.ABSENT)
_SCHEMA: Final = f"""
CREATE TABLE source (name TEXT, upto INTEGER, stamp INTEGER);
CREATE TABLE totals (rows INTEGER, failed INTEGER, rewards INTEGER, sum REAL, cost REAL);
INSERT INTO totals VALUES (0, 0, 0, 0.0, 0.0);
CREATE TABLE rows (id INTEGER PRIMARY KEY, at INTEGER, length INTEGER, answer INTEGER, reward REAL, cause TEXT,
                   category TEXT, finish_reason TEXT, tokens INTEGER, latency_ms REAL, flags INTEGER, cost REAL);
PRAGMA user_version = {_VERSION};
"""
# As SQLite keeps them: an index whose tables read otherwise is damaged.
_TABLES: Final = frozenset(part.strip() for part in _SCHEMA.split(";") if part.strip().startswith("CREATE TABLE"))
_INSERT: Final = "INTO rows VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
# For looking up, made when somebody looks: a run that nobody watches does not pay for them.
_LOOKUPS: Final = {
    **{name: f"rows ({name})" for name in ("reward", "category", "finish_reason", "tokens", "latency_ms", "cost")},
    "cause": "rows (cause, category) WHERE cause IS NOT NULL",
    "truncated": f"rows (category) WHERE flags & {TRUNCATED_FLAG}",
    "unparsed": f"rows (category) WHERE flags & {UNPARSED_FLAG}",
    "refused": f"rows (category) WHERE flags & {REFUSED_FLAG}",
    "tripped": f"rows (category) WHERE flags & {TRIPPED_FLAG}",
}
_Entry = tuple[Any, ...]


class IndexWriter:
    """Takes in rows or records and writes them in batches; several may write, what they write is the same."""

    def __init__(self, task: TaskPaths, source: Path) -> None:
        self.path, self._source = task.index, source
        self.entries: list[_Entry] = []
        # Answers without an outcome yet, by number: where they begin, and what the row takes from them.
        self._answers: dict[int, tuple[int, _Entry]] = {}
        self._end = 0
        self._due = 0.0
        self._lock, self.broken = threading.Lock(), False

    def note(self, offset: int, length: int, record: JsonDict) -> None:
        """Take in a record of the journal."""
        self._end, kind = offset + length, record.get("kind")
        if kind == ANSWER:
            text, finish = record.get("response") or "", record.get("finish_reason")
            flags = (finish in TRUNCATED) * TRUNCATED_FLAG | is_refusal(text, finish) * REFUSED_FLAG
            facts = _clean(finish), total_tokens(record), record.get("latency_ms"), flags, _clean(category_of(record))
            self._answers[_number(record["problem_idx"], record["repeat"])] = offset, (*facts, record.get("cost_usd"))
        elif kind == OUTCOME:
            number = _number(record["problem_idx"], record["repeat"])
            answer, (finish, tokens, latency, flags, category, cost) = self._answers.pop(number, _NO_ANSWER)
            cause = record["failure"]["cause"] if record["status"] == "failed" else None
            if cause not in _ABSENT:
                flags |= is_unparsed(record) * UNPARSED_FLAG | is_tripped(record) * TRIPPED_FLAG
                category = category or _clean(category_of(record))
                at = (number, offset, length, answer, record.get("reward"), cause)
                self.entries.append((*at, category, finish, tokens, latency, flags, cost))

    def skip(self, end: int) -> None:
        """Pass over a line that holds nothing."""
        self._end = end

    def add(self, offset: int, length: int, data: JsonDict) -> None:
        """Take in a line of ``results.jsonl``."""
        self._end = offset + length
        facts = _plain_facts(data) or _facts(Row(data))
        self.entries.append((facts[0], offset, length, None, *facts[1:]))

    def batch(self) -> Callable[[], None] | None:
        """The writing of what was taken in, for another thread to do; None until it is due again."""
        if not self.entries or time.monotonic() < self._due:
            return None
        self._due = time.monotonic() + _EVERY
        return self._batch(0)

    def flush(self, *, whole: bool = False) -> None:
        """Write what was taken in; ``whole`` when the source is finished, so that its time stands for its content."""
        self._batch(self._source.stat().st_mtime_ns if whole else 0)()

    def _batch(self, stamp: int) -> Callable[[], None]:
        entries, self.entries = self.entries, []
        upto = min((at for at, _ in self._answers.values()), default=self._end)
        source = self._source.name, upto, stamp

        def write() -> None:
            with self._lock:
                if self.broken:
                    return
                try:
                    with _connect(self.path) as db:
                        _put(db, entries)
                        db.execute("DELETE FROM source")
                        db.execute("INSERT INTO source VALUES (?, ?, ?)", source)
                except sqlite3.Error:
                    # The rows are safe in their files: whoever reads next goes on from where the index ends.
                    self.broken = True

        return write

    def start(self) -> None:
        """Begin an empty index."""
        try:
            self.path.unlink(missing_ok=True)
            with _connect(self.path) as db:
                db.executescript(_SCHEMA)
        except (sqlite3.Error, OSError):
            self.broken = True


_NO_ANSWER: Final[tuple[int | None, _Entry]] = (None, (None, 0, None, 0, None, None))


def _put(db: sqlite3.Connection, entries: list[_Entry]) -> None:
    """Write entries, and keep the totals: those of rows that are there already are taken off first."""
    db.execute("SAVEPOINT entries")
    try:
        db.executemany(f"INSERT {_INSERT}", entries)
        old: list[_Entry] = []
    except sqlite3.IntegrityError:
        db.execute("ROLLBACK TO entries")
        entries = list({entry[0]: entry for entry in entries}.values())
        found = (db.execute("SELECT * FROM rows WHERE id = ?", entry[:1]).fetchone() for entry in entries)
        old = [row for row in found if row is not None]
        db.executemany(f"INSERT OR REPLACE {_INSERT}", entries)
    db.execute("RELEASE entries")
    added, gone = _totals(entries), _totals(old)
    change = [plus - minus for plus, minus in zip(added, gone, strict=True)]
    changes = ", ".join(f"{name} = {name} + ?" for name in ("rows", "failed", "rewards", "sum", "cost"))
    db.execute(f"UPDATE totals SET {changes}", change)


def _totals(entries: list[_Entry]) -> tuple[int, int, int, float, float]:
    cost = float(sum(entry[11] or 0.0 for entry in entries))
    rewards = [entry[4] for entry in entries if entry[4] is not None]
    return len(entries), sum(entry[5] is not None for entry in entries), len(rewards), float(sum(rewards)), cost


def _facts(row: Row) -> _Entry:
    """What the index keeps of a row, whoever wrote it."""
    flags = row.truncated * TRUNCATED_FLAG | row.unparsed * UNPARSED_FLAG | row.refused * REFUSED_FLAG
    flags |= is_tripped(row.data) * TRIPPED_FLAG
    about = row.category, row.finish_reason, row.tokens, row.latency_ms, flags, row.cost_usd
    return (_number(*row.key), row.reward, row.cause or None, *about)


def _plain_facts(data: JsonDict) -> _Entry | None:
    """The same of a scored row as nel writes it, in a fifth of the time; None for any other."""
    get = data.get
    reward, finish, tokens, latency = get("reward"), get("finish_reason"), get("tokens"), get("latency_ms")
    text, details, meta, cost = get("model_response"), get("scoring_details"), get("metadata"), get("cost_usd")
    repeat, kinds = get("repeat"), (type(reward), type(finish), type(tokens), type(latency), type(text))
    if kinds != _KINDS or type(details) is not dict or type(meta) is not dict or type(repeat) is not int:
        return None
    if get("status") != "scored" or get("failure") or (cost is not None and type(cost) is not float):
        return None
    flags = TRUNCATED_FLAG if finish in TRUNCATED else 0
    if details.get("unparsed") or get("unparsed"):
        flags |= UNPARSED_FLAG
    if is_refusal(str(text), finish):
        flags |= REFUSED_FLAG
    if details.get("tripwires"):
        flags |= TRIPPED_FLAG
    category = meta.get("category")
    if type(category) is not str:
        category = category_of(data)
    number = (data["problem_idx"] << REPEAT_BITS) | repeat
    return number, reward, None, category, finish, tokens, latency, flags, cost


_KINDS: Final = (float, str, int, float, str)


def _clean(word: Any) -> Any:
    """A word of a record without secrets: the journal masks its lines as it writes them, which is later."""
    return word if word is None or word == "stop" else scrub(str(word))


def _number(problem: int, repeat: int) -> int:
    return (problem << REPEAT_BITS) | repeat


class _Connection(sqlite3.Connection):
    """Closed at the end of its ``with``, and its transaction with it."""

    def __exit__(self, *exception: Any) -> None:  # type: ignore[override]
        super().__exit__(*exception)
        self.close()


def _connect(path: Path | str) -> _Connection:
    # A reader that hands out rows one by one may be driven by several threads, one after another.
    db = sqlite3.connect(path, timeout=_WAIT, factory=_Connection, check_same_thread=False)
    # Nothing is lost with the index: what a crash of the machine leaves half written is built anew.
    db.execute("PRAGMA synchronous = OFF")
    return db


def open_index(task: TaskPaths) -> tuple[sqlite3.Connection, Path]:
    """The index of a benchmark's folder, up to date, and the file it covers; in memory where nothing can be written."""
    source = _source(task)
    if not _refresh(task, source).broken:
        return _connect(task.index), source
    memory = sqlite3.connect(":memory:", check_same_thread=False)
    memory.executescript(_SCHEMA)
    _put(memory, _take(IndexWriter(task, source), source, 0, hold=True))
    return memory, source


def settle_index(task: TaskPaths, rows: int) -> None:
    """The rows were written: the index of the journal stands for them if it holds as many, and is of no use if not."""
    if _refresh(task, task.journal).broken:
        return
    with _connect(task.index) as db:
        stamp = task.results.stat().st_mtime_ns
        db.execute("UPDATE source SET stamp = ? WHERE (SELECT rows FROM totals) = ?", (stamp, rows))


def _source(task: TaskPaths) -> Path:
    """The rows once they are whole, by way of the journal if its index stands for them; else the journal."""
    results, journal = task.results, task.journal
    if not journal.is_file():
        return results
    if not results.is_file() or results.stat().st_mtime_ns < journal.stat().st_mtime_ns:
        return journal
    settled = (journal.name, journal.stat().st_size, results.stat().st_mtime_ns)
    return journal if _covers(task) == settled else results


@contextmanager
def kept_index(task: TaskPaths, journal: Journal) -> Iterator[None]:
    """Keep the index of a journal while it is written; a folder in which that cannot be done has none."""
    journal.flush()
    journal.listener = writer = _refresh(task, task.journal)
    try:
        yield
    finally:
        journal.listener = None
        journal.flush()
        writer.flush()


def _refresh(task: TaskPaths, source: Path) -> IndexWriter:
    writer, upto = IndexWriter(task, source), _covered(task, source)
    if upto is None:
        writer.start()
    if source.is_file() and upto != source.stat().st_size:
        _take(writer, source, upto or 0)
        writer.flush(whole=source == task.results)
    return writer


def _covered(task: TaskPaths, source: Path) -> int | None:
    """Up to which byte of its source the index goes; None when it is to be built anew."""
    name, upto, stamp = _covers(task)
    if name != source.name:
        return None
    state = source.stat()
    fits = upto <= state.st_size if source == task.journal else (upto, stamp) == (state.st_size, state.st_mtime_ns)
    return upto if fits else None


def _covers(task: TaskPaths) -> tuple[str, int, int]:
    """What the index says of itself: the name of its source, up to where, and of which time the rows are."""
    if task.index.is_file():
        try:
            with _connect(task.index) as db:
                tables = {
                    sql
                    for (sql,) in db.execute(
                        "SELECT sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
                    )
                }
                if db.execute("PRAGMA user_version").fetchone() == (_VERSION,) and tables == _TABLES:
                    name, upto, stamp = db.execute("SELECT name, upto, stamp FROM source").fetchone() or ("", 0, 0)
                    if (type(name), type(upto), type(stamp)) == (str, int, int):
                        return name, upto, stamp
        except sqlite3.DatabaseError:
            return "", 0, 0
    return "", 0, 0


def _take(writer: IndexWriter, source: Path, start: int, *, hold: bool = False) -> list[_Entry]:
    """Take in a source from a byte on, written in batches unless they are to be held; returns what is not written."""
    journal = source.name == TaskPaths(source.parent).journal.name
    for offset, line in _lines(source, start) if source.is_file() else ():
        record = open_line(line)
        if record is None or (not journal and type(record.get("problem_idx")) is not int):
            writer.skip(offset + len(line))
        else:
            (writer.note if journal else writer.add)(offset, len(line), record)
            if len(writer.entries) >= _BATCH and not hold:
                writer.flush()
    return writer.entries


def _lines(path: Path, start: int) -> Iterator[tuple[int, bytes]]:
    offset = start
    with path.open("rb", buffering=1 << 20) as file:
        file.seek(start)
        for line in file:
            if line.endswith(b"\n") or path.name == TaskPaths(path.parent).results.name:
                yield offset, line
            offset += len(line)


def add_lookups(db: sqlite3.Connection, names: Iterable[str]) -> None:
    """What makes looking up by these fields quick, unless it is there."""
    known = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    missing = [name for name in names if name in _LOOKUPS and f"by_{name}" not in known]
    try:
        for name in missing:
            db.execute(f"CREATE INDEX IF NOT EXISTS by_{name} ON {_LOOKUPS[name]}")
        if missing:
            # A sample is enough to choose between lookups.
            db.execute("PRAGMA analysis_limit = 1000")
            db.execute("ANALYZE")
            db.commit()
    except sqlite3.OperationalError:
        # A folder that cannot be written, or a run that holds the index: looking up takes longer.
        db.rollback()
