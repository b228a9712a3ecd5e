"""The output of a command under our shell wrapper: without the wrapper's markers, and with the report in the last one.

The wrapper prints a begin marker and an end marker on both streams::

    \\0NEL-BEGIN <token>\\0
    ... the command's output ...
    \\0NEL-END <token> <exit code> <OOM kills> <processes left> <tag>\\0
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

# The wrapper knows these two numbers as well. Tags are computed modulo this prime.
_PRIME: Final = 2**31 - 1
# Each count in a report is below this number.
_ROOM: Final = 1024
# The longest report, in bytes.
_LONGEST_REPORT: Final = 64
# A report has an exit code, OOM kills, processes left, and a tag.
_REPORT_NUMBERS: Final = 4


@dataclass(frozen=True, slots=True)
class WrapperReport:
    """What the wrapper reports at the end of a command."""

    code: int
    #: Processes that the kernel killed because memory ran out.
    oom_kills: int
    #: Processes besides the container's own and the wrapper.
    left_behind: int


@dataclass(frozen=True, slots=True)
class ReportKey:
    """Two secret numbers that prove that the wrapper wrote a report.

    The command's token is in its environment, so anything inside can print an end marker. It counts only with the tag
    ``factor * report + offset`` (modulo a prime), which fits no other report: a tag that was read from the output is
    of no use.
    """

    factor: int
    offset: int

    @classmethod
    def random(cls) -> Self:
        """Return a new key."""
        factor = 1 + secrets.randbelow(_PRIME - 1)
        return cls(factor, offset=secrets.randbelow(_PRIME))

    @property
    def line(self) -> bytes:
        """The key as the wrapper reads it from its stdin."""
        return f"{self.factor} {self.offset}\n".encode()

    def authentic_report(self, text: bytes) -> WrapperReport | None:
        """Return the report in an end marker; None if the wrapper did not write it."""
        numbers = text.split()
        if len(numbers) != _REPORT_NUMBERS or not all(number.isdigit() for number in numbers):
            return None
        code, oom_kills, left_behind, tag = map(int, numbers)
        packed_report = (code * _ROOM + oom_kills) * _ROOM + left_behind
        expected_tag = (self.factor * packed_report + self.offset) % _PRIME
        if tag != expected_tag:
            return None
        return WrapperReport(code, oom_kills, left_behind)


class MarkedStream:
    """One output stream of a command: passes on what is between the two markers.

    Args:
        token: The token of the command, which the markers contain.
        key: The key of the report in the end marker.
        emit: Receives the command's output.

    Attributes:
        begun: Whether the begin marker has come.
        greeting: The output before the begin marker, until that comes: a client may greet or warn.
        report: The report in the end marker; None until that has come.
    """

    def __init__(self, token: str, key: ReportKey, emit: Callable[[bytes], None]) -> None:
        self._begin_marker = f"\0NEL-BEGIN {token}\0\n".encode()
        self._end_marker = f"\0NEL-END {token} ".encode()
        self._key = key
        self._emit = emit
        self.begun = False
        self.greeting = b""
        self.report: WrapperReport | None = None
        # Output of the command that may be the beginning of the end marker.
        self._unsent = b""

    def take(self, data: bytes) -> None:
        """Take the next bytes of the stream, which may end within a marker."""
        if self.report is not None:
            # A process that was left running still writes; that is not the command's output.
            return
        if self.begun:
            self._unsent += data
        else:
            before = self.greeting + data
            greeting, marker, after_marker = before.partition(self._begin_marker)
            if not marker:
                self.greeting = greeting
                return
            self.begun = True
            self.greeting = b""
            self._unsent = after_marker
        self._pass_on()

    def flush(self) -> None:
        """Pass on what might have been part of a marker, because no more output comes."""
        self._emit_if_any(self.greeting)
        self._emit_first(len(self._unsent))

    def _pass_on(self) -> None:
        """Pass on the output before the end marker, as far as it has come, and read the report in the marker."""
        marker_start = self._unsent.find(self._end_marker)
        while marker_start >= 0:
            report_start = marker_start + len(self._end_marker)
            longest_end = report_start + _LONGEST_REPORT
            report_end = self._unsent.find(b"\0", report_start, longest_end)
            if report_end < 0 and len(self._unsent) < longest_end:
                # The rest of the marker may still come.
                self._emit_first(marker_start)
                return
            if report_end >= 0:
                self.report = self._key.authentic_report(self._unsent[report_start:report_end])
            if self.report is not None:
                self._emit_first(marker_start)
                self._unsent = b""
                return
            # A marker with a wrong tag is output like any other.
            marker_start = self._unsent.find(self._end_marker, report_start)
        self._emit_first(self._safe_size())

    def _safe_size(self) -> int:
        """Return how many bytes at the start cannot be part of an end marker that comes in two pieces."""
        marker_start = self._unsent.rfind(b"\0")
        if marker_start < 0:
            return len(self._unsent)
        possible_marker = self._unsent[marker_start : marker_start + len(self._end_marker)]
        if self._end_marker.startswith(possible_marker):
            return marker_start
        return len(self._unsent)

    def _emit_first(self, size: int) -> None:
        """Pass on the first bytes that are not sent yet."""
        output = self._unsent[:size]
        self._unsent = self._unsent[size:]
        self._emit_if_any(output)

    def _emit_if_any(self, output: bytes) -> None:
        if output:
            self._emit(output)
