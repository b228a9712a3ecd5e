"""The contents of plots and the positions of their parts; ``templates/plots.j2`` draws them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, Literal, TypeAlias

from nemo_evaluator.reports.row_details import Histogram

Kind: TypeAlias = Literal["rows", "bins", "shares"]
# More marks than this are shown in two columns; marks beyond the second number are folded.
_ONE_COLUMN: Final = 14
_UNFOLDED: Final = 40


@dataclass(frozen=True, slots=True)
class PlotMark:
    """One value with its interval.

    Attributes:
        label: Its name.
        value: The value.
        lower: The lower bound; None when unknown.
        upper: The upper bound; None when unknown.
        text: The text beside the mark.
        style: A CSS class, which sets the colour.
        shape: The number of its shape, which makes it recognisable without colour.
        group: The heading under which it is listed.
        limit: Its own limit, where marks have different ones.
    """

    label: str
    value: float
    lower: float | None
    upper: float | None
    text: str
    style: str = "c0"
    shape: int = 0
    group: str = ""
    limit: float | None = None

    @property
    def known(self) -> list[float]:
        """The value, its bounds and its limit, as far as they are known."""
        values: list[float] = []
        for value in (self.value, self.lower, self.upper, self.limit):
            if value is not None and not math.isnan(value):
                values.append(value)
        return values

    @property
    def whisker(self) -> tuple[float, float] | None:
        """Both bounds; None unless both are known."""
        if self.lower is None or self.upper is None:
            return None
        return (self.lower, self.upper)


@dataclass(frozen=True, slots=True)
class IntervalPlot:
    """Values listed one below the other on a common axis, as dots or as bars from zero.

    Attributes:
        marks: The values.
        bars: Draw bars instead of dots.
        limit: The limit of a difference; None for plots of other values.
        whole: All marks of the figure that this plot is part of, so that its parts have one scale.
    """

    kind: ClassVar[Kind] = "rows"
    marks: Sequence[PlotMark]
    bars: bool = False
    limit: float | None = None
    whole: Sequence[PlotMark] = ()

    @property
    def bounds(self) -> tuple[float, float]:
        """The lower and upper end of the axis."""
        values: list[float] = []
        for mark in self.whole or self.marks:
            for value in mark.known:
                values.append(value)
        if self.limit is not None:
            values += [0.0, 1.4 * self.limit, -0.6 * self.limit]
        elif not values or (min(values) >= 0 and max(values) <= 1):
            return 0.0, 1.0
        low = min(values)
        high = max(values)
        padding = 0.05 * (high - min(low, 0.0)) or 0.05
        return (
            low - padding if self.limit is not None else min(low - padding, 0.0)
        ), high + padding

    def at(self, value: float) -> float:
        """The position of a value on the axis, in percent."""
        low, high = self.bounds
        return round(100 * min(1.0, max(0.0, (value - low) / (high - low))), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Position and label of each tick."""
        number_format = "{:+g}" if self.limit is not None else "{:,g}"
        labelled_ticks: list[tuple[float, str]] = []
        for tick in ticks(*self.bounds):
            labelled_ticks.append((self.at(tick), number_format.format(tick) if tick else "0"))
        return labelled_ticks

    @property
    def groups(self) -> bool:
        """Whether any mark belongs to a group."""
        return any(mark.group for mark in self.marks)


