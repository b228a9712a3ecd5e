"""Untrusted text on a terminal: without control characters, cut to a width, in columns."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import Final, TextIO
from unicodedata import combining, east_asian_width

# Control characters, except those that lay out a text: newline and tab.
_CONTROLS: Final = frozenset((*range(0x20), *range(0x7F, 0xA0))) - {ord("\n"), ord("\t")}
# Unicode's line separators and marks of the reading direction.
_LINES_AND_DIRECTIONS: Final = frozenset((*range(0x2028, 0x202F), *range(0x2066, 0x206A)))
_HARMFUL: Final = _CONTROLS | _LINES_AND_DIRECTIONS
# Tables for ``str.translate``.
_BLANKS: Final = dict.fromkeys(_HARMFUL, " ")
_JSON_ESCAPES: Final = {code: f"\\u{code:04x}" for code in _HARMFUL if code >= 0x20}
# A column is not cut below this width.
_NARROWEST: Final = 8
# Between two columns of a table.
_GAP: Final = "  "
_ELLIPSIS: Final = "…"
_GREEN: Final = 32
_RED: Final = 31
_YELLOW: Final = 33
_COLOURS: Final = {
    "PASS": _GREEN,
    "GO": _GREEN,
    "VALID": _GREEN,
    "BLOCK": _RED,
    "NO-GO": _RED,
    "INVALID": _RED,
    "WARN": _YELLOW,
    "DEGRADED": _YELLOW,
    "INCONCLUSIVE": _YELLOW,
}
# A verdict at the beginning of a line, with the gap that separates it from the next column.
_VERDICT: Final = re.compile(
    rf"^({'|'.join(map(re.escape, _COLOURS))})(?={_GAP})", flags=re.MULTILINE
)


def coloured(text: str) -> str:
    """Colour the verdicts at the beginnings of lines, for a terminal."""
    return _VERDICT.sub(_coloured_verdict, text)


def _coloured_verdict(match: re.Match[str]) -> str:
    """Return a verdict in its colour and bold, followed by the code that resets both."""
    verdict = match[1]
    return f"\x1b[{_COLOURS[verdict]}m\x1b[1m{verdict}\x1b[0m"


def terminal_width(stream: TextIO | None = None) -> int | None:
    """The width at which lines are broken.

    Args:
        stream: Where the lines are printed; stdout by default.

    Returns:
        The columns of the terminal, or of ``COLUMNS``; None for a pipe, where lines stay whole.
    """
    if stream is None:
        stream = sys.stdout
    if not stream.isatty() and not os.environ.get("COLUMNS"):
        return None
    return shutil.get_terminal_size().columns


def harmless(text: str) -> str:
    """Replace characters that would move the cursor or change the reading direction by blanks."""
    return text.translate(_BLANKS)


def harmless_json(text: str) -> str:
    """Escape the characters that ``harmless`` replaces in a JSON text, whose meaning stays.

    JSON itself escapes the other control characters.
    """
    return text.translate(_JSON_ESCAPES)


def one_line(text: str, most: int | None = None) -> str:
    """Put a text on one line.

    Args:
        text: The text; each run of blanks and line breaks becomes one blank.
        most: The length at which the line is cut; None for no limit.
    """
    line = " ".join(harmless(text).split())
    if most is None or len(line) <= most:
        return line
    return line[: most - 1] + _ELLIPSIS


def indented(text: str, indent: str) -> str:
    """Indent all lines of a text but the first, so that none of them looks like a line of nel."""
    return harmless(text).replace("\n", f"\n{indent}")


def cells(text: str) -> int:
    """Return how many columns of a terminal a line occupies; wide characters occupy two."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(char) for char in text)


def _cells_of(char: str) -> int:
    """Return how many columns a character occupies: two for wide ones, none for combining ones."""
    if combining(char):
        return 0
    if east_asian_width(char) in ("W", "F"):
        return 2
    return 1


def fitted(text: str, width: int) -> str:
    """Cut the end of a line that occupies more than ``width`` columns; an ellipsis shows the cut."""
    if cells(text) <= width:
        return text
    columns = 0
    for position, char in enumerate(text):
        columns += _cells_of(char)
        # The ellipsis needs the last column.
        if columns >= width:
            return text[:position] + _ELLIPSIS
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
    widths: list[int] = []
    for column in columns:
        widths.append(max(cells(cell) for cell in column))
    if width is not None:
        _narrow(widths, width, narrow)
    shortened_columns: list[list[str]] = []
    for column, column_width in zip(columns, widths, strict=True):
        shortened_columns.append(shortened(column, column_width))
    return [_joined(row, widths) for row in zip(*shortened_columns, strict=True)]


def _narrow(widths: list[int], total_width: int, narrow: Sequence[int]) -> None:
    """Reduce the widths of columns until a row fits, in place.

    Args:
        widths: The width of each column.
        total_width: The width that a row may have.
        narrow: The numbers of the columns that may be cut, in this order.
    """
    gaps = len(_GAP) * (len(widths) - 1)
    for number in narrow:
        excess = sum(widths) + gaps - total_width
        if excess <= 0:
            return
        narrowed = max(_NARROWEST, widths[number] - excess)
        widths[number] = min(widths[number], narrowed)


def _joined(row: Sequence[str], widths: Sequence[int]) -> str:
    """Join the cells of a row to one line, each as wide as its column."""
    padded_cells: list[str] = []
    for cell, width in zip(row, widths, strict=True):
        blanks = " " * (width - cells(cell))
        padded_cells.append(cell + blanks)
    return _GAP.join(padded_cells).rstrip()


def shortened(names: Sequence[str], width: int) -> list[str]:
    """Cut long names to a number of columns.

    A name is cut in its middle. Different names that read the same then end in their number in the list instead.

    Args:
        names: The names.
        width: How many columns a name may occupy.
    """
    cut_names = [_cut_middle(name, width) for name in names]
    names_of_cut: dict[str, set[str]] = {}
    for cut_name, name in zip(cut_names, names, strict=True):
        names_of_cut.setdefault(cut_name, set()).add(name)
    distinct_names: list[str] = []
    for number, cut_name in enumerate(cut_names, start=1):
        if len(names_of_cut[cut_name]) > 1:
            distinct_names.append(f"{fitted(cut_name, width - 4)}{number:>4}")
        else:
            distinct_names.append(cut_name)
    return distinct_names


def _cut_middle(name: str, width: int) -> str:
    """Cut the middle of a name that occupies more than ``width`` columns.

    The beginning and the end are kept: names of one family often differ at their end.
    """
    if cells(name) <= width:
        return name
    end = name[-(width // 2) :]
    start = fitted(name, width - cells(end) - 1).removesuffix(_ELLIPSIS)
    return start + _ELLIPSIS + end
