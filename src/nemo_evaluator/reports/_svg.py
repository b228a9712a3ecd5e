"""Plots as inline SVG: colours come from the page's style, every text is escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from nemo_evaluator.reports.model import Histogram

# Drawn at the size they are shown at, so that text in a wide plot is not larger than in a narrow one.
WIDE = 1020
_WIDTH = 500
_LABEL = 165
_LETTER = 7.3
_VALUE = 125
_ROW = 30
_BASE = 150
_TOP = 28
_MARGIN = 6


@dataclass(frozen=True, slots=True)
class Mark:
    """One value with its interval, in a plot of scores or of groups."""

    label: str
    value: float
    lower: float | None
    upper: float | None
    text: str
    colour: int = 0
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class Slice:
    """One part of a whole."""

    label: str
    count: int
    style: str


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    left: float
    right: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.left + min(1.0, max(0.0, share)) * (self.right - self.left), 2)


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers between two bounds."""
    if high <= low:
        return [low]
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    return [round(at * step, 10) for at in range(first, math.floor(high / step + 1e-9) + 1)]


def forest(marks: Sequence[Mark]) -> Markup:
    """Scores as dots on a common axis, each with its interval."""
    return _rows("forest", marks, WIDE, bars=False)


def bars(marks: Sequence[Mark]) -> Markup:
    """Groups as bars from zero, each with its interval."""
    return _rows("bars", marks, _WIDTH, bars=True)


def _rows(kind: str, marks: Sequence[Mark], width: int, *, bars: bool) -> Markup:
    low, high = _bounds(marks)
    widest = _LABEL if width == _WIDTH else 2 * _LABEL
    left = min(widest, 24 + _LETTER * max(len(mark.label) for mark in marks))
    scale = _Scale(low, high, left, width - _VALUE)
    height = _ROW * len(marks) + 30
    parts = [_axis(scale, height)]
    for at, mark in enumerate(marks):
        parts.append(_row(mark, scale, 8 + _ROW * at + _ROW / 2, bars=bars))
    return _svg(kind, height, parts, width, f"{len(marks)} values with 95% intervals")


def _row(mark: Mark, scale: _Scale, y: float, *, bars: bool) -> Markup:
    x = scale(mark.value)
    doubt = " doubtful" if mark.doubtful else ""
    parts = [Markup("<title>{}: {}</title>").format(mark.label, mark.text)]
    parts.append(_text(scale.left - 12, y + 4, _short(mark.label, int((scale.left - 16) / _LETTER)), "label end"))
    if bars:
        zero = scale(max(scale.low, 0.0))
        parts.append(
            Markup('<rect class="bar c{}" x="{}" y="{}" width="{}" height="14" rx="2"/>').format(
                mark.colour, min(zero, x), y - 7, max(1.0, abs(x - zero))
            )
        )
    if mark.lower is not None and mark.upper is not None:
        left, right = scale(mark.lower), scale(mark.upper)
        path = f"M{left} {y}H{right}M{left} {y - 4}V{y + 4}M{right} {y - 4}V{y + 4}"
        parts.append(Markup('<path class="whisker c{}" d="{}"/>').format("" if bars else mark.colour, path))
    if not bars:
        parts.append(Markup('<circle class="dot c{}{}" cx="{}" cy="{}" r="5.5"/>').format(mark.colour, doubt, x, y))
    parts.append(_text(scale.right + 14, y + 4, mark.text, f"value{doubt}"))
    return Markup('<g class="mark">{}</g>').format(Markup("").join(parts))


def _bounds(marks: Sequence[Mark]) -> tuple[float, float]:
    known = [v for mark in marks for v in (mark.value, mark.lower, mark.upper) if v is not None]
    low, high = min(known), max(known)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    pad = (high - min(low, 0.0)) * 0.05 or 1.0
    return min(low - pad, 0.0), high + pad


def _axis(scale: _Scale, height: float) -> Markup:
    parts = []
    for tick in ticks(scale.low, scale.high):
        x = scale(tick)
        parts.append(Markup('<path class="grid" d="M{} 4V{}"/>').format(x, height - 22))
        parts.append(_text(x, height - 6, f"{tick:g}", "tick middle"))
    return Markup("").join(parts)