@dataclass(frozen=True, slots=True)
class Bins:
    """A histogram in a box of 500 by 200.

    Attributes:
        histogram: The counts.
        unit: The unit of the values.
        lines: Names and values of lines drawn across it, such as percentiles.
    """

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
        """Whether the last bar contains the whole tail up to the maximum; it is drawn as wide as the others."""
        edges = self.histogram.edges
        return len(edges) > 2 and (edges[-1] - edges[-2]) > 1.5 * (edges[1] - edges[0])

    @property
    def width(self) -> float:
        """The width of a bar."""
        return (self.right - self.left) / len(self.histogram.counts)

    def x(self, value: float) -> float:
        """The horizontal position of a value; values in the tail are not on the scale."""
        edges = self.histogram.edges
        end = len(self.histogram.counts) - self.tail
        return round(self.left + end * self.width * (value - edges[0]) / (edges[end] - edges[0]), 2)

    def y(self, count: float) -> float:
        """The vertical position of a count."""
        return round(
            self.base - (self.base - self.top) * count / (max(self.histogram.counts) or 1), 2
        )

    @property
    def bars(self) -> list[tuple[float, float, str]]:
        """Left edge, top and label of each bar."""
        edges = self.histogram.edges
        counts = self.histogram.counts
        range_labels = [f"{low:,.0f} to {high:,.0f} {self.unit}" for low, high in pairwise(edges)]
        bars: list[tuple[float, float, str]] = []
        for index, bin_count in enumerate(counts):
            bars.append(
                (
                    round(self.left + index * self.width, 2),
                    self.y(bin_count),
                    f"{range_labels[index]}: {bin_count:,}",
                )
            )
        return bars

    @property
    def x_ticks(self) -> list[tuple[float, str]]:
        """Position and label of each tick of the horizontal axis."""
        edges = self.histogram.edges
        end = len(self.histogram.counts) - self.tail
        return [(self.x(tick), f"{tick:,g}") for tick in ticks(edges[0], edges[end])]

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        """Position and label of each tick of the vertical axis, whole numbers only."""
        round_counts = ticks(0, max(self.histogram.counts), 3)
        return [(self.y(tick), f"{tick:,.0f}") for tick in round_counts if float(tick).is_integer()]

    @property
    def rules(self) -> list[tuple[float, str, bool]]:
        """Position and label of each line that fits, and whether the label is on its left; a crowded label is empty."""
        placed_lines: list[tuple[float, str, bool]] = []
        for name, value in sorted(self.lines, key=lambda line: line[1]):
            edges = self.histogram.edges
            position = self.x(value)
            last_position = placed_lines[-1][0] if placed_lines else -math.inf
            if edges[0] <= value and position <= self.right:
                at_end = position > self.right - 90
                placed_lines.append(
                    (
                        position,
                        f"{name} {value:,.0f}"
                        if position - last_position > (165 if at_end else 80)
                        else "",
                        at_end,
                    )
                )
        return placed_lines

    @property
    def said(self) -> str:
        """The description for screen readers."""
        percentiles = "".join(f", {name} {value:,.0f}" for name, value in self.lines)
        return f"{self.unit} of {sum(self.histogram.counts):,} rows{percentiles}"


@dataclass(frozen=True, slots=True)
class Shares:
    """The parts of a whole.

    Attributes:
        parts: Name, count and CSS class of each part.
    """

    kind: ClassVar[Kind] = "shares"
    parts: Sequence[tuple[str, int, str]]

    @property
    def words(self) -> list[tuple[int, str, str]]:
        """Count, CSS class and label of each part that is not empty."""
        total = sum(count for _, count, _ in self.parts) or 1
        labelled_parts: list[tuple[int, str, str]] = []
        for label, count, style in self.parts:
            if count:
                labelled_parts.append(
                    (count, style, f"{label}: {count:,} ({100 * count / total:.1f}%)")
                )
        return labelled_parts


@dataclass(frozen=True, slots=True)
class Figure:
    """Plots under one heading.

    Attributes:
        title: The heading.
        plots: One plot, or two side by side.
        folded: Further plots that open on a click.
    """

    title: str
    plots: Sequence[IntervalPlot | Bins | Shares]
    folded: Sequence[IntervalPlot] = ()


def rows_figure(
    title: str, marks: Sequence[PlotMark], *, bars: bool = False, limit: float | None = None
) -> Figure:
    """Arrange marks in one column if there are few, otherwise in two columns of one scale, with the rest folded.

    Args:
        title: The heading.
        marks: The marks.
        bars: Draw bars instead of dots.
        limit: The limit of a difference.
    """
    if len(marks) <= _ONE_COLUMN:
        return Figure(title, [IntervalPlot(marks, bars, limit)])
    columns, folded_columns = (
        [
            IntervalPlot(half, bars, limit, whole=marks)
            for half in (part[: (len(part) + 1) // 2], part[(len(part) + 1) // 2 :])
        ]
        for part in (marks[:_UNFOLDED], marks[_UNFOLDED:])
    )
    return Figure(title, columns, [part for part in folded_columns if part.marks])


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers between two bounds, about ``wanted`` of them."""
    if high <= low:
        return [low]
    rough_step = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough_step))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough_step)
    first_multiple = math.ceil(low / step - 1e-9)
    return [
        round(multiple * step, 10)
        for multiple in range(first_multiple, math.floor(high / step + 1e-9) + 1)
    ]
