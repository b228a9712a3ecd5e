"""Alpha spending: how the error of an interval is divided when the sample size was not fixed in advance.

A stop rule looks at a run after every problem. Three quarters of the error pay for these looks, with a confidence
sequence. The last quarter pays for one look at the planned end, with the usual interval, if the run gets there. The
probability of any wrong result is at most the sum (Bonferroni), so the level holds over stopped and finished runs
together.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.statistics.clusters import usable_clusters
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.intervals import Interval, mean_interval
from nemo_evaluator.statistics.sequential import MeanSequence

# The share of the error for looks before the planned end.
LOOKING: Final = 0.75


class Reading(Protocol):
    """Evidence about a mean: an interval, and one-sided p-values against any value."""

    def interval(self, confidence: float = 0.95) -> Interval:
        """The two-sided interval of the mean."""

    def p_above(self, bound: float) -> float:
        """One-sided p-value of "the true mean is not above ``bound``"."""

    def p_below(self, bound: float) -> float:
        """One-sided p-value of "the true mean is not below ``bound``"."""


@dataclass(frozen=True, slots=True)
class Spending:
    """How the error is divided.

    Attributes:
        looking: The share for looks before the planned end.
        last: The share for the look at the planned end.
    """

    looking: float
    last: float

    def reading(
        self, values: Floats, fixed: Reading, *, reach: float = 1.0, clustered: bool = False
    ) -> Reading:
        """The evidence of ``values`` about their mean.

        Args:
            values: Values between -``reach`` and ``reach``.
            fixed: Their evidence if their number had been fixed in advance.
            reach: The largest possible size of a value; infinite when unknown.
            clustered: Whether values belong to clusters; then looks before the planned end are no evidence.
        """
        if not self.looking or not len(values):
            return fixed
        parts: list[_ErrorShare] = []
        if self.last:
            parts.append(_ErrorShare(self.last, fixed))
        # A confidence sequence needs a known range and independent values.
        if math.isfinite(reach) and not clustered:
            sequence = MeanSequence(low=-reach, high=reach)
            sequence.add(values)
            parts.append(_ErrorShare(self.looking, sequence))
        mean = float(np.mean(values))
        return _CombinedReading(tuple(parts), value=mean, n=len(values))

    def mean_interval(
        self,
        values: Floats,
        *,
        answers: float | None = None,
        binary: bool = False,
        clusters: Ints | None = None,
        confidence: float = 0.95,
    ) -> Interval:
        """``intervals.mean_interval``, at the level that this spending allows.

        Returns:
            The interval; without bounds for values beyond [0, 1] or in clusters when only looks could give them.
        """
        values = np.asarray(values, dtype=np.float64)
        clusters = usable_clusters(clusters)
        alpha = 1 - confidence
        last_alpha = alpha * (self.last or 1.0)
        last_interval = mean_interval(
            values,
            answers=answers,
            binary=binary,
            clusters=clusters,
            confidence=1 - last_alpha,
        )
        if not self.looking or not len(values):
            return last_interval
        if clusters is not None:
            # A confidence sequence needs independent problems, so only the look at the planned end counts.
            return last_interval if self.last else replace(last_interval, lower=None, upper=None)
        beyond_unit_range = values.min() < 0.0 or values.max() > 1.0
        if beyond_unit_range and self.last:
            return last_interval
        if beyond_unit_range:
            return replace(last_interval, lower=None, upper=None)
        sequence = MeanSequence()
        sequence.add(values)
        looking_interval = sequence.interval(1 - alpha * self.looking)
        if self.last:
            return _intersection(last_interval, looking_interval)
        return looking_interval


# The number of problems was fixed in advance.
PLANNED: Final = Spending(looking=0.0, last=1.0)
# Somebody may look, and stop, at any time.
ANYTIME: Final = Spending(looking=1.0, last=0.0)
# A stop rule ended the run early.
STOPPED: Final = Spending(looking=LOOKING, last=0.0)
# The run had a stop rule and reached its planned end.
ENDED: Final = Spending(looking=LOOKING, last=1 - LOOKING)


def joint_spending(*runs: Spending) -> Spending:
    """The spending of a comparison: the look at the planned end counts only if every run reached its own."""
    return min(runs, key=lambda run: run.last)


def spending_of(stopped: Mapping[str, Any] | None) -> Spending:
    """The spending of a run.

    Args:
        stopped: The ``stopped`` part of its bundle; None for a run that was neither stopped nor had a stop rule.
    """
    if not isinstance(stopped, dict):
        return PLANNED
    kind = stopped.get("kind")
    had_rule = "rule" in stopped or kind == "rule"
    if not had_rule:
        return PLANNED
    rule = as_dict(stopped.get("rule"))
    # The end was moved: the look at the planned end may not be taken a second time.
    if rule.get("moved_from"):
        return STOPPED
    reached_planned_end = not kind or (kind == "rule" and rule.get("last_look"))
    return ENDED if reached_planned_end else STOPPED


class _ErrorShare(NamedTuple):
    """Evidence about a mean, and the share of the error that it may use."""

    share: float
    reading: Reading


@dataclass(frozen=True, slots=True)
class _CombinedReading:
    """Several pieces of evidence about one mean, each with its share of the error."""

    parts: tuple[_ErrorShare, ...]
    value: float
    n: int

    def interval(self, confidence: float = 0.95) -> Interval:
        """The intersection of the parts' intervals."""
        if not self.parts:
            return Interval.without_bounds(self.value, method="none", n=self.n)
        alpha = 1 - confidence
        intervals: list[Interval] = []
        for part in self.parts:
            part_confidence = 1 - alpha * part.share
            intervals.append(part.reading.interval(part_confidence))
        return reduce(_intersection, intervals)

    def p_above(self, bound: float) -> float:
        """The smallest p-value of a part, corrected for its share (Bonferroni)."""
        p_values = [part.reading.p_above(bound) / part.share for part in self.parts]
        return min([1.0, *p_values])

    def p_below(self, bound: float) -> float:
        """The smallest p-value of a part, corrected for its share (Bonferroni)."""
        p_values = [part.reading.p_below(bound) / part.share for part in self.parts]
        return min([1.0, *p_values])


def _intersection(fixed: Interval, looked: Interval) -> Interval:
    """The values that neither interval excludes."""
    if fixed.lower is None or fixed.upper is None or looked.lower is None or looked.upper is None:
        return looked
    return Interval(
        value=fixed.value,
        lower=max(looked.lower, fixed.lower),
        upper=min(looked.upper, fixed.upper),
        method=f"{fixed.method}+{looked.method}",
        n=fixed.n,
    )
