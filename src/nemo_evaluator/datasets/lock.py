"""The lock: which revision and which content a hub dataset had when it was first used.

A later run takes the locked revision. Content that differs is a warning and a new entry, or, frozen, a refusal.
"""

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_json, write_json
from nemo_evaluator.core.values import asdict, dataclass
from nemo_evaluator.datasets.settings import is_frozen, lock_file

_log = logging.getLogger(__name__)
_VERSION = 1


@dataclass(frozen=True, slots=True)
class LockEntry:
    """What is pinned of one dataset split."""

    sha256: str
    rows: int
    revision: str | None = None
    origin: str = "hub"


_pending: list[dict[str, LockEntry]] = []


def read_lock(path: Path | None = None) -> dict[str, LockEntry]:
    """All entries of the lock in force; an absent file has none."""
    path = path or lock_file()
    try:
        value = read_json(path)
        if value.get("version") != _VERSION:
            message = f"{path} has version {value.get('version')}, not {_VERSION}"
            raise UsageError(message, hint="delete it to create a new one")
        return {key: LockEntry(**entry) for key, entry in value["datasets"].items()}
    except FileNotFoundError:
        return {}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} is not a dataset lock: {error}", hint="delete it to create a new one"
        ) from error


def check(key: str, found: LockEntry) -> None:
    """Compare what was found with the lock, and write it there when it is new."""
    path = lock_file()
    known = read_lock(path).get(key)
    if known is not None and known.sha256 == found.sha256:
        return
    changed = known and (
        f"has changed since it was locked (locked: {_described(known)}; now: {_described(found)})"
    )
    if is_frozen():
        hint = "run once without --frozen to accept it, or restore the locked data"
        raise UsageError(f"{key} {changed or 'is not in the lock'}: {path}", hint=hint)
    if changed:
        _log.warning("%s %s; scores may not be comparable", key, changed)
    if _pending:
        _pending[-1][key] = found
    else:
        _add({key: found}, path)


@contextmanager
def one_write() -> Iterator[None]:
    """Write what is new inside the block at once: a benchmark may open sixty splits."""
    _pending.append({})
    try:
        yield
    finally:
        found = _pending.pop()
        if found:
            _add(found, lock_file())


def _add(found: dict[str, LockEntry], path: Path) -> None:
    with exclusive(path):
        write_lock({**read_lock(path), **found}, path)


def forget(keys: set[str]) -> list[str]:
    """Drop entries, so that the next use takes the newest revision; returns the dropped keys."""
    path = lock_file()
    with exclusive(path):
        entries = read_lock(path)
        dropped = sorted(keys & entries.keys())
        if dropped:
            write_lock({key: entry for key, entry in entries.items() if key not in keys}, path)
    return dropped


def write_lock(entries: dict[str, LockEntry], path: Path) -> None:
    """Write a whole lock file."""
    write_json(
        path,
        {"version": _VERSION, "datasets": {key: asdict(entries[key]) for key in sorted(entries)}},
    )


def _described(entry: LockEntry) -> str:
    return f"{entry.rows} rows, {entry.sha256[:12]}, revision {entry.revision}"


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """One process at a time: two that lock at once both end up in the file, two that download find one copy."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.guard").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield
