"""One benchmark against its limits: its margins, the two p-values a decision rests on, and the status they give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nemo_evaluator.config.gate_policy import PolicyDefaults
from nemo_evaluator.decisions.calibrate.report import LabelledPair
from nemo_evaluator.decisions.compare.verdict import shifted
from nemo_evaluator.decisions.gate.report import BenchmarkGate, Remedy, Status
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.runs.row_table import Floats, RowTable
from nemo_evaluator.statistics import (
    PLANNED,
    Correction,
    Interval,
    Reading,
    Spending,
    adjust,
    mean_difference,
)


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


@dataclass(frozen=True, slots=True)
class Measured:
    """The difference of one benchmark, the margins to its limits, and what there is to say about them."""

    delta: Interval
    limits: list[Limit]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ruler:
    """How the margin of per-problem gains over ``-allowed`` is measured. ``share`` of the baseline's own rewards is
    part of a gain where the limit is a relative one; or they stand beside it: ``contrast`` is each gain with what may
    be lost of its own problem, whose spread counts as well."""

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
        if self.contrast is None:
            seen = [self.gain]
        else:
            seen = [self.gain, self.contrast]
        return max(float(values.std(ddof=1)) for values in seen)

    @property
    def reach(self) -> float:
        """How far a single gain may lie from zero."""
        return (1 + self.share) * self.pairing.scale

    def limit(self) -> Limit:
        """The margin with the evidence that it is kept, and that it is exceeded."""
        found: Reading = self.pairing.mean_difference(self.gain)
        if self.contrast is not None:
            found = _Weaker(
                found, mean_difference(self.contrast, scale=2 * self.reach), self.allowed
            )
        found = self.spending.reading(
            self.gain, found, reach=self.reach if self.pairing.bounded else math.inf
        )
        interval = replace(
            found.interval(self.confidence), value=float(self.gain.mean()), n=len(self.gain)
        )
        margin = shifted(interval, self.allowed)
        return Limit(
            self.name,
            margin,
            found.p_above(-self.allowed),
            p_breach=found.p_below(-self.allowed),
            ruler=self,
        )


@dataclass(frozen=True, slots=True)
class _Weaker:
    """Two readings of one mean, the other moved up by ``shift``: nothing is sure that is not sure to both."""

    one: Reading
    other: Reading
    shift: float

    def interval(self, confidence: float = 0.95) -> Interval:
        """What either of them leaves open."""
        found = self.one.interval(confidence)
        beside = shifted(self.other.interval(confidence), -self.shift)
        ends = found.lower, beside.lower, found.upper, beside.upper
        if ends[0] is None or ends[1] is None or ends[2] is None or ends[3] is None:
            return replace(found, lower=None, upper=None)
        return replace(found, lower=min(ends[0], ends[1]), upper=max(ends[2], ends[3]))

    def p_above(self, bound: float) -> float:
        return max(self.one.p_above(bound), self.other.p_above(bound + self.shift))

    def p_below(self, bound: float) -> float:
        return max(self.one.p_below(bound), self.other.p_below(bound + self.shift))


def measure(
    pairing: Pairing, limits: PolicyDefaults, *, confidence: float, spending: Spending = PLANNED
) -> Measured:
    """The difference and the margins; ``spending`` tells bounds that allow for looking from those that do not."""
    before = pairing.baseline.rewards
    after = pairing.candidate.rewards
    better = 1.0 if limits.direction == "higher_is_better" else -1.0
    gain = better * (after - before)
    ruler = Ruler(
        "max_drop", gain, limits.max_drop, pairing=pairing, confidence=confidence, spending=spending
    )
    margins = [ruler.limit()]
    notes = []
    if spending.looking and not pairing.bounded:
        notes.append("rewards beyond [0, 1]: no interval holds under repeated looking")
    relative = limits.max_relative_drop
    guard = limits.relative_guard_below
    baseline = float(before.mean())
    if relative is not None and (guard is None or baseline < guard):
        if baseline == 0.0 and better > 0:
            notes.append(
                "max_relative_drop says nothing where the baseline scores 0; max_drop alone decides"
            )
        else:
            limit = _relative(
                ruler, relative * np.copysign(1.0, baseline) * before, relative
            ).limit()
            margins.append(replace(limit, relative=relative))
    return Measured(
        pairing.reading(pairing.differences, spending).interval(confidence), margins, notes
    )


def _relative(ruler: Ruler, allowed: Floats, share: float) -> Ruler:
    """A drop of at most a share of the baseline: gain + ``allowed`` is not negative on average. No division, so nothing
    breaks when the baseline is near zero."""
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


def corrected(
    measured: Measured, labelled: LabelledPair, better: float, confidence: float, moved: float
) -> Measured:
    """The same limits on what people would find; ``moved`` is what imagined rows add to the difference."""
    limits = []
    for limit in measured.limits:
        ruler = limit.ruler
        relative = limit.name == "max_relative_drop"
        before = float(ruler.pairing.baseline.rewards.mean())
        if relative:
            share = 1 - better * limit.relative * math.copysign(1.0, before)
        else:
            share = 1.0
        allowed = 0.0 if relative else ruler.allowed
        found = labelled.difference(better, share)
        gone = allowed + better * moved
        margin = shifted(replace(found.interval(confidence), n=limit.margin.n), gone)
        limits.append(
            replace(
                limit, margin=margin, p_pass=found.p_above(-gone), p_breach=found.p_below(-gone)
            )
        )
    delta = shifted(labelled.difference().interval(confidence), moved)
    return replace(measured, delta=delta, limits=limits)


@dataclass(slots=True)
class Measurement:
    """A benchmark that was measured and waits for its status."""

    entry: BenchmarkGate
    measured: Measured
    pairing: Pairing
    # What keeps a good result from being proof.
    doubts: list[str] = field(default_factory=list)
    rows: tuple[RowTable, RowTable] | None = None
    # Whether people's labels, not the judge alone, say how far the sides are apart.
    labelled: bool = False
    # The same with every missing row counted against the candidate, and in its favour.
    worst: Measured | None = None
    best: Measured | None = None

    @property
    def p_pass(self) -> float:
        """The evidence that every limit is kept, however the missing rows would have scored."""
        return max(
            limit.p_pass for one in (self.measured, self.worst) if one for limit in one.limits
        )

    def p_breach(self, limit: Limit) -> float:
        """The evidence that a limit is exceeded, however the missing rows would have scored."""
        if self.best:
            same: list[Limit] = [other for other in self.best.limits if other.name == limit.name]
        else:
            same = []
        return max(other.p_breach for other in (limit, *same))

    def unproved(self, alpha: float) -> list[Limit]:
        return [limit for limit in self.measured.limits if limit.p_pass > alpha]

    def note_missing(self, lost: tuple[int, int], alpha: float) -> None:
        """What rows that failed could hide: a limit that is kept, or exceeded, only if they are left out."""
        assert self.worst is not None and self.best is not None
        entry = self.entry
        entry.delta_worst_case, entry.delta_best_case = (
            round(x.delta.value, 6) for x in (self.worst, self.best)
        )
        where = f"rows that failed ({lost[0]:,} in the baseline, {lost[1]:,} in the candidate)"
        score = "score them: `nel eval run --resume`"
        if not self.unproved(alpha) and self.p_pass > alpha:
            worst = (
                f"counted against the candidate, the difference is {self.worst.delta.value:+.4f}"
            )
            self.doubts.insert(0, f"{where} could hide more than the limit: {worst}; {score}")
            entry.remedy = Remedy(None, None, f"no failed rows: {score}")
        elif any(limit.p_breach <= alpha < self.p_breach(limit) for limit in self.measured.limits):
            best = (
                f"counted in the candidate's favour, the difference is {self.best.delta.value:+.4f}"
            )
            self.doubts.insert(0, f"{where} could make up for the drop: {best}; {score}")


def settle(found: Sequence[Measurement], *, correction: Correction, alpha: float) -> None:
    """Give every measured benchmark its status; the correction for their number works within each tier."""
    for tier in ("critical", "supporting", "advisory"):
        family = [one for one in found if one.entry.tier == tier]
        # Two limits on one benchmark are two chances to breach.
        p_values: list[float] = []
        for one in family:
            p_values.append(
                min(1.0, min(map(one.p_breach, one.measured.limits)) * len(one.measured.limits))
            )
        for one, adjusted in zip(family, adjust(p_values, correction), strict=True):
            _status(one, adjusted, alpha)


def _status(one: Measurement, p_breach: float, alpha: float) -> None:
    entry = one.entry
    limits = one.measured.limits
    entry.p_pass = one.p_pass
    entry.p_breach = min(map(one.p_breach, limits))
    entry.p_breach_adjusted = p_breach
    if p_breach <= alpha:
        entry.status = Status.BREACH
        broken = [limit for limit in limits if one.p_breach(limit) <= alpha]
        entry.absolute_breached = any(limit.name == "max_drop" for limit in broken)
        entry.relative_breached = any(limit.name == "max_relative_drop" for limit in broken)
        entry.reasons += [
            f"{limit.name} is exceeded beyond doubt, by {-limit.margin.value:.4f}"
            for limit in broken
        ]
        return
    open_limits = one.unproved(alpha)
    entry.reasons += [f"{limit.name} is inconclusive at this confidence" for limit in open_limits]
    entry.reasons += one.doubts
    if open_limits or one.doubts:
        entry.status = Status.INSUFFICIENT
    else:
        entry.status = Status.PASS
