"""The dataset lock: the revision and the content of each hub dataset when it was first used.

Later runs use the locked revision. Content that differs causes a warning and a new entry or, in frozen mode, an error.
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
    """The locked state of a dataset split.

    Attributes:
        sha256: The digest of its content.
        rows: The number of rows.
        revision: The commit on the hub, if known.
        origin: The source of the rows, such as ``hub``, ``mirror`` or ``url``.
    """

    sha256: str
    rows: int
    revision: str | None = None
    origin: str = "hub"


_pending: list[dict[str, LockEntry]] = []


def read_lock(path: Path | None = None) -> dict[str, LockEntry]:
    """Return all entries of a lock file; none if the file does not exist.

    Args:
        path: The lock file; None for the current one.

    Raises:
        UsageError: The file is not a valid lock, or has another version.
    """
    path = path or lock_file()
    try:
        document = read_json(path)
        if document.get("version") != _VERSION:
            message = f"{path} has version {document.get('version')}, not {_VERSION}"
            raise UsageError(message, hint="delete it to create a new one")
        return {key: LockEntry(**entry) for key, entry in document["datasets"].items()}
    except FileNotFoundError:
        return {}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} is not a dataset lock: {error}", hint="delete it to create a new one"
        ) from error


def check(key: str, current: LockEntry) -> None:
    """Compare a dataset with its lock entry, and add or update the entry.

    Args:
        key: The key of the dataset.
        current: The state of the dataset now.

    Raises:
        UsageError: In frozen mode, the dataset is not locked or has changed.
    """
    path = lock_file()
    locked = read_lock(path).get(key)
    if locked is not None and locked.sha256 == current.sha256:
        return
    problem = "is not in the lock"
    if locked is not None:
        problem = (
            "has changed since it was locked "
            f"(locked: {_described(locked)}; now: {_described(current)})"
        )
    if is_frozen():
        hint = "run once without --frozen to accept it, or restore the locked data"
        raise UsageError(f"{key} {problem}: {path}", hint=hint)
    if locked is not None:
        _log.warning("%s %s; scores may not be comparable", key, problem)
    if _pending:
        _pending[-1][key] = current
    else:
        _add({key: current}, path)


@contextmanager
def one_write() -> Iterator[None]:
    """Collect new entries inside the block and write them together, because a benchmark may open sixty splits."""
    _pending.append({})
    try:
        yield
    finally:
        new_entries = _pending.pop()
        if new_entries:
            _add(new_entries, lock_file())


def _add(new_entries: dict[str, LockEntry], path: Path) -> None:
    """Add entries to a lock file."""
    with exclusive(path):
        write_lock({**read_lock(path), **new_entries}, path)


def forget(keys: set[str]) -> list[str]:
    """Remove entries, so that the next use takes the newest revision.

    Args:
        keys: The datasets.

    Returns:
        The removed keys, sorted.
    """
    path = lock_file()
    with exclusive(path):
        entries = read_lock(path)
        dropped = sorted(keys & entries.keys())
        for key in dropped:
            del entries[key]
        if dropped:
            write_lock(entries, path)
    return dropped


def write_lock(entries: dict[str, LockEntry], path: Path) -> None:
    """Write a whole lock file."""
    datasets = {key: asdict(entries[key]) for key in sorted(entries)}
    write_json(path, {"version": _VERSION, "datasets": datasets})


def _described(entry: LockEntry) -> str:
    return f"{entry.rows} rows, {entry.sha256[:12]}, revision {entry.revision}"


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock for a path across processes: concurrent updates are all kept, and a download happens only once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.guard").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield
