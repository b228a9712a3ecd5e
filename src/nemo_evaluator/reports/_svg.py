"""Plots as inline SVG: colours come from the page's style, every text is escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from nemo_evaluator.reports.model import Histogram

# Drawn at the size they are shown at, so that text in a wide plot is not larger than in a narrow one.
WIDE = 1080
_WIDTH = 500
_PHONE = 340
_LETTER = 7.3
_ROW = 30
_BASE = 150
_TOP = 28
_MARGIN = 6
_SHAPES = (
    "M-5.5 0A5.5 5.5 0 1 0 5.5 0A5.5 5.5 0 1 0-5.5 0Z",
    "M-5-5H5V5H-5Z",
    "M0-6.5L6.5 5H-6.5Z",
    "M0-7L7 0L0 7L-7 0Z",
    "M0 6.5L-6.5-5H6.5Z",
    "M-6-2H-2V-6H2V-2H6V2H2V6H-2V2H-6Z",
)


@dataclass(frozen=True, slots=True)
class Mark:
    """One value with its interval, in a plot of scores or of groups; marks of one ``group`` stand together."""

    label: str
    value: float
    lower: float | None
    upper: float | None
    text: str
    colour: int = 0
    doubtful: bool = False
    group: str = ""


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


def forest(marks: Sequence[Mark], title: str) -> Markup:
    """Scores as dots on a common axis, each with its interval; drawn once for a desk and once for a phone."""
    return _rows("forest", marks, WIDE, title, bars=False) + _stacked("forest", marks, title, bars=False)


def bars(marks: Sequence[Mark], title: str) -> Markup:
    """Groups as bars from zero, each with its interval; drawn once for a desk and once for a phone."""
    return _rows("bars", marks, _WIDTH, title, bars=True) + _stacked("bars", marks, title, bars=True)


def _rows(kind: str, marks: Sequence[Mark], width: int, title: str, *, bars: bool) -> Markup:
    """Labels to the left of the axis, values to the right."""
    label = min(0.33 * width, 24 + _LETTER * max(len(mark.label) for mark in marks))
    group = min(0.22 * width, 16 + _LETTER * max(len(mark.group) for mark in marks)) if marks[0].group else 0.0
    value = min(0.3 * width, 22 + _LETTER * max(len(mark.text) for mark in marks))
    scale = _Scale(*_bounds(marks), group + label, width - value)
    height = _ROW * len(marks) + 30
    parts, before = [_axis(scale, height)], ""
    for at, mark in enumerate(marks):
        y = 8 + _ROW * at + _ROW / 2
        if mark.group != before:
            parts.append(_text(0, y + 4, _short(mark.group, int((group - 8) / _LETTER)), "group"))
            if at:
                parts.append(Markup('<path class="axis" d="M0 {}H{}"/>').format(y - _ROW / 2, width))
            before = mark.group
        texts = [
            _text(scale.left - 12, y + 4, _short(mark.label, int((label - 12) / _LETTER)), "label end"),
            _text(scale.right + 14, y + 4, _short(mark.text, int((value - 14) / _LETTER)), _value_style(mark)),
        ]
        parts.append(_row(mark, scale, y, texts, bars=bars))
    return _svg(f"{kind} desk", height, parts, width, _said(title, marks))


def _stacked(kind: str, marks: Sequence[Mark], title: str, *, bars: bool) -> Markup:
    """Label and value above each line, so that both can be read on a phone."""
    scale = _Scale(*_bounds(marks), 8, _PHONE - 8)
    step = 46
    height = step * len(marks) + 30
    parts = [_axis(scale, height)]
    for at, mark in enumerate(marks):
        y = step * at + 34
        name = f"{mark.group} · {mark.label}" if mark.group else mark.label
        room = int((_PHONE - 16) / _LETTER) - len(mark.text) - 2
        texts = [
            _text(0, y - 16, _short(name, max(8, room)), "label"),
            _text(_PHONE, y - 16, mark.text, f"{_value_style(mark)} end"),
        ]
        parts.append(_row(mark, scale, y, texts, bars=bars))
    return _svg(f"{kind} phone", height, parts, _PHONE, _said(title, marks))


def _said(title: str, marks: Sequence[Mark]) -> str:
    """What a person hears who cannot see the plot: the first values; all of them are in the tables."""
    first = [f"{f'{mark.group} ' if mark.group else ''}{mark.label} {mark.text}" for mark in marks[:12]]
    more = [f"and {len(marks) - 12} more"] if len(marks) > 12 else []
    return f"{title}: {'; '.join([*first, *more])}"


def _value_style(mark: Mark) -> str:
    return "value doubtful" if mark.doubtful else "value"


def _row(mark: Mark, scale: _Scale, y: float, texts: Sequence[Markup], *, bars: bool) -> Markup:
    x = scale(mark.value)
    parts = [Markup("<title>{}: {}{}</title>").format(mark.label, mark.text, _interval(mark)), *texts]
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
        parts.append(
            Markup('<path class="dot c{}{}" transform="translate({} {})" d="{}"/>').format(
                mark.colour, " doubtful" if mark.doubtful else "", x, y, shape(mark.colour)
            )
        )
    return Markup('<g class="mark">{}</g>').format(Markup("").join(parts))


def shape(colour: int) -> str:
    """The outline of a mark: each colour has one, for those who do not see colours apart."""
    return _SHAPES[colour % len(_SHAPES)]


def _interval(mark: Mark) -> str:
    return "" if mark.lower is None or mark.upper is None else f", 95% interval {mark.lower:.4f} to {mark.upper:.4f}"


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
        parts.append(_text(x, height - 6, _tick(tick), "tick middle"))
    return Markup("").join(parts)


def _tick(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


def histogram(histogram: Histogram, unit: str, lines: Sequence[tuple[str, float]] = ()) -> Markup:
    """How values are spread; ``lines`` are drawn across it (percentiles)."""
    edges, counts = histogram.edges, histogram.counts
    # The last bin may hold the whole tail up to the maximum: it is drawn as wide as the others, in another colour.
    tail = len(counts) > 1 and (edges[-1] - edges[-2]) > 1.5 * (edges[1] - edges[0])
    width = (_WIDTH - 2 * _MARGIN) / len(counts)
    bins = len(counts) - 1 if tail else len(counts)
    scale = _Scale(edges[0], edges[bins], _MARGIN, _MARGIN + bins * width)
    parts = _bins(histogram, unit, width, tail)
    parts += [_text(scale(tick), _BASE + 18, _tick(tick), "tick middle") for tick in ticks(scale.low, scale.high)]
    parts.append(Markup('<path class="axis" d="M{} {}H{}"/>').format(_MARGIN, _BASE, _WIDTH - _MARGIN))
    parts.append(_text(_WIDTH / 2, _BASE + 36, unit, "tick middle"))
    if tail:
        parts.append(_text(_WIDTH - _MARGIN, _BASE + 36, f"last bar: up to {edges[-1]:,.0f}", "tick end"))
    parts.append(_text(_MARGIN, _BASE + 36, f"tallest bar: {max(counts):,} rows", "tick"))
    last = -math.inf
    for name, value in sorted(lines, key=lambda line: line[1]):
        if not scale.low <= value <= scale.high:
            continue
        x = scale(value)
        parts.append(Markup('<path class="rule" d="M{} {}V{}"/>').format(x, _TOP - 14, _BASE))
        label, at_end = f"{name} {value:,.0f}", x > _WIDTH - 90
        if x - last > (165 if at_end else 80):
            parts.append(_text(x - 5 if at_end else x + 5, _TOP - 6, label, "tick end" if at_end else "tick"))
            last = x
    known = "".join(f", {name} {value:,.0f}" for name, value in lines)
    return _svg("histogram", _BASE + 42, parts, _WIDTH, f"{unit} of {sum(counts):,} rows{known}")


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
    """Parts of a whole in one line, and below it what each is."""
    total = sum(part.count for part in slices) or 1
    x, parts, legend = 0.0, [], []
    for part in slices:
        width = _WIDTH * part.count / total
        said = f"{part.label}: {part.count:,} ({100 * part.count / total:.1f}%)"
        parts.append(
            Markup('<rect class="slice {}" x="{}" y="0" width="{}" height="26"><title>{}</title></rect>').format(
                part.style, round(x, 2), round(max(1.0, width - 1), 2), said
            )
        )
        legend.append(Markup('<li class="{}">{}</li>').format(part.style, said))
        x += width
    label = f"{total:,}: " + "; ".join(f"{part.label} {part.count:,}" for part in slices)
    drawn = _svg("shares", 26, parts, _WIDTH, label, stretch=True)
    return drawn + Markup('<ul class="parts">{}</ul>').format(Markup("").join(legend))


def _short(text: str, limit: int) -> str:
    """The beginning and the end of a text that is too long: names of one family often differ at their end."""
    if len(text) <= limit:
        return text
    tail = max(0, (limit - 1) // 3)
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def _text(x: float, y: float, text: str, style: str) -> Markup:
    return Markup('<text class="{}" x="{}" y="{}">{}</text>').format(style, round(x, 2), round(y, 2), text)


def _svg(kind: str, height: float, parts: Sequence[Markup], width: int, label: str, *, stretch: bool = False) -> Markup:
    aspect = Markup(' preserveAspectRatio="none"') if stretch else ""
    opening = Markup('<svg class="plot {}" viewBox="0 0 {} {}"{} role="img" aria-label="{}">').format(
        kind, width, round(height, 2), aspect, label
    )
    return opening + Markup("").join(parts) + Markup("</svg>")
