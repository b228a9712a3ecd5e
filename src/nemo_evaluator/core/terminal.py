"""Untrusted text on a terminal: without control characters, cut to a width, in columns."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import Final, TextIO
from unicodedata import combining, east_asian_width

_CONTROLS: Final = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")}
_LINES_AND_DIRECTIONS: Final = (*range(0x2028, 0x202F), *range(0x2066, 0x206A))
# Characters that move the cursor or change the reading direction.
_UNSEEN: Final = dict.fromkeys((*_CONTROLS, *_LINES_AND_DIRECTIONS), " ")
_ESCAPED: Final = {code: f"\\u{code:04x}" for code in _UNSEEN if code >= 0x20}
# A column is not cut below this width.
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
    """Colour the verdicts at the beginnings of lines, for a terminal."""
    return _VERDICT.sub(lambda match: f"\x1b[{_COLOURS[match[1]]}m\x1b[1m{match[1]}\x1b[0m", text)


def terminal_width(stream: TextIO | None = None) -> int | None:
    """The width at which lines are broken.

    Args:
        stream: Where the lines are printed; stdout by default.

    Returns:
        The columns of the terminal, or of ``COLUMNS``; None for a pipe, where lines stay whole.
    """
    has_width = (stream or sys.stdout).isatty() or os.environ.get("COLUMNS")
    if has_width:
        return shutil.get_terminal_size().columns
    return None


def harmless(text: str) -> str:
    """Replace characters that would move the cursor or change the reading direction by blanks."""
    return text.translate(_UNSEEN)


def harmless_json(text: str) -> str:
    """Escape the characters that ``harmless`` replaces in a JSON text, whose meaning stays.

    JSON itself escapes the other control characters.
    """
    return text.translate(_ESCAPED)


def one_line(text: str, most: int | None = None) -> str:
    """Put a text on one line, cut to ``most`` characters."""
    line = " ".join(harmless(text).split())
    if most is None or len(line) <= most:
        return line
    return f"{line[: most - 1]}…"


def indented(text: str, indent: str) -> str:
    """Indent all lines of a text but the first, so that none of them looks like a line of nel."""
    return harmless(text).replace("\n", f"\n{indent}")


def cells(text: str) -> int:
    """Return how many columns of a terminal a line occupies; wide characters occupy two."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(char) for char in text)


def fitted(text: str, width: int) -> str:
    """Cut a line to a number of columns."""
    if cells(text) <= width:
        return text
    columns = 0
    for position, char in enumerate(text):
        columns += _cells_of(char)
        if columns > width - 1:
            return f"{text[:position]}…"
    return text


def table(
    rows: Sequence[Sequence[str]], width: int | None, narrow: Sequence[int] = ()
) -> list[str]:
    """Lay out rows in columns.

    Args:
        rows: The cells of each row.
        width: The columns of the terminal; None for no limit.
        narrow: The numbers of the columns that may be cut, one after the other, until the rows fit.

    Returns:
        One line for each row.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(cells, column)) for column in columns]
    if width is not None:
        for number in narrow:
            excess = sum(widths) + 2 * (len(widths) - 1) - width
            narrowed = max(_NARROWEST, widths[number] - max(0, excess))
            widths[number] = min(widths[number], narrowed)
    fitting: list[list[str]] = []
    for column, column_width in zip(columns, widths, strict=True):
        fitting.append(shortened(column, column_width))
    return [_padded(row, widths) for row in zip(*fitting, strict=True)]


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    """Join the cells of a row to one line, each as wide as its column."""
    padded: list[str] = []
    for cell, width in zip(row, widths, strict=True):
        padded.append(cell + " " * (width - cells(cell)))
    return "  ".join(padded).rstrip()


def shortened(names: Sequence[str], room: int) -> list[str]:
    """Cut names in the middle to a number of columns, and number those that would read the same."""
    shortened_names = [name if cells(name) <= room else _middle(name, room) for name in names]
    names_of: dict[str, set[str]] = {}
    for text, name in zip(shortened_names, names, strict=True):
        names_of.setdefault(text, set()).add(name)
    unambiguous: list[str] = []
    for number, text in enumerate(shortened_names, 1):
        if len(names_of[text]) > 1:
            unambiguous.append(f"{fitted(text, room - 4)}{number:>4}")
        else:
            unambiguous.append(text)
    return unambiguous


def _middle(text: str, room: int) -> str:
    """Keep the beginning and the end: names of one family often differ at their end."""
    tail = text[-(room // 2) :]
    return f"{fitted(text, room - cells(tail) - 1).removesuffix('…')}…{tail}"


def _cells_of(char: str) -> int:
    """Return how many columns a character occupies: two for wide ones, none for combining ones."""
    if combining(char):
        return 0
    if east_asian_width(char) in "WF":
        return 2
    return 1
