"""The range of two scores and of their difference, whatever the failed rows would have scored, as a type.

The type costs nothing at run time: import it under ``TYPE_CHECKING``.
"""

from typing import TypedDict

from nemo_evaluator.store.bundle_document import BoundsEntry


class DifferenceBounds(TypedDict):
    """The extremes of a difference."""

    lower: float
    upper: float


class MissingRange(TypedDict, total=False):
    """The range of both scores and of their difference, whatever the failed rows would have scored; may be empty."""

    baseline: BoundsEntry
    candidate: BoundsEntry
    difference: DifferenceBounds
