"""One benchmark against its limits: damage, its interval, and the two p-values a decision rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from nemo_evaluator.config.gate_policy import PolicyDefaults
from nemo_evaluator.decisions.calibrate.paired import LabelledPair
from nemo_evaluator.decisions.compare.verdict import shifted
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.metrics import PLANNED, Interval, Reading, Spending, mean_difference
from nemo_evaluator.runs.row_table import Floats


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: the paired margin to it (above 0 is good), its interval, and the evidence either way."""

    name: str
    margin: Interval
    p_pass: float
    p_breach: float
    ruler: Ruler
    # The share of the baseline that a relative limit allows to be lost.
    relative: float = 0.0

    def holds(self, alpha: float) -> bool:
        """Whether the limit is surely kept."""
        return self.p_pass <= alpha

    def again(self, gain: Floats) -> Limit:
        """The same limit on other per-problem gains."""
        return replace(self.ruler, gain=gain, contrast=None).limit()


@dataclass(frozen=True, slots=True)
class Measured:
    """The difference of one benchmark, the margins to its limits, and what there is to say about them."""

    delta: Interval
    limits: list[Limit]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ruler:
    """How the margin of per-problem gains over ``-allowed`` is measured.

    ``share`` of the baseline's own rewards is part of a gain where the limit is a relative one; or they stand beside
    it: ``contrast`` is each gain with what may be lost of its own problem, whose spread counts as well.
    """

    name: str
    gain: Floats
    allowed: float
    pairing: Pairing
    confidence: float
    spending: Spending = PLANNED
    share: float = 0.0
    contrast: Floats | None = None

    @property
    def sd(self) -> float:
        """The spread of one problem's margin."""
        seen = [self.gain] if self.contrast is None else [self.gain, self.contrast]
        return max(float(values.std(ddof=1)) for values in seen)

    @property
    def reach(self) -> float:
        """How far a single gain may lie from zero."""
        return (1 + self.share) * self.pairing.scale

    def limit(self) -> Limit:
        """The margin with the evidence that it is kept, and that it is exceeded."""
        found = self._reading()
        interval = replace(found.interval(self.confidence), value=float(self.gain.mean()), n=len(self.gain))
        margin = shifted(interval, self.allowed)
        return Limit(self.name, margin, found.p_above(-self.allowed), found.p_below(-self.allowed), self)

    def _reading(self) -> Reading:
        found: Reading = self.pairing.mean_difference(self.gain)
        if self.contrast is not None:
            found = _Weaker(found, mean_difference(self.contrast, scale=2 * self.reach), self.allowed)
        reach = self.reach if self.pairing.bounded else math.inf
        return self.spending.reading(self.gain, found, reach=reach)


@dataclass(frozen=True, slots=True)
class _Weaker:
    """Two readings of one mean, the other moved up by ``shift``: nothing is sure that is not sure to both."""

    one: Reading
    other: Reading
    shift: float

    def interval(self, confidence: float = 0.95) -> Interval:
        """What either of them leaves open."""
        found, beside = self.one.interval(confidence), shifted(self.other.interval(confidence), -self.shift)
        ends = found.lower, beside.lower, found.upper, beside.upper
        if ends[0] is None or ends[1] is None or ends[2] is None or ends[3] is None:
            return replace(found, lower=None, upper=None)
        return replace(found, lower=min(ends[0], ends[1]), upper=max(ends[2], ends[3]))

    def p_above(self, bound: float) -> float:
        """The weaker p-value."""
        return max(self.one.p_above(bound), self.other.p_above(bound + self.shift))

    def p_below(self, bound: float) -> float:
        """The weaker p-value."""
        return max(self.one.p_below(bound), self.other.p_below(bound + self.shift))


def measure(pairing: Pairing, limits: PolicyDefaults, *, confidence: float, spending: Spending = PLANNED) -> Measured:
    """The difference and the margins; ``spending`` tells bounds that allow for looking from those that do not."""
    before, after = pairing.baseline.rewards, pairing.candidate.rewards
    better = 1.0 if limits.direction == "higher_is_better" else -1.0
    gain = better * (after - before)
    ruler = Ruler("max_drop", gain, limits.max_drop, pairing, confidence, spending)
    margins, notes = [ruler.limit()], []
    if spending.looking and not pairing.bounded:
        notes.append("rewards beyond [0, 1]: no interval holds under repeated looking")
    relative, guard, baseline = limits.max_relative_drop, limits.relative_guard_below, float(before.mean())
    if relative is not None and (guard is None or baseline < guard):
        if baseline == 0.0 and better > 0:
            notes.append("max_relative_drop says nothing where the baseline scores 0; max_drop alone decides")
        else:
            limit = _relative(ruler, relative * np.copysign(1.0, baseline) * before, relative).limit()
            margins.append(replace(limit, relative=relative))
    return Measured(pairing.reading(pairing.differences, spending).interval(confidence), margins, notes)


def _relative(ruler: Ruler, allowed: Floats, share: float) -> Ruler:
    """A drop of at most a share of the baseline: gain + ``allowed`` is not negative on average. No division, so nothing
    breaks when the baseline is near zero.
    """
    ruler, contrast = replace(ruler, name="max_relative_drop"), ruler.gain + allowed
    if not ruler.pairing.bounded:
        return replace(ruler, gain=contrast, allowed=0.0, share=share)
    # Flips are few, and the next one moves the margin by a whole point however small the others are. A confidence
    # sequence knows that of the sum. The usual interval does not: it judges flips against the mean of what is allowed,
    # and, where the baseline's own spread makes the margin less sure than the flips are, the sum.
    if ruler.spending.looking:
        looking = replace(ruler.spending, last=0.0)
        return replace(ruler, gain=contrast, allowed=0.0, share=share, spending=looking)
    return replace(ruler, allowed=float(allowed.mean()), contrast=contrast)


def corrected(measured: Measured, labelled: LabelledPair, better: float, confidence: float, moved: float) -> Measured:
    """The same limits on what people would find; ``moved`` is what imagined rows add to the difference."""
    limits = []
    for limit in measured.limits:
        ruler, relative = limit.ruler, limit.name == "max_relative_drop"
        before = float(ruler.pairing.baseline.rewards.mean())
        share = (1 - better * limit.relative * math.copysign(1.0, before)) if relative else 1.0
        allowed = 0.0 if relative else ruler.allowed
        found, gone = labelled.difference(better, share), allowed + better * moved
        margin = shifted(replace(found.interval(confidence), n=limit.margin.n), gone)
        limits.append(replace(limit, margin=margin, p_pass=found.p_above(-gone), p_breach=found.p_below(-gone)))
    delta = shifted(labelled.difference().interval(confidence), moved)
    return replace(measured, delta=delta, limits=limits)
