"""The sessions of a journal: each time a run began to write it. Only their lines are parsed, of which there are few."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.store.records import RUN
from nemo_evaluator.store.sealed import open_line

_MARK: Final = b'{"kind":"%s"' % RUN.encode()


def sessions(journal: Path) -> list[JsonDict]:
    """The records that begin a session, in their order; none where there is no journal."""
    if not journal.is_file():
        return []
    with journal.open("rb", buffering=1 << 20) as file:
        found = [open_line(line) for line in file if line.startswith(_MARK) and line.endswith(b"\n")]
    return [record for record in found if record is not None]
