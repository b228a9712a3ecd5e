"""Looking as often as one likes: a confidence sequence for a mean. The bounds come from bets against each possible mean
(Waudby-Smith and Ramdas 2024): a gambler who stakes a share u of his money on "the mean is above m" can multiply it by
2/alpha, ever, with probability alpha/2 at most when it is not. A mixture over shares makes the bet fit effects of any
size, and wealth is monotone in m, so the bound is a root."""

import math
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from nemo_evaluator.statistics.groups import Floats
from nemo_evaluator.statistics.intervals import Interval

# Values are counted in bins; a value between two is rounded against us on both sides, so the bounds stay valid.
_BINS: Final = 4800
_GRID: Final = np.arange(_BINS + 1) / _BINS
# Larger stakes get more of the money: they win the comparisons that can be won early, with hundreds of problems.
SHARES: Final = np.geomspace(0.004, 0.8, 11)
LOG_WEIGHTS: Final = np.log(np.sqrt(SHARES) / np.sqrt(SHARES).sum())


class MeanSequence:
    """An anytime-valid interval for the mean of values in [low, high], fed one value or many at a time."""

    def __init__(self, *, low: float = 0.0, high: float = 1.0, confidence: float = 0.95) -> None:
        self.low = low
        self.high = high
        self.confidence = confidence
        # All values, and those of them that are known exactly.
        self.n = self.known = 0
        self._total = 0.0
        self._floor = np.zeros(_BINS + 1, dtype=np.int64)
        self._ceil = np.zeros(_BINS + 1, dtype=np.int64)

    def add(self, values: float | Iterable[float] | Floats) -> None:
        """Take further values; one outside the range is an error."""
        data = np.atleast_1d(np.asarray(values, dtype=np.float64))
        unit = (data - self.low) / (self.high - self.low)
        if len(unit) and not (unit.min() >= -1e-9 and unit.max() <= 1 + 1e-9):
            raise ValueError(f"a value outside [{self.low}, {self.high}]")
        scaled = np.clip(unit, 0.0, 1.0) * _BINS
        self._floor += np.bincount(np.floor(scaled + 1e-7).astype(np.int64), minlength=_BINS + 1)
        self._ceil += np.bincount(np.ceil(scaled - 1e-7).astype(np.int64), minlength=_BINS + 1)
        self.n += len(data)
        self.known += len(data)
        self._total += float(data.sum())

    def add_between(self, low: float, high: float) -> None:
        """Take one value of which only a range is known: for either bound it counts as the worst it can be."""
        least = self._unit(low)
        most = self._unit(high)
        if not -1e-9 <= least <= most <= 1 + 1e-9:
            raise ValueError(f"a value outside [{self.low}, {self.high}]")
        self._floor[max(0, math.floor(least * _BINS + 1e-7))] += 1
        self._ceil[min(_BINS, math.ceil(most * _BINS - 1e-7))] += 1
        self.n += 1
        if low == high:
            self.known += 1
            self._total += low

    @property
    def mean(self) -> float:
        """The mean of the known values so far."""
        return self._total / self.known if self.known else math.nan

    def p_above(self, value: float) -> float:
        """Anytime-valid one-sided p-value of "the true mean is not above ``value``": one over the wealth."""
        return math.exp(-max(0.0, self._wealth_above(self._unit(value))))

    def p_below(self, value: float) -> float:
        """Anytime-valid one-sided p-value of "the true mean is not below ``value``"."""
        return math.exp(-max(0.0, self._wealth_below(self._unit(value))))

    def above(self, value: float) -> bool:
        """Whether the true mean is proved to be above ``value``, now and under any peeking."""
        return self.p_above(value) <= (1 - self.confidence) / 2

    def below(self, value: float) -> bool:
        """Whether the true mean is proved to be below ``value``."""
        return self.p_below(value) <= (1 - self.confidence) / 2

    def _unit(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def interval(self, confidence: float | None = None) -> Interval:
        """The bounds so far, at the sequence's own confidence or another."""
        n = self.n
        span = self.high - self.low
        if not n:
            return Interval(math.nan, self.low, self.high, method="betting", n=0)
        goal = math.log(2 / (1 - (self.confidence if confidence is None else confidence)))
        # No bet is won against the mean that was seen, so the bounds lie on either side of it.
        lower = _edge(lambda m: self._wealth_above(m) >= goal, 0.0, float(self._floor @ _GRID) / n)
        upper = _edge(lambda m: self._wealth_below(m) >= goal, 1.0, float(self._ceil @ _GRID) / n)
        return Interval(
            self.mean, self.low + span * lower, self.low + span * upper, method="betting", n=n
        )

    def _wealth_above(self, m: float) -> float:
        return _log_wealth(self._floor, _GRID, m)

    def _wealth_below(self, m: float) -> float:
        return _log_wealth(self._ceil, 1 - _GRID, 1 - m)


def _log_wealth(counts: np.ndarray, values: Floats, m: float) -> float:
    """Log of the mixed wealth of bets that the mean of ``values`` (in bins of ``counts``) is above ``m``."""
    if m <= 0.0:
        if bool((counts[values > 0] > 0).any()):
            return math.inf
        return 0.0
    if m > 1.0:
        return 0.0
    bins = np.flatnonzero(counts)
    gains = np.log1p(np.outer(SHARES, values[bins] / m - 1)) @ counts[bins] + LOG_WEIGHTS
    top = float(gains.max())
    return top + math.log(float(np.exp(gains - top).sum()))


def _edge(rejects: Callable[[float], bool], far: float, near: float) -> float:
    """The border between rejected means (from ``far``) and kept ones (towards ``near``)."""
    if not rejects(far):
        return far
    low = far
    high = near
    for _ in range(40):
        middle = (low + high) / 2
        if rejects(middle):
            low = middle
        else:
            high = middle
    return low
