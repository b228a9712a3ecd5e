"""One benchmark against its limits: damage, its interval, and the two p-values a decision rests on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nemo_evaluator.config.gate_policy import PolicyDefaults
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.decisions.rows import Floats
from nemo_evaluator.metrics import Interval, MeanSequence, mean_difference


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: the paired margin to it (above 0 is good), its interval, and the evidence either way."""

    name: str
    margin: Interval
    p_pass: float
    p_breach: float
    values: Floats

    def holds(self, alpha: float) -> bool:
        """Whether the limit is surely kept."""
        return self.p_pass <= alpha


@dataclass(frozen=True, slots=True)
class Measured:
    """The difference of one benchmark and the margins to its limits."""

    delta: Interval
    limits: list[Limit]


def measure(pairing: Pairing, limits: PolicyDefaults, *, confidence: float, sequential: bool) -> Measured:
    """The difference and the margins; ``sequential`` takes bounds that hold under repeated looking."""
    before, after = pairing.baseline.rewards, pairing.candidate.rewards
    better = 1.0 if limits.direction == "higher_is_better" else -1.0
    gain = better * (after - before)
    scale = pairing.scale
    how = _How(pairing.lattice, scale, confidence, sequential)
    margins = [_limit("max_drop", gain, limits.max_drop, how)]
    relative = limits.max_relative_drop
    if relative is not None and _guarded(before, limits):
        # A drop of at most r of the baseline: candidate - (1 - r) x baseline is not negative on average. No division,
        # so the interval is exact even when the baseline is near zero.
        contrast = gain + relative * np.abs(before)
        # A problem that flips moves this margin by a whole point, however small the other margins are.
        wider = replace(how, scale=scale * (1 + relative))
        margins.append(_limit("max_relative_drop", contrast, 0.0, wider, made_up=scale))
    found = mean_difference(after - before, lattice=pairing.lattice, scale=scale)
    delta = found.interval(confidence)
    if sequential:
        delta = _sequence(after - before, scale, confidence).interval()
    return Measured(delta, margins)


@dataclass(frozen=True, slots=True)
class _How:
    lattice: bool
    scale: float
    confidence: float
    sequential: bool


def _limit(name: str, gain: Floats, allowed: float, how: _How, made_up: float | None = None) -> Limit:
    """The margin of ``gain`` over ``-allowed``."""
    if how.sequential:
        sequence = _sequence(gain, how.scale, how.confidence)
        margin = _shift(sequence.interval(), allowed)
        return Limit(name, margin, sequence.p_above(-allowed), sequence.p_below(-allowed), gain)
    found = mean_difference(gain, lattice=how.lattice, scale=how.scale, made_up=made_up)
    margin = _shift(found.interval(how.confidence), allowed)
    return Limit(name, margin, found.p_above(-allowed), found.p_below(-allowed), gain)


def _shift(interval: Interval, by: float) -> Interval:
    lower = None if interval.lower is None else interval.lower + by
    upper = None if interval.upper is None else interval.upper + by
    return Interval(interval.value + by, lower, upper, interval.method, interval.n)


def _sequence(values: Floats, scale: float, confidence: float) -> MeanSequence:
    sequence = MeanSequence(low=-scale, high=scale, confidence=confidence)
    sequence.add(values)
    return sequence


def _guarded(before: Floats, limits: PolicyDefaults) -> bool:
    return limits.relative_guard_below is None or float(before.mean()) < limits.relative_guard_below
