"""What lies around the rows of a run: the sessions in its journal, the logs of its servers."""

import re
from collections.abc import Iterator
from typing import Final

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.decisions.check.findings import FailureClass, Finding, Level
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.sessions import damage, sessions

_LINE_CHARS: Final = 160
_MOST_NAMED: Final = 5
_TROUBLE: Final = re.compile(rb"out of memory|OutOfMemoryError|segmentation fault|core dumped|EngineDeadError", re.I)


def drift(run: Bundle) -> Iterator[Finding]:
    """Sessions of one run that were not set up alike: answers of several settings may be mixed."""
    seen = [as_dict(session.get("fingerprints")) for session in sessions(run.files.journal)]
    keys = {key for prints in seen for key in prints}
    drifted = sorted(key for key in keys if len({prints.get(key) for prints in seen}) > 1)
    if drifted:
        message = f"{', '.join(drifted)} changed between {len(seen)} sessions; answers that no longer fit were redone"
        yield Finding("config", Level.NOTE, message)


def damaged_records(run: Bundle) -> Iterator[Finding]:
    """Records of the journal that changed after they were written. The score stands on files that are checked apart."""
    found = damage(run.files.journal)
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        words = "; ".join(map(str, found[:_MOST_NAMED]))
        message = f"{words}{more}: `nel eval resume` does these steps again"
        yield Finding("journal", Level.DEGRADED, message, FailureClass.ACCOUNTING)


def server_trouble(run: Bundle) -> Iterator[Finding]:
    """Lines in the logs of the servers we started: what they cost is counted elsewhere, this says where to look."""
    for log in sorted((run.path.parent.parent / "logs").glob("server-*.log")):
        with log.open("rb") as file:
            line = next((line for line in file if _TROUBLE.search(line)), None)
        if line is not None:
            words = " ".join(line.decode("utf-8", "replace").split())[:_LINE_CHARS]
            yield Finding("server", Level.NOTE, f"{log.name}: {words}", FailureClass.INFRA)