def histogram(histogram: Histogram, unit: str, lines: Sequence[tuple[str, float]] = ()) -> Markup:
    """How values are spread; ``lines`` are drawn across it (percentiles)."""
    edges, counts = histogram.edges, histogram.counts
    # The last bin may hold the whole tail up to the maximum: it is drawn as wide as the others, in another colour.
    tail = len(counts) > 1 and (edges[-1] - edges[-2]) > 1.5 * (edges[1] - edges[0])
    width = (_WIDTH - 2 * _MARGIN) / len(counts)
    bins = len(counts) - 1 if tail else len(counts)
    scale = _Scale(edges[0], edges[bins], _MARGIN, _MARGIN + bins * width)
    parts = _bins(histogram, unit, width, tail)
    parts += [_text(scale(tick), _BASE + 18, f"{tick:,.0f}", "tick middle") for tick in ticks(scale.low, scale.high)]
    parts.append(Markup('<path class="axis" d="M{} {}H{}"/>').format(_MARGIN, _BASE, _WIDTH - _MARGIN))
    parts.append(_text(_WIDTH / 2, _BASE + 36, unit, "tick middle"))
    if tail:
        parts.append(_text(_WIDTH - _MARGIN, _BASE + 36, f"last bar: up to {edges[-1]:,.0f}", "tick end"))
    last = -math.inf
    for name, value in sorted(lines, key=lambda line: line[1]):
        if not scale.low <= value <= scale.high:
            continue
        x = scale(value)
        parts.append(Markup('<path class="rule" d="M{} {}V{}"/>').format(x, _TOP - 14, _BASE))
        if x - last > 90:
            parts.append(_text(x + 5, _TOP - 6, f"{name} {value:,.0f}", "tick"))
            last = x
    return _svg("histogram", _BASE + 42, parts, _WIDTH, f"distribution over {sum(counts)} rows in {unit}")


def _bins(histogram: Histogram, unit: str, width: float, tail: bool) -> list[Markup]:
    edges, counts = histogram.edges, histogram.counts
    peak, parts = max(counts) or 1, []
    for at, count in enumerate(counts):
        tall = (_BASE - _TOP) * count / peak
        parts.append(
            Markup('<rect class="bin{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                " tail" if tail and at == len(counts) - 1 else "",
                round(_MARGIN + at * width + 0.5, 2),
                round(_BASE - tall, 2),
                round(width - 1, 2),
                round(tall, 2),
                f"{edges[at]:,.0f} to {edges[at + 1]:,.0f} {unit}: {count}",
            )
        )
    return parts


def share_bar(slices: Sequence[Slice]) -> Markup:
    """Parts of a whole in one line, with what each is."""
    total = sum(part.count for part in slices) or 1
    x, parts, legend = 0.0, [], []
    for at, part in enumerate(slices):
        width = _WIDTH * part.count / total
        said = f"{part.label}: {part.count:,} ({100 * part.count / total:.1f}%)"
        parts.append(
            Markup('<rect class="slice {}" x="{}" y="0" width="{}" height="26"><title>{}</title></rect>').format(
                part.style, round(x, 2), round(max(0.0, width - 1), 2), said
            )
        )
        column, line = at % 2, at // 2
        left, y = column * 250, 48 + line * 22
        legend.append(
            Markup('<rect class="slice {}" x="{}" y="{}" width="11" height="11"/>').format(part.style, left, y - 10)
        )
        legend.append(_text(left + 18, y, _short(said, 34), "value"))
        x += width
    return _svg(
        "shares", 34 + 22 * math.ceil(len(slices) / 2) + 4, [*parts, *legend], _WIDTH, f"{total} steps by outcome"
    )


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _text(x: float, y: float, text: str, style: str) -> Markup:
    return Markup('<text class="{}" x="{}" y="{}">{}</text>').format(style, round(x, 2), round(y, 2), text)


def _svg(kind: str, height: float, parts: Sequence[Markup], width: int, label: str) -> Markup:
    opening = Markup('<svg class="plot {}" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
        kind, width, round(height, 2), escape(label)
    )
    return opening + Markup("").join(parts) + Markup("</svg>")
