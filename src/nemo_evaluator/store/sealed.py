"""Lines of the journal: one JSON object each, sealed with a checksum of its text.

::

    {"kind":"answer","problem_idx":3, ... ,"crc":"9ae0daaf"}

A line whose checksum does not match is damaged: it is reported and never used. Old journals have no checksums; their
lines are accepted as long as no sealed line precedes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from zlib import crc32

import orjson

from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.files import dumps, files_under, lines_from, scrub_json
from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.core.values import dataclass

if TYPE_CHECKING:
    from nemo_evaluator.store.journal_record import AnswerRecord, OutcomeRecord

_MARK: Final = b',"crc":"'
_TAIL: Final = len(_MARK) + len('00000000"}\n')
_ABOUT: Final = re.compile(rb'"kind":"(\w+)","problem_idx":(\d{1,12}),"repeat":(\d{1,12}),')


class JournalError(NelError):
    """The journal cannot be written or read; the run must stop because its next results would be lost."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Damage:
    """A journal line that differs from what was written."""

    path: Path
    line: int
    kind: str = "record"
    step: Step | None = None

    def __str__(self) -> str:
        """Describe where the damage is."""
        place = f"{self.path}, line {self.line}: damaged {self.kind}"
        if self.step is None:
            return place
        return f"{place} (problem {self.step.problem_idx}, repeat {self.step.repeat})"


def seal(record: Mapping[str, Any]) -> tuple[bytes, str]:
    """Serialize a record without secrets; returns the line and its checksum."""
    body = scrub_json(dumps(record))[:-1]
    checksum = f"{crc32(body):08x}"
    return b'%b%b%b"}\n' % (body, _MARK, checksum.encode()), checksum


def is_sealed(line: bytes) -> bool:
    """Return whether a line has a checksum, right or wrong."""
    return line[-_TAIL : len(_MARK) - _TAIL] == _MARK


def open_line(line: bytes) -> JsonDict | None:
    """Parse a complete line; returns None if it is damaged."""
    if is_sealed(line) and line[-11:-3] != b"%08x" % crc32(line[:-_TAIL]):
        return None
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if isinstance(record, dict):
        return record
    return None


def open_answer(line: bytes) -> AnswerRecord | None:
    """Parse a complete line with the record of an answer; returns None if it is damaged."""
    return cast("AnswerRecord | None", open_line(line))


def scan_records(
    path: Path, damaged: Callable[[Damage], None] | None = None
) -> Iterator[tuple[int, JsonDict]]:
    """Yield every complete record of a journal file with its offset.

    Args:
        path: The journal.
        damaged: Called with each damaged line.
    """
    seen_checksum = False
    for number, (offset, line) in enumerate(lines_from(path), 1):
        if not line.endswith(b"\n"):
            continue
        record = None
        if not seen_checksum or is_sealed(line):
            record = open_line(line)
        if record is not None:
            seen_checksum = seen_checksum or "crc" in record
            yield offset, record
        elif damaged is not None:
            damaged(_damage(path, number, line))


def damaged_records(path: Path) -> Iterator[Damage]:
    """Yield the damaged lines of a journal, by their checksums alone: no line is parsed."""
    seen_checksum = False
    for number, (_, line) in enumerate(lines_from(path), 1):
        if not line.endswith(b"\n"):
            continue
        sealed = is_sealed(line)
        seen_checksum = seen_checksum or sealed
        is_intact = sealed and line[-11:-3] == b"%08x" % crc32(line[:-_TAIL])
        if seen_checksum and not is_intact:
            yield _damage(path, number, line)


def damage_below(folder: Path) -> Iterator[Damage]:
    """Yield the damaged lines of every journal at or under a folder."""
    for journal in files_under(folder, "journal.jsonl"):
        yield from damaged_records(journal)


def read_record(fd: int, offset: int) -> JsonDict:
    """Return the record that starts at ``offset``.

    Raises:
        JournalError: There is no complete record at that offset.
    """
    size = 8192
    while True:
        data = os.pread(fd, size, offset)
        end = data.find(b"\n") + 1
        if end:
            record = open_line(data[:end])
            if record is not None:
                return record
        if end or len(data) < size:
            hint = "run again with --resume: the record is named and its step is rerun"
            raise JournalError(
                f"the journal has no whole record at byte {offset}: the file is damaged", hint=hint
            )
        size *= 8


def read_answer(fd: int, offset: int) -> AnswerRecord:
    """Return the record of an answer that starts at ``offset``; see ``read_record``."""
    return cast("AnswerRecord", read_record(fd, offset))


def read_outcome(fd: int, offset: int) -> OutcomeRecord:
    """Return the record of an outcome that starts at ``offset``; see ``read_record``."""
    return cast("OutcomeRecord", read_record(fd, offset))


def _damage(path: Path, number: int, line: bytes) -> Damage:
    """Describe a damaged line, with its sample if the line still names one."""
    header = _ABOUT.search(line)
    if header is None:
        return Damage(path, number)
    return Damage(path, number, header[1].decode(), step=Step(int(header[2]), int(header[3])))
