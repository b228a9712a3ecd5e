"""Agreement between judges."""

from collections.abc import Sequence


def krippendorff_alpha(units: Sequence[Sequence[float | None]]) -> float | None:
    """Krippendorff's alpha for interval data: 1 is perfect agreement, 0 what chance gives; None when nothing can be
    said: fewer than two grades on every item, or one throughout. ``units`` are the grades of each item."""
    rated = [[grade for grade in unit if grade is not None] for unit in units]
    rated = [unit for unit in rated if len(unit) > 1]
    values = [grade for unit in rated for grade in unit]
    count = len(values)
    if count < 2:
        return None
    expected = _squares(values) / (count - 1)
    if expected == 0:
        return None
    observed = sum(_squares(unit) / (len(unit) - 1) for unit in rated)
    return 1.0 - observed / expected


def _squares(values: Sequence[float]) -> float:
    """The sum of squared differences over all ordered pairs."""
    count, total = len(values), sum(values)
    return 2.0 * (count * sum(value * value for value in values) - total * total)
