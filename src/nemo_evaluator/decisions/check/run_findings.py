"""Findings about a run as a whole: whether it finished, what failed, whether its numbers agree, what its logs say."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.json_coerce import as_dict, as_whole
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.check.checked_run import CheckedRun
from nemo_evaluator.decisions.check.findings import FailureClass, Finding, Level
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import RowTable
from nemo_evaluator.runs.sessions import damage, sessions

_EXAMPLE_CHARS: Final = 160
_CLASS_OF_CAUSE: Final = {
    Cause.JUDGE: FailureClass.JUDGE,
    **dict.fromkeys((Cause.AUTH, Cause.NOT_FOUND), FailureClass.CONFIG),
    **dict.fromkeys((Cause.RATE_LIMIT, Cause.TRANSPORT, Cause.OUTAGE), FailureClass.INFRA),
    **dict.fromkeys((Cause.SANDBOX, Cause.CANCELLED), FailureClass.INFRA),
}
_LINE_CHARS: Final = 160
_MOST_NAMED: Final = 5
_TROUBLE: Final = re.compile(
    rb"out of memory|OutOfMemoryError|segmentation fault|core dumped|EngineDeadError", re.I
)


def finished(subject: CheckedRun) -> Iterator[Finding]:
    """Whether the run ended early, failed, or is only one shard."""
    stopped = subject.run.stopped
    stop_kind = str(stopped.get("kind") or "")
    if stop_kind == "rule":
        yield Finding("finished", Level.NOTE, f"stopped early by its rule: {stopped.get('reason')}")
    elif stop_kind:
        yield _stopped_early(stop_kind, stopped)
    if subject.run.document.get("error"):
        yield Finding(
            "finished",
            Level.INVALID,
            str(subject.run.document["error"]),
            failure_class=FailureClass.UNKNOWN,
        )
    shard = as_dict(subject.run.config.get("shard"))
    index = as_whole(shard.get("idx"))
    total = as_whole(shard.get("total"))
    if index is not None and total is not None and total > 1:
        note = f"part {index + 1} of {total}, not the whole benchmark (`nel eval merge` puts the parts together)"
        yield Finding("shard", Level.NOTE, note)


def _stopped_early(kind: str, stopped: JsonDict) -> Finding:
    """A run that something other than its stop rule ended."""
    # A budget ends a run as intended: the answers up to then are complete.
    level = Level.DEGRADED if kind == "budget" else Level.INVALID
    cause = stopped.get("cause")
    failure_class = class_of(str(cause)) if cause else FailureClass.INFRA
    message = f"not finished, stopped by {kind}: {stopped.get('reason')}"
    return Finding("finished", level, message, failure_class=failure_class)


def coverage(subject: CheckedRun) -> Iterator[Finding]:
    """Whether enough of the planned rows have a score."""
    rows = subject.rows
    reasons = subject.run.invalid
    if subject.run.coverage.planned == 0:
        worst_class = FailureClass.CONFIG
    else:
        worst_class = _worst_class(rows)
    for reason in reasons:
        yield Finding("coverage", Level.INVALID, reason, failure_class=worst_class)
    if not len(rows):
        if not reasons:
            yield Finding(
                "coverage",
                Level.INVALID,
                "there is no scored row: the file of rows is empty",
                failure_class=worst_class,
            )
        return
    failed = int((~rows.scored).sum())
    if failed and not reasons:
        share = failed / len(rows)
        level = Level.DEGRADED if share > subject.limits.failed else Level.NOTE
        yield Finding(
            "coverage",
            level,
            f"{failed} of {len(rows)} rows failed ({share:.1%})",
            failure_class=_worst_class(rows),
        )


def causes(subject: CheckedRun) -> Iterator[Finding]:
    """One note per cause of failed rows, the most frequent first, each with an example."""
    rows = subject.rows
    examples: dict[str, str] = {}
    for line in (*subject.run.failures, *subject.run.flaws):
        examples[line.cause] = " ".join(line.examples[:1])
    codes, counts = np.unique(rows.cause[~rows.scored], return_counts=True)
    rows_by_code = Counter(dict(zip(codes.tolist(), counts.tolist(), strict=True)))
    for code, row_count in rows_by_code.most_common():
        cause = rows.causes[code] or "unknown"
        message = f"{cause}: {row_count}"
        example = " ".join(examples.get(cause, "").split())[:_EXAMPLE_CHARS]
        if example:
            message = f"{message}, such as: {example}"
        yield Finding("failures", Level.NOTE, message, failure_class=class_of(cause))


def accounting(subject: CheckedRun) -> Iterator[Finding]:
    """Whether the numbers of planned, counted and stored rows agree."""
    rows = subject.rows
    counted_rows = subject.run.document.get("n_results")
    if isinstance(counted_rows, int) and counted_rows != len(rows):
        message = f"the bundle counts {counted(counted_rows, 'row')}, the file holds {len(rows)}"
        yield Finding("accounting", Level.INVALID, message, failure_class=FailureClass.ACCOUNTING)
    messages: list[str] = []
    if rows.repeated:
        messages.append(f"{counted(rows.repeated, 'row')} came twice; the later counts")
    if rows.malformed:
        messages.append(counted(rows.malformed, "malformed line"))
    planned = subject.run.coverage.planned or 0
    if planned > len(rows):
        messages.append(f"{planned - len(rows)} of {planned} planned steps have no row")
    for message in messages:
        yield Finding("accounting", Level.DEGRADED, message, failure_class=FailureClass.ACCOUNTING)


def drift(subject: CheckedRun) -> Iterator[Finding]:
    """Settings that changed between the sessions of one run: its answers may mix several settings."""
    recorded: list[JsonDict] = []
    keys: set[str] = set()
    for session in sessions(subject.run.files.journal):
        fingerprints = as_dict(session.get("fingerprints"))
        recorded.append(fingerprints)
        keys |= fingerprints.keys()
    drifted: list[str] = []
    for key in sorted(keys):
        values = {fingerprints.get(key) for fingerprints in recorded}
        if len(values) > 1:
            drifted.append(key)
    if drifted:
        note = f"{', '.join(drifted)} changed between {len(recorded)} sessions; answers that no longer fit were redone"
        yield Finding("config", Level.NOTE, note)


def damaged_records(run: Bundle) -> Iterator[Finding]:
    """Journal records that changed after they were written. The files that the score rests on have their own check."""
    damaged = damage(run.files.journal)
    if not damaged:
        return
    listed = "; ".join(str(entry) for entry in damaged[:_MOST_NAMED])
    if len(damaged) > _MOST_NAMED:
        listed = f"{listed} and {len(damaged) - _MOST_NAMED} more"
    message = f"{listed}: `nel eval resume` does these steps again"
    yield Finding("journal", Level.DEGRADED, message, failure_class=FailureClass.ACCOUNTING)


def server_trouble(subject: CheckedRun) -> Iterator[Finding]:
    """Errors in the logs of servers that nel started. Their cost is counted elsewhere; this shows where to look."""
    for log in sorted((subject.run.path.parent.parent / "logs").glob("server-*.log")):
        with log.open("rb") as file:
            trouble_lines = (line for line in file if _TROUBLE.search(line))
            line = next(trouble_lines, None)
        if line is not None:
            text = " ".join(line.decode("utf-8", "replace").split())[:_LINE_CHARS]
            yield Finding(
                "server", Level.NOTE, f"{log.name}: {text}", failure_class=FailureClass.INFRA
            )


def class_of(cause: str) -> FailureClass:
    """The failure class of a cause of failure."""
    if cause in list(Cause):
        return _CLASS_OF_CAUSE.get(Cause(cause), FailureClass.UNKNOWN)
    return FailureClass.UNKNOWN


def _worst_class(rows: RowTable) -> FailureClass:
    """The class of failed rows that comes first in order of precedence."""
    codes = np.unique(rows.cause[~rows.scored]).tolist()
    classes = [class_of(rows.causes[code]) for code in codes]
    return min(classes, key=list(FailureClass).index, default=FailureClass.ACCOUNTING)
