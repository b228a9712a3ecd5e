"""What a journal says of itself: its sessions (each time a run began to write it), and the records that are damaged."""

from collections import deque
from pathlib import Path
from typing import Final

from nemo_evaluator.core.files import lines_from
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.store.records import RUN
from nemo_evaluator.store.sealed import Damage, open_line, scan_records

_MARK: Final = b'{"kind":"%s"' % RUN.encode()


def sessions(journal: Path) -> list[JsonDict]:
    """The records that begin a session, in their order; none where there is no journal. Only their lines are parsed."""
    if not journal.is_file():
        return []
    found: list[JsonDict | None] = []
    for _, line in lines_from(journal):
        if line.startswith(_MARK) and line.endswith(b"\n"):
            found.append(open_line(line))
    return [record for record in found if record is not None]


def damage(journal: Path) -> list[Damage]:
    """The records that are not what was written; none where there is no journal."""
    found: list[Damage] = []
    if journal.is_file():
        deque(scan_records(journal, found.append), maxlen=0)
    return found
