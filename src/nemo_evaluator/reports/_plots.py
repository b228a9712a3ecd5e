"""What plots show and where it lies; ``templates/plots.j2`` draws them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, Literal, TypeAlias

from nemo_evaluator.reports.row_details import Histogram

Kind: TypeAlias = Literal["rows", "bins", "shares"]
# More marks than this stand in two columns; more than the second number, the rest is folded.
_ONE_COLUMN: Final = 14
_UNFOLDED: Final = 40


@dataclass(frozen=True, slots=True)
class PlotMark:
    """One value with its interval; ``style`` is a class of the page, ``shape`` tells without colour."""

    label: str
    value: float
    lower: float | None
    upper: float | None
    text: str
    style: str = "c0"
    shape: int = 0
    group: str = ""
    # Its own limit, where marks have different ones.
    limit: float | None = None

    @property
    def known(self) -> list[float]:
        """The value, its bounds and its limit, as far as they are known."""
        results: list[float] = []
        for v in (self.value, self.lower, self.upper, self.limit):
            if v is not None and not math.isnan(v):
                results.append(v)
        return results

    @property
    def whisker(self) -> tuple[float, float] | None:
        if self.lower is None or self.upper is None:
            return None
        return (self.lower, self.upper)


@dataclass(frozen=True, slots=True)
class IntervalPlot:
    """Values one under the other on a common axis, as dots or as bars from zero; with a ``limit``, differences."""

    kind: ClassVar[Kind] = "rows"
    marks: Sequence[PlotMark]
    bars: bool = False
    limit: float | None = None
    # All marks of the figure that this is a part of: parts have one scale.
    whole: Sequence[PlotMark] = ()

    @property
    def bounds(self) -> tuple[float, float]:
        known: list[float] = []
        for mark in self.whole or self.marks:
            for value in mark.known:
                known.append(value)
        if self.limit is not None:
            known += [0.0, 1.4 * self.limit, -0.6 * self.limit]
        elif not known or (min(known) >= 0 and max(known) <= 1):
            return 0.0, 1.0
        low = min(known)
        high = max(known)
        pad = 0.05 * (high - min(low, 0.0)) or 0.05
        return (low - pad if self.limit is not None else min(low - pad, 0.0)), high + pad

    def at(self, value: float) -> float:
        """Where a value lies on the axis, in percent."""
        low, high = self.bounds
        return round(100 * min(1.0, max(0.0, (value - low) / (high - low))), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        shown = "{:+g}" if self.limit is not None else "{:,g}"
        results: list[tuple[float, str]] = []
        for tick in ticks(*self.bounds):
            results.append((self.at(tick), shown.format(tick) if tick else "0"))
        return results

    @property
    def groups(self) -> bool:
        return any(mark.group for mark in self.marks)


@dataclass(frozen=True, slots=True)
class Bins:
    """How values are spread, in a box of 500 by 200; ``lines`` are drawn across it (percentiles)."""

    kind: ClassVar[Kind] = "bins"
    left: ClassVar = 52
    right: ClassVar = 492
    top: ClassVar = 26
    base: ClassVar = 150
    histogram: Histogram
    unit: str
    lines: Sequence[tuple[str, float]] = ()

    @property
    def tail(self) -> bool:
        """Whether the last bar holds the whole tail up to the maximum: it is as wide as the others."""
        edges = self.histogram.edges
        return len(edges) > 2 and (edges[-1] - edges[-2]) > 1.5 * (edges[1] - edges[0])

    @property
    def width(self) -> float:
        return (self.right - self.left) / len(self.histogram.counts)

    def x(self, value: float) -> float:
        """Where a value lies; the tail is not on the scale."""
        edges = self.histogram.edges
        end = len(self.histogram.counts) - self.tail
        return round(self.left + end * self.width * (value - edges[0]) / (edges[end] - edges[0]), 2)

    def y(self, count: float) -> float:
        return round(
            self.base - (self.base - self.top) * count / (max(self.histogram.counts) or 1), 2
        )

    @property
    def bars(self) -> list[tuple[float, float, str]]:
        """Left edge, top and words of each bar."""
        edges = self.histogram.edges
        counts = self.histogram.counts
        said = [f"{low:,.0f} to {high:,.0f} {self.unit}" for low, high in pairwise(edges)]
        results: list[tuple[float, float, str]] = []
        for at, n in enumerate(counts):
            results.append((round(self.left + at * self.width, 2), self.y(n), f"{said[at]}: {n:,}"))
        return results

    @property
    def x_ticks(self) -> list[tuple[float, str]]:
        edges = self.histogram.edges
        end = len(self.histogram.counts) - self.tail
        return [(self.x(tick), f"{tick:,g}") for tick in ticks(edges[0], edges[end])]

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        found = ticks(0, max(self.histogram.counts), 3)
        return [(self.y(tick), f"{tick:,.0f}") for tick in found if float(tick).is_integer()]

    @property
    def rules(self) -> list[tuple[float, str, bool]]:
        """Position and label of each line that fits, and whether the label is on its left."""
        found: list[tuple[float, str, bool]] = []
        for name, value in sorted(self.lines, key=lambda line: line[1]):
            edges = self.histogram.edges
            x = self.x(value)
            last = found[-1][0] if found else -math.inf
            if edges[0] <= value and x <= self.right:
                at_end = x > self.right - 90
                found.append(
                    (
                        x,
                        f"{name} {value:,.0f}" if x - last > (165 if at_end else 80) else "",
                        at_end,
                    )
                )
        return found

    @property
    def said(self) -> str:
        """What a person hears who cannot see it."""
        known = "".join(f", {name} {value:,.0f}" for name, value in self.lines)
        return f"{self.unit} of {sum(self.histogram.counts):,} rows{known}"


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts of a whole: name, count and the class of each."""

    kind: ClassVar[Kind] = "shares"
    parts: Sequence[tuple[str, int, str]]

    @property
    def words(self) -> list[tuple[int, str, str]]:
        """Count, style and label of the parts that are not empty."""
        total = sum(count for _, count, _ in self.parts) or 1
        results: list[tuple[int, str, str]] = []
        for label, count, style in self.parts:
            if count:
                results.append((count, style, f"{label}: {count:,} ({100 * count / total:.1f}%)"))
        return results


@dataclass(frozen=True, slots=True)
class Figure:
    """Plots under one heading: one, or two side by side; ``folded`` ones are opened by a click."""

    title: str
    plots: Sequence[IntervalPlot | Bins | Shares]
    folded: Sequence[IntervalPlot] = ()


def rows_figure(
    title: str, marks: Sequence[PlotMark], *, bars: bool = False, limit: float | None = None
) -> Figure:
    """Marks in one column where they are few, else in two with one scale, the rest folded."""
    if len(marks) <= _ONE_COLUMN:
        return Figure(title, [IntervalPlot(marks, bars, limit)])
    shown, rest = (
        [
            IntervalPlot(half, bars, limit, whole=marks)
            for half in (part[: (len(part) + 1) // 2], part[(len(part) + 1) // 2 :])
        ]
        for part in (marks[:_UNFOLDED], marks[_UNFOLDED:])
    )
    return Figure(title, shown, [part for part in rest if part.marks])


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers between two bounds."""
    if high <= low:
        return [low]
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    return [round(at * step, 10) for at in range(first, math.floor(high / step + 1e-9) + 1)]
