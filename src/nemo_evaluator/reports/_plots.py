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
# In units of a histogram's box: the width of a line's label, and the distance to the line before it that it needs.
_LABEL_WIDTH: Final = 90
_ROOM_OF_LABEL: Final = 80
_ROOM_OF_LABEL_AT_END: Final = 165


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
            values.extend(mark.known)
        if self.limit is None:
            shares_only = all(0 <= value <= 1 for value in values)
            if shares_only:
                return 0.0, 1.0
        else:
            # Zero and the limit are always in view.
            values += [0.0, 1.4 * self.limit, -0.6 * self.limit]
        low = min(values)
        high = max(values)
        padding = 0.05 * (high - min(low, 0.0)) or 0.05
        low_end = low - padding
        if self.limit is None:
            low_end = min(low_end, 0.0)
        return low_end, high + padding

    def at(self, value: float) -> float:
        """The position of a value on the axis, in percent."""
        low, high = self.bounds
        share = (value - low) / (high - low)
        share_in_view = min(1.0, max(0.0, share))
        return round(100 * share_in_view, 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Position and label of each tick."""
        number_format = "{:,g}"
        if self.limit is not None:
            number_format = "{:+g}"
        labelled_ticks: list[tuple[float, str]] = []
        for tick in ticks(*self.bounds):
            label = number_format.format(tick) if tick else "0"
            labelled_ticks.append((self.at(tick), label))
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
        if len(edges) <= 2:
            return False
        first_width = edges[1] - edges[0]
        last_width = edges[-1] - edges[-2]
        return last_width > 1.5 * first_width

    @property
    def width(self) -> float:
        """The width of a bar."""
        return (self.right - self.left) / len(self.histogram.counts)

    def x(self, value: float) -> float:
        """The horizontal position of a value; values in the tail are not on the scale."""
        edges = self.histogram.edges
        bars_on_scale = len(self.histogram.counts) - self.tail
        first_edge = edges[0]
        last_edge = edges[bars_on_scale]
        scale_width = bars_on_scale * self.width
        share_of_scale = (value - first_edge) / (last_edge - first_edge)
        return round(self.left + scale_width * share_of_scale, 2)

    def y(self, count: float) -> float:
        """The vertical position of a count."""
        largest_count = max(self.histogram.counts) or 1
        height = (self.base - self.top) * count / largest_count
        return round(self.base - height, 2)

    @property
    def bars(self) -> list[tuple[float, float, str]]:
        """Left edge, top and label of each bar."""
        bars: list[tuple[float, float, str]] = []
        ranges = pairwise(self.histogram.edges)
        for index, (low, high) in enumerate(ranges):
            count = self.histogram.counts[index]
            left_edge = round(self.left + index * self.width, 2)
            label = f"{low:,.0f} to {high:,.0f} {self.unit}: {count:,}"
            bars.append((left_edge, self.y(count), label))
        return bars

    @property
    def x_ticks(self) -> list[tuple[float, str]]:
        """Position and label of each tick of the horizontal axis."""
        edges = self.histogram.edges
        bars_on_scale = len(self.histogram.counts) - self.tail
        return [(self.x(tick), f"{tick:,g}") for tick in ticks(edges[0], edges[bars_on_scale])]

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        """Position and label of each tick of the vertical axis, whole numbers only."""
        labelled_ticks: list[tuple[float, str]] = []
        for tick in ticks(0, max(self.histogram.counts), 3):
            if float(tick).is_integer():
                labelled_ticks.append((self.y(tick), f"{tick:,.0f}"))
        return labelled_ticks

    @property
    def rules(self) -> list[tuple[float, str, bool]]:
        """Position and label of each line that fits, and whether the label is on its left; a crowded label is empty."""
        first_edge = self.histogram.edges[0]
        placed_lines: list[tuple[float, str, bool]] = []
        last_position = -math.inf
        for name, value in sorted(self.lines, key=lambda line: line[1]):
            position = self.x(value)
            if value < first_edge or position > self.right:
                continue
            at_end = position > self.right - _LABEL_WIDTH
            room_needed = _ROOM_OF_LABEL_AT_END if at_end else _ROOM_OF_LABEL
            label = ""
            if position - last_position > room_needed:
                label = f"{name} {value:,.0f}"
            placed_lines.append((position, label, at_end))
            last_position = position
        return placed_lines

    @property
    def description(self) -> str:
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
        total = sum(count for _, count, _ in self.parts)
        labelled_parts: list[tuple[int, str, str]] = []
        for name, count, style in self.parts:
            if count:
                label = f"{name}: {count:,} ({100 * count / total:.1f}%)"
                labelled_parts.append((count, style, label))
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
    columns: list[IntervalPlot] = []
    for half in _halves(marks[:_UNFOLDED]):
        columns.append(IntervalPlot(half, bars, limit, whole=marks))
    folded_columns: list[IntervalPlot] = []
    for half in _halves(marks[_UNFOLDED:]):
        if half:
            folded_columns.append(IntervalPlot(half, bars, limit, whole=marks))
    return Figure(title, columns, folded_columns)


def _halves(marks: Sequence[PlotMark]) -> tuple[Sequence[PlotMark], Sequence[PlotMark]]:
    """The first and the second half of the marks; the first one is longer if their number is odd."""
    middle = (len(marks) + 1) // 2
    return marks[:middle], marks[middle:]


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers between two bounds, about ``wanted`` of them."""
    if high <= low:
        return [low]
    step = _round_step((high - low) / wanted)
    first_multiple = math.ceil(low / step - 1e-9)
    last_multiple = math.floor(high / step + 1e-9)
    multiples = range(first_multiple, last_multiple + 1)
    return [round(multiple * step, 10) for multiple in multiples]


def _round_step(smallest: float) -> float:
    """The smallest round number that is at least ``smallest``."""
    power_of_ten = 10.0 ** math.floor(math.log10(smallest))
    for factor in (1, 2, 2.5, 5):
        if power_of_ten * factor >= smallest:
            return power_of_ten * factor
    return power_of_ten * 10
