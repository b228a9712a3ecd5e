"""Numbers of decisions as people read them."""

from __future__ import annotations

import html

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


def p_value(value: float) -> str:
    """A p-value, without a false row of digits."""
    return "p < 0.0001" if value < 0.0001 else f"p = {value:.4f}"


def cell(text: object) -> str:
    """Any text as one cell of a markdown table: nothing in it can end the cell or start markup."""
    flat = " ".join(str(text).split())
    return html.escape(flat, quote=False).replace("|", "\\|").replace("`", "&#96;").replace("](", "]&#40;")


def printable(text: str) -> str:
    """Text that cannot move the cursor of a terminal: names and answers come from elsewhere."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """A markdown table; cells are taken as they are."""
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(" --- " for _ in header) + "|"]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def columns(rows: list[list[str]], indent: str = "  ") -> list[str]:
    """Rows as aligned columns: the first to the left, the others to the right."""
    if not rows:
        return []
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    out = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
        out.append((indent + "  ".join(cells)).rstrip())
    return out
