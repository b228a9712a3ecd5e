"""How the error of an interval is spent when the size of a sample was not settled beforehand. A run with a stop rule is
looked at all along. Three quarters of the error pay for that, with a confidence sequence; the last quarter pays for one
look at the planned end, with the usual interval, if the run gets there. Whichever way a run goes, the chance that it is
ever wrong is at most the sum: so the level holds over stopped and unstopped runs together."""

import math
from dataclasses import dataclass
from functools import reduce
from typing import Final, Protocol

import numpy as np

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.intervals import Interval, mean_interval
from nemo_evaluator.statistics.sequential import MeanSequence

LOOKING: Final = 0.75


class Reading(Protocol):
    """What the data say of a mean: bounds, and one-sided p-values against any value."""

    def interval(self, confidence: float = 0.95) -> Interval: ...

    # Of "the true mean is not above (below) ``bound``".
    def p_above(self, bound: float) -> float: ...

    def p_below(self, bound: float) -> float: ...


@dataclass(frozen=True, slots=True)
class Spending:
    """The shares of the error that looking all along and the look at the planned end may use."""

    looking: float
    last: float

    def reading(self, values: Floats, fixed: Reading, *, reach: float = 1.0) -> Reading:
        """What ``values`` between -reach and reach say; ``fixed`` is what they say if their number was fixed."""
        if not self.looking or not len(values):
            return fixed
        if self.last:
            parts: list[tuple[float, Reading]] = [(self.last, fixed)]
        else:
            parts = []
        # Nothing can be learnt by looking at values whose reach is not known.
        if math.isfinite(reach):
            sequence = MeanSequence(low=-reach, high=reach)
            sequence.add(values)
            parts.append((self.looking, sequence))
        return _Spent(tuple(parts), float(np.mean(values)), len(values))

    def mean_interval(
        self,
        values: Floats,
        *,
        answers: float | None = None,
        binary: bool = False,
        clusters: Ints | None = None,
        confidence: float = 0.95,
    ) -> Interval:
        """``mean_interval`` for such a run; no bounds for values beyond [0, 1] when only looking could give them."""
        values = np.asarray(values, dtype=np.float64)
        if self.looking and clusters is not None:
            raise ValueError("a rule looks at problems one by one, not at clusters of them")
        alpha = 1 - confidence
        level = 1 - alpha * (self.last or 1.0)
        found = mean_interval(
            values, answers=answers, binary=binary, clusters=clusters, confidence=level
        )
        if not self.looking or not len(values):
            return found
        if values.min() < 0.0 or values.max() > 1.0:
            if self.last:
                return found
            return Interval(found.value, None, None, method=found.method, n=found.n)
        sequence = MeanSequence()
        sequence.add(values)
        looked = sequence.interval(1 - alpha * self.looking)
        if self.last:
            return _both(found, looked)
        return looked


# The size was settled beforehand; looked at whenever one likes; ended by a rule; had a rule and reached its end.
PLANNED: Final = Spending(looking=0.0, last=1.0)
ANYTIME: Final = Spending(looking=1.0, last=0.0)
STOPPED: Final = Spending(looking=LOOKING, last=0.0)
ENDED: Final = Spending(looking=LOOKING, last=1 - LOOKING)


def joint_spending(*runs: Spending) -> Spending:
    """That of a comparison of runs: a look at the planned end is there only when each of them got to its own."""
    return min(runs, key=lambda run: run.last)


def spending_of(stopped: JsonDict | None) -> Spending:
    """How the error of a run's intervals is spent, by the ``stopped`` part of its bundle."""
    if not isinstance(stopped, dict):
        return PLANNED
    kind = stopped.get("kind")
    if "rule" not in stopped and kind != "rule":
        return PLANNED
    # Only at the planned end may a run take the look that was kept for it; and the end is not moved for another one.
    rule = as_dict(stopped.get("rule"))
    if rule.get("moved_from"):
        return STOPPED
    if not kind or (kind == "rule" and rule.get("last_look")):
        return ENDED
    return STOPPED


@dataclass(frozen=True, slots=True)
class _Spent:
    """Several ways to be right about one mean, each with its share of the error."""

    parts: tuple[tuple[float, Reading], ...]
    value: float
    n: int

    def interval(self, confidence: float = 0.95) -> Interval:
        """Where all parts agree that the mean may be."""
        found = [part.interval(1 - (1 - confidence) * share) for share, part in self.parts]
        if found:
            return reduce(_both, found)
        return Interval(self.value, None, None, method="none", n=self.n)

    def p_above(self, bound: float) -> float:
        """The p-value at which the first part would speak."""
        return min([1.0, *(part.p_above(bound) / share for share, part in self.parts)])

    def p_below(self, bound: float) -> float:
        """The p-value at which the first part would speak."""
        return min([1.0, *(part.p_below(bound) / share for share, part in self.parts)])


def _both(fixed: Interval, looked: Interval) -> Interval:
    """The values that neither interval excludes."""
    if fixed.lower is None or fixed.upper is None or looked.lower is None or looked.upper is None:
        return looked
    lower = max(looked.lower, fixed.lower)
    upper = min(looked.upper, fixed.upper)
    return Interval(fixed.value, lower, upper, method=f"{fixed.method}+{looked.method}", n=fixed.n)
