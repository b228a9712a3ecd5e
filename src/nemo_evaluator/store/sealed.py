"""Lines of the journal: one JSON object each, sealed with a checksum of its own text.

::

    {"kind":"answer","problem_idx":3, ... ,"crc":"9ae0daaf"}

A line whose checksum does not fit is damaged: it is named, never believed. Journals from before checksums have none;
such lines are believed as long as no sealed one precedes them.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

import orjson

from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.files import dumps, lines_from, scrub_json
from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.core.values import dataclass

_MARK: Final = b',"crc":"'
_TAIL: Final = len(_MARK) + len('00000000"}\n')
_ABOUT: Final = re.compile(rb'"kind":"(\w+)","problem_idx":(\d{1,12}),"repeat":(\d{1,12}),')


class JournalError(NelError):
    """The journal cannot be written or read: the run must stop, since what it would do next would be lost."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Damage:
    """A line of a journal that is not what was written."""

    path: Path
    line: int
    kind: str = "record"
    step: Step | None = None

    def __str__(self) -> str:
        if self.step:
            whose = f" (problem {self.step.problem_idx}, repeat {self.step.repeat})"
        else:
            whose = ""
        return f"{self.path}, line {self.line}: damaged {self.kind}{whose}"


def seal(record: JsonDict) -> tuple[bytes, str]:
    """The line of a record, without the secrets in its texts, and its checksum."""
    body = scrub_json(dumps(record))[:-1]
    checksum = f"{crc32(body):08x}"
    return b'%b%b%b"}\n' % (body, _MARK, checksum.encode()), checksum


def is_sealed(line: bytes) -> bool:
    """True when a line has a checksum, right or wrong."""
    return line[-_TAIL : len(_MARK) - _TAIL] == _MARK


def open_line(line: bytes) -> JsonDict | None:
    """The record of a whole line; None when it is damaged."""
    if is_sealed(line) and line[-11:-3] != b"%08x" % crc32(line[:-_TAIL]):
        return None
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if isinstance(record, dict):
        return record
    return None


def scan_records(
    path: Path, damaged: Callable[[Damage], None] | None = None
) -> Iterator[tuple[int, JsonDict]]:
    """Every whole record of a journal file with its offset; damaged lines are handed to ``damaged``."""
    sealed = False
    for number, (offset, line) in enumerate(lines_from(path), 1):
        if line.endswith(b"\n"):
            if not sealed or is_sealed(line):
                record = open_line(line)
            else:
                record = None
            if record is not None:
                sealed = sealed or "crc" in record
                yield offset, record
            elif damaged is not None:
                damaged(_damage(path, number, line))


def read_record(fd: int, offset: int) -> JsonDict:
    """The record that starts at ``offset``. Raises JournalError when there is no whole one."""
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


def _damage(path: Path, number: int, line: bytes) -> Damage:
    about = _ABOUT.search(line)
    if about is None:
        return Damage(path, number)
    return Damage(path, number, about[1].decode(), step=Step(int(about[2]), int(about[3])))
