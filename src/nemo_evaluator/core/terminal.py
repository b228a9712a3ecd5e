"""Text that comes from elsewhere, on a terminal."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import Final, TextIO
from unicodedata import combining, east_asian_width

_CONTROLS: Final = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")}
_LINES_AND_DIRECTIONS: Final = (*range(0x2028, 0x202F), *range(0x2066, 0x206A))
_UNSEEN: Final = dict.fromkeys((*_CONTROLS, *_LINES_AND_DIRECTIONS), " ")
_ESCAPED: Final = {code: f"\\u{code:04x}" for code in _UNSEEN if code >= 0x20}
_NARROWEST: Final = 8
_GREEN = 32
_RED = 31
_YELLOW = 33
_COLOURS: Final = {
    **dict.fromkeys(("PASS", "GO", "VALID"), _GREEN),
    **dict.fromkeys(("BLOCK", "NO-GO", "INVALID"), _RED),
    **dict.fromkeys(("WARN", "DEGRADED", "INCONCLUSIVE"), _YELLOW),
}
_VERDICT: Final = re.compile(rf"^({'|'.join(map(re.escape, _COLOURS))})(?=  )", re.MULTILINE)


def coloured(text: str) -> str:
    """Text with the verdicts at the beginning of its lines in their colour, for a terminal."""
    return _VERDICT.sub(lambda match: f"\x1b[{_COLOURS[match[1]]}m\x1b[1m{match[1]}\x1b[0m", text)


def terminal_width(stream: TextIO | None = None) -> int | None:
    """The width to break lines at: a terminal's, or ``COLUMNS``; None for a pipe, whose lines are left whole."""
    known = (stream or sys.stdout).isatty() or os.environ.get("COLUMNS")
    if known:
        return shutil.get_terminal_size().columns
    return None


def harmless(text: str) -> str:
    """The same text, with blanks for what would move the cursor or turn the reading direction around."""
    return text.translate(_UNSEEN)


def harmless_json(text: str) -> str:
    """JSON of the same meaning, with escapes in place of those characters; the rest JSON escapes by itself."""
    return text.translate(_ESCAPED)


def one_line(text: str, most: int | None = None) -> str:
    """The same on one line, cut to ``most`` characters."""
    line = " ".join(harmless(text).split())
    if most is None or len(line) <= most:
        return line
    return f"{line[: most - 1]}…"


def indented(text: str, indent: str) -> str:
    """Text of several lines that cannot be taken for lines of ours: all but the first begin with ``indent``."""
    return harmless(text).replace("\n", f"\n{indent}")


def cells(text: str) -> int:
    """How many columns of a terminal a line takes: wide characters take two."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(char) for char in text)


def fitted(text: str, width: int) -> str:
    """The line, cut to so many columns."""
    if cells(text) <= width:
        return text
    taken = 0
    for at, char in enumerate(text):
        taken += _cells_of(char)
        if taken > width - 1:
            return f"{text[:at]}…"
    return text


def table(
    rows: Sequence[Sequence[str]], width: int | None, narrow: Sequence[int] = ()
) -> list[str]:
    """Rows as columns; those that ``narrow`` names give way, one after the other, where ``width`` is not enough."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    for at in narrow if width is not None else ():
        over = sum(widths) + 2 * (len(widths) - 1) - (width or 0)
        widths[at] = min(widths[at], max(_NARROWEST, widths[at] - max(0, over)))
    columns: list[list[str]] = []
    for column, w in zip(zip(*rows, strict=True), widths, strict=True):
        columns.append(shortened(column, w))
    cut = list(zip(*columns, strict=True))
    results: list[str] = []
    for row in cut:
        results.append(
            "  ".join(
                cell + " " * (w - cells(cell)) for cell, w in zip(row, widths, strict=True)
            ).rstrip()
        )
    return results


def shortened(names: Sequence[str], room: int) -> list[str]:
    """Names cut in the middle to so many columns, numbered where two would read the same."""
    short = [name if cells(name) <= room else _middle(name, room) for name in names]
    wholes: dict[str, set[str]] = {}
    for text, name in zip(short, names, strict=True):
        wholes.setdefault(text, set()).add(name)
    results: list[str] = []
    for at, text in enumerate(short, 1):
        results.append(f"{fitted(text, room - 4)}{at:>4}" if len(wholes[text]) > 1 else text)
    return results


def _middle(text: str, room: int) -> str:
    """The beginning and the end: names of one family often differ at their end."""
    tail = text[-(room // 2) :]
    return f"{fitted(text, room - cells(tail) - 1).removesuffix('…')}…{tail}"


def _cells_of(char: str) -> int:
    if combining(char):
        return 0
    if east_asian_width(char) in "WF":
        return 2
    return 1
