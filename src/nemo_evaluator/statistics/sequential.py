"""A confidence sequence for a mean: an interval that stays valid however often one looks at the data.

The bounds come from betting against each possible mean (Waudby-Smith and Ramdas 2024, JRSS B). A gambler stakes a share
u of the capital on "the mean is above m". If that is false, the capital reaches 2/α times its start with probability
α/2 at most (Ville's inequality). A mixture over several shares fits effects of any size. The capital is monotone in m,
so the bound is found by bisection.
"""

import math
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from nemo_evaluator.statistics.groups import Floats
from nemo_evaluator.statistics.intervals import Interval

# Values are counted in bins. A value between two bins is rounded to the unfavourable one, so the bounds stay valid.
_BINS: Final = 4800
_GRID: Final = np.arange(_BINS + 1) / _BINS
# A value this close to a bin (in bins) is in it; values this far outside the range are rounding errors.
_BIN_ROUNDING: Final = 1e-7
_RANGE_ROUNDING: Final = 1e-9
# The mixture: larger stakes get more of the capital. They decide early, with hundreds of problems.
SHARES: Final = np.geomspace(0.004, 0.8, 11)
LOG_WEIGHTS: Final = np.log(np.sqrt(SHARES) / np.sqrt(SHARES).sum())


class MeanSequence:
    """An anytime-valid interval for the mean of values in [low, high]; values are added one or many at a time.

    Attributes:
        n: Number of values.
        known: Number of values that are known exactly; see ``add_between``.
    """

    def __init__(self, *, low: float = 0.0, high: float = 1.0, confidence: float = 0.95) -> None:
        self.low = low
        self.high = high
        self.confidence = confidence
        self.n = 0
        self.known = 0
        self._total = 0.0
        # Counts of the values rounded down (for the lower bound) and up (for the upper bound).
        self._floor = np.zeros(_BINS + 1, dtype=np.int64)
        self._ceil = np.zeros(_BINS + 1, dtype=np.int64)

    def add(self, values: float | Iterable[float] | Floats) -> None:
        """Add values.

        Raises:
            ValueError: A value is outside [low, high].
        """
        data = np.atleast_1d(np.asarray(values, dtype=np.float64))
        unit = (data - self.low) / (self.high - self.low)
        if len(unit):
            inside = unit.min() >= -_RANGE_ROUNDING and unit.max() <= 1 + _RANGE_ROUNDING
            if not inside:
                raise ValueError(f"a value outside [{self.low}, {self.high}]")
        scaled = np.clip(unit, 0.0, 1.0) * _BINS
        rounded_down = np.floor(scaled + _BIN_ROUNDING).astype(np.int64)
        rounded_up = np.ceil(scaled - _BIN_ROUNDING).astype(np.int64)
        self._floor += np.bincount(rounded_down, minlength=_BINS + 1)
        self._ceil += np.bincount(rounded_up, minlength=_BINS + 1)
        self.n += len(data)
        self.known += len(data)
        self._total += float(data.sum())

    def add_between(self, low: float, high: float) -> None:
        """Add one value that is known only up to a range; each bound uses the unfavourable end of the range.

        Raises:
            ValueError: The range is not inside that of the sequence.
        """
        unit_low = self._unit(low)
        unit_high = self._unit(high)
        if not -_RANGE_ROUNDING <= unit_low <= unit_high <= 1 + _RANGE_ROUNDING:
            raise ValueError(f"a value outside [{self.low}, {self.high}]")
        rounded_down = math.floor(unit_low * _BINS + _BIN_ROUNDING)
        rounded_up = math.ceil(unit_high * _BINS - _BIN_ROUNDING)
        self._floor[max(0, rounded_down)] += 1
        self._ceil[min(_BINS, rounded_up)] += 1
        self.n += 1
        if low == high:
            self.known += 1
            self._total += low

    @property
    def mean(self) -> float:
        """The mean of the known values so far."""
        return self._total / self.known if self.known else math.nan

    def p_above(self, value: float) -> float:
        """Anytime-valid one-sided p-value of "the true mean is not above ``value``": one over the capital."""
        log_wealth = self._wealth_above(self._unit(value))
        return math.exp(-max(0.0, log_wealth))

    def p_below(self, value: float) -> float:
        """Anytime-valid one-sided p-value of "the true mean is not below ``value``"."""
        log_wealth = self._wealth_below(self._unit(value))
        return math.exp(-max(0.0, log_wealth))

    def above(self, value: float) -> bool:
        """Whether the data prove that the true mean is above ``value``, however often one looks."""
        return self.p_above(value) <= (1 - self.confidence) / 2

    def below(self, value: float) -> bool:
        """Whether the data prove that the true mean is below ``value``."""
        return self.p_below(value) <= (1 - self.confidence) / 2

    def _unit(self, value: float) -> float:
        """``value`` on the scale from 0 (low) to 1 (high)."""
        return (value - self.low) / (self.high - self.low)

    def interval(self, confidence: float | None = None) -> Interval:
        """The interval so far.

        Args:
            confidence: Confidence level; None uses that of the sequence.
        """
        n = self.n
        if not n:
            return Interval(math.nan, self.low, self.high, method="betting", n=0)
        if confidence is None:
            confidence = self.confidence
        needed_wealth = math.log(2 / (1 - confidence))

        def proved_above(mean: float) -> bool:
            """Whether the data prove that the true mean is above ``mean``."""
            return self._wealth_above(mean) >= needed_wealth

        def proved_below(mean: float) -> bool:
            """Whether the data prove that the true mean is below ``mean``."""
            return self._wealth_below(mean) >= needed_wealth

        # No bet wins against the observed mean, so the bounds lie on either side of it.
        observed_low = float(self._floor @ _GRID) / n
        observed_high = float(self._ceil @ _GRID) / n
        unit_lower = _boundary(proved_above, 0.0, observed_low)
        unit_upper = _boundary(proved_below, 1.0, observed_high)
        span = self.high - self.low
        lower = self.low + span * unit_lower
        upper = self.low + span * unit_upper
        return Interval(self.mean, lower, upper, method="betting", n=n)

    def _wealth_above(self, m: float) -> float:
        """Log of the capital after betting that the mean is above ``m``."""
        return _log_wealth(self._floor, _GRID, m)

    def _wealth_below(self, m: float) -> float:
        """Log of the capital after betting that the mean is below ``m``."""
        return _log_wealth(self._ceil, 1 - _GRID, 1 - m)


