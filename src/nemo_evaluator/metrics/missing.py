"""What failed rows could hide: the score if all of them were right, or all wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MissingBounds:
    """The range of a mean over all planned rows."""

    lower: float
    upper: float
    missing: int


def missing_bounds(
    total: float, scored: int, planned: int, *, worst: float = 0.0, best: float = 1.0
) -> MissingBounds | None:
    """Bounds of the mean when ``planned - scored`` rows could have any reward in [worst, best]."""
    if planned <= 0:
        return None
    missing = max(planned - scored, 0)
    return MissingBounds((total + missing * worst) / planned, (total + missing * best) / planned, missing)
