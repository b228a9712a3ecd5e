"""Reads a journal's sessions (one each time a run began to write to it) and its damaged records."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from nemo_evaluator.core.files import lines_from
from nemo_evaluator.store.records import RUN
from nemo_evaluator.store.sealed import Damage, open_line, scan_records

if TYPE_CHECKING:
    from nemo_evaluator.store.journal_record import SessionRecord

_MARK: Final = b'{"kind":"%s"' % RUN.encode()


def sessions(journal: Path) -> list[SessionRecord]:
    """Return the records that start a session, in order; empty without a journal. Other lines are not parsed."""
    if not journal.is_file():
        return []
    records: list[SessionRecord | None] = []
    for _, line in lines_from(journal):
        if line.startswith(_MARK) and line.endswith(b"\n"):
            records.append(cast("SessionRecord | None", open_line(line)))
    return [record for record in records if record is not None]


def damage(journal: Path) -> list[Damage]:
    """Return the damaged records of a journal; empty without a journal."""
    damaged_records: list[Damage] = []
    if journal.is_file():
        deque(scan_records(journal, damaged_records.append), maxlen=0)
    return damaged_records