def _log_wealth(counts: np.ndarray, values: Floats, m: float) -> float:
    """Log of the capital after betting that the mean is above ``m``: log Σ_u w_u Π (1 + u (x / m - 1)).

    Args:
        counts: How many values are in each bin.
        values: The value x of each bin.
        m: The mean that is bet against.
    """
    if m <= 0.0:
        positive_values = bool((counts[values > 0] > 0).any())
        return math.inf if positive_values else 0.0
    if m > 1.0:
        return 0.0
    bins = np.flatnonzero(counts)
    returns = values[bins] / m - 1
    log_wealths = np.log1p(np.outer(SHARES, returns)) @ counts[bins] + LOG_WEIGHTS
    # log-sum-exp: the largest term is taken out, so that nothing overflows.
    largest = float(log_wealths.max())
    return largest + math.log(float(np.exp(log_wealths - largest).sum()))


def _boundary(rejects: Callable[[float], bool], extreme: float, observed: float) -> float:
    """The boundary between rejected means (from ``extreme``) and accepted ones (towards ``observed``), by bisection."""
    if not rejects(extreme):
        return extreme
    rejected = extreme
    accepted = observed
    for _ in range(40):
        middle = (rejected + accepted) / 2
        if rejects(middle):
            rejected = middle
        else:
            accepted = middle
    return rejected
