"""Numbers of decisions as people read them."""

from __future__ import annotations

import html
import textwrap

from nemo_evaluator.decisions.compare.shifts import Shift
from nemo_evaluator.metrics import Interval

NONE = "–"


def signed(value: float | None) -> str:
    """A difference."""
    return NONE if value is None else f"{value:+.4f}"


def plain(value: float | None) -> str:
    """A score."""
    return NONE if value is None or value != value else f"{value:.4f}"


def with_bounds(interval: Interval, *, sign: bool = False) -> str:
    """A value with its bounds."""
    show = signed if sign else plain
    if interval.lower is None or interval.upper is None:
        return f"{show(interval.value)} (no interval)" if interval.n else NONE
    return f"{show(interval.value)} [{show(interval.lower)}, {show(interval.upper)}]"


def quantity(value: float | None, unit: str) -> str:
    """A number with its unit."""
    if value is None:
        return NONE
    if unit == "share":
        return f"{100 * value:.1f}%"
    if unit == "usd":
        return f"${value:.6f}"
    return f"{value:,.0f} {unit}"


def change(shift: Shift) -> str:
    """How a quantity moved: shares in points, anything else in percent."""
    if shift.delta is None:
        return NONE
    if shift.unit == "share":
        return f"{100 * shift.delta:+.1f} pp" if shift.delta else NONE
    return NONE if shift.relative_pct is None else f"{shift.relative_pct:+.0f}%"


def p_value(value: float) -> str:
    """A p-value, without a false row of digits."""
    return "p < 0.0001" if value < 0.0001 else f"p = {value:.4f}"


def cell(text: object) -> str:
    """Any text as one cell of a markdown table: nothing in it can end the cell or start markup."""
    return line(text).replace("|", "\\|")


def line(text: object) -> str:
    """Any text as one line of markdown that no renderer takes for markup."""
    flat = " ".join(str(text).split())
    return html.escape(flat, quote=False).replace("`", "&#96;").replace("](", "]&#40;")


def printable(text: str) -> str:
    """Text that cannot move the cursor of a terminal: names and answers come from elsewhere."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """A markdown table; cells are taken as they are."""
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(" --- " for _ in header) + "|"]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def columns(
    rows: list[list[str]], indent: str = "  ", *, width: int | None = None, spare: tuple[int, ...] = ()
) -> list[str]:
    """Rows as aligned columns: the first to the left, the others to the right.

    Where they are wider than ``width``, the ``spare`` columns go, one after the other.
    """
    if not rows:
        return []
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    if width is not None and spare and len(indent) + sum(widths) + 2 * (len(widths) - 1) > width:
        at, rest = spare[0], tuple(one - (one > spare[0]) for one in spare[1:])
        return columns([row[:at] + row[at + 1 :] for row in rows], indent, width=width, spare=rest)
    out = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(text.rjust(size) for text, size in zip(row[1:], widths[1:], strict=True))]
        out.append((indent + "  ".join(cells)).rstrip())
    return out


def wrapped(text: str, indent: str = "  ", *, width: int | None = None, mark: str = "") -> list[str]:
    """A sentence behind its ``mark``, broken into lines of ``width``, the later ones further in."""
    first = f"{indent}{mark}"
    if width is None or not text:
        return [(first + text).rstrip()]
    further = indent + " " * max(len(mark), 2)
    return textwrap.wrap(text, max(width, 40), initial_indent=first, subsequent_indent=further)
