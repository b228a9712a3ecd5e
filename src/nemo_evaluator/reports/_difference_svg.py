"""Differences with their intervals as inline SVG, against the limit of what may be lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from nemo_evaluator.reports._svg import ticks

_ROW: Final = 30
_LETTER: Final = 7.3
_MOST_LABEL: Final = 0.34
_NARROW: Final = 600


@dataclass(frozen=True, slots=True)
class Line:
    """One difference: ``style`` is the class of its verdict, ``text`` what stands at its end."""

    label: str
    value: float
    lower: float | None
    upper: float | None
    style: str
    text: str


def difference_plot(lines: Sequence[Line], limit: float, *, width: int = 1020) -> Markup:
    """Lines one under the other; ``limit`` is where the forbidden side begins, below zero or above it."""
    label = min(_MOST_LABEL * width, 20 + _LETTER * max(len(line.label) for line in lines))
    value_width = 16 + _LETTER * max(len(line.text) for line in lines)
    low, high = _bounds(lines, limit)
    height = _ROW * len(lines) + 44

    def x(value: float) -> float:
        return round(label + (min(max(value, low), high) - low) / (high - low) * (width - value_width - label), 2)

    edge, wall = x(limit), x(low if limit <= 0 else high)
    parts = [
        Markup('<rect class="beyond" x="{}" y="16" width="{}" height="{}"/>').format(
            min(edge, wall), round(abs(edge - wall), 2), height - 38
        )
    ]
    for tick in ticks(low, high, 6 if width > _NARROW else 4):
        parts.append(Markup('<path class="grid" d="M{0} 16V{1}"/>').format(x(tick), height - 22))
        parts.append(_text(x(tick), height - 6, f"{tick:+g}" if tick else "0", "tick middle"))
    parts.append(Markup('<path class="zero" d="M{} 16V{}"/>').format(x(0.0), height - 22))
    parts.append(Markup('<path class="limit" d="M{} 16V{}"/>').format(edge, height - 22))
    parts.append(_text(edge, 11, "limit", "tick middle"))
    for at, line in enumerate(lines):
        parts.append(_line(line, 16 + _ROW * at + _ROW / 2, x, label, width))
    kind = "differences forest" if width > _NARROW else "differences"
    return Markup('<svg class="plot {}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        kind, width, height, f"{len(lines)} differences with their intervals", Markup("").join(parts)
    )


def _line(line: Line, y: float, x: Callable[[float], float], label: float, width: int) -> Markup:
    parts = [Markup("<title>{}: {}</title>").format(line.label, line.text)]
    parts.append(_text(label - 12, y + 4, _short(line.label, int((label - 14) / _LETTER)), "label end"))
    if line.lower is not None and line.upper is not None:
        left, right = x(line.lower), x(line.upper)
        path = f"M{left} {y}H{right}M{left} {y - 4}V{y + 4}M{right} {y - 4}V{y + 4}"
        parts.append(Markup('<path class="reach {}" d="{}"/>').format(line.style, path))
    if line.value == line.value:
        parts.append(Markup('<circle class="dot {}" cx="{}" cy="{}" r="5.5"/>').format(line.style, x(line.value), y))
    parts.append(_text(width - 2, y + 4, line.text, "value end"))
    return Markup('<g class="mark">{}</g>').format(Markup("").join(parts))


def _bounds(lines: Sequence[Line], limit: float) -> tuple[float, float]:
    known = [0.0, 1.4 * limit, -0.6 * limit]
    known += [v for line in lines for v in (line.value, line.lower, line.upper) if v is not None and v == v]
    low, high = min(known), max(known)
    pad = 0.04 * (high - low) or 0.05
    return low - pad, high + pad


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _text(x: float, y: float, text: str, style: str) -> Markup:
    return Markup('<text class="{}" x="{}" y="{}">{}</text>').format(style, round(x, 2), round(y, 2), text)
