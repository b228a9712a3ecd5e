"""A consistent view of a benchmark's rows: an index that no longer changes, and the file that it covers."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.runs.index import open_index, state_of
from nemo_evaluator.runs.index_file import Covers, checked_covers, connect
from nemo_evaluator.store.layout import TaskPaths

_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class IndexSnapshot:
    """The index at one moment, and the file that contains its rows."""

    db: sqlite3.Connection
    file: BinaryIO
    # Whether the rows are records of a journal rather than lines of ``results.jsonl``.
    journal: bool


@contextmanager
def index_snapshot(task: TaskPaths) -> Iterator[IndexSnapshot]:
    """Open the current rows of a benchmark, also while a run writes.

    Raises:
        UsageError: There are no rows, or their file is replaced all the time.
    """
    for _ in range(_TRIES):
        db, source = open_index(task)
        with closing(db):
            covers = checked_covers(db)
            file = _open_source(source)
            with file:
                if not _is_of(covers, file, journal=source == task.journal):
                    continue
                journal = source == task.journal
                if journal and not covers.stamp:
                    # A run may be writing and must not wait for a reader, so the reader gets a copy.
                    with closing(connect("")) as copy:
                        db.backup(copy)
                        db.close()
                        yield IndexSnapshot(copy, file, journal)
                else:
                    yield IndexSnapshot(db, file, journal)
                return
    raise UsageError(f"{source} is replaced all the time", hint="wait until its run has ended")


def _open_source(source: Path) -> BinaryIO:
    """Open the file of rows.

    Raises:
        UsageError: It is missing or not a regular file.
    """
    if not source.is_file():
        raise UsageError(
            f"{source} is missing or not a regular file", hint="was the folder copied as a whole?"
        )
    return source.open("rb")


def _is_of(covers: Covers, file: BinaryIO, *, journal: bool) -> bool:
    """Return whether a file that was just opened is the one that the index covers."""
    stat = os.fstat(file.fileno())
    if journal:
        return not covers.known or covers.state.partition(".")[0] == str(stat.st_ino)
    return covers.state == state_of(stat)
