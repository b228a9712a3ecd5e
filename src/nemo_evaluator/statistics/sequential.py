"""A confidence sequence for a mean: an interval that stays valid however often one looks at the data.

The bounds come from betting against each possible mean (Waudby-Smith and Ramdas 2024, "Estimating means of bounded
random variables by betting", JRSS B 86). A gambler stakes a share u of the capital on "the mean is above m". If that is
false, the capital reaches 2/α times its start with probability α/2 at most (Ville's inequality). A mixture over several
shares fits effects of any size. The capital is monotone in m, so the bound is found by bisection.
"""

import math
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nemo_evaluator.statistics.groups import Floats
from nemo_evaluator.statistics.intervals import Interval

Counts: TypeAlias = NDArray[np.int64]
# Values are counted in bins. A value between two bins is rounded to the unfavourable one, so the bounds stay valid.
_BINS: Final = 4800
_GRID: Final = np.arange(_BINS + 1) / _BINS
# A value this close to a bin (in bins) is in it; values this far outside the range are rounding errors.
_BIN_ROUNDING: Final = 1e-7
_RANGE_ROUNDING: Final = 1e-9
# The mixture: the shares that are staked, and the part of the capital that starts with each of them. Larger shares
# start with more. They decide early, with hundreds of problems.
SHARES: Final = np.geomspace(0.004, 0.8, 11)
_WEIGHTS: Final = np.sqrt(SHARES)
LOG_WEIGHTS: Final = np.log(_WEIGHTS / _WEIGHTS.sum())
_BISECTION_STEPS: Final = 40


class MeanSequence:
    """An anytime-valid interval for the mean of values in [low, high]; values are added one or many at a time.

    Attributes:
        low: The smallest possible value.
        high: The largest possible value.
        confidence: The confidence level.
        n: Number of values.
        known: Number of values that are known exactly; see ``add_between``.
    """

    def __init__(self, *, low: float = 0.0, high: float = 1.0, confidence: float = 0.95) -> None:
        self.low = low
        self.high = high
        self.confidence = confidence
        self.n = 0
        self.known = 0
        # The sum of the known values.
        self._total = 0.0
        # The number of values in each bin, rounded down (for the lower bound) and up (for the upper bound).
        self._floor = _empty_bins()
        self._ceil = _empty_bins()

    def add(self, values: float | Iterable[float] | Floats) -> None:
        """Add values that are known exactly.

        Args:
            values: One value, or several.

        Raises:
            ValueError: A value is outside [low, high].
        """
        data = np.atleast_1d(np.asarray(values, dtype=np.float64))
        if len(data) == 0:
            return
        unit_values = (data - self.low) / (self.high - self.low)
        self._check_range(float(unit_values.min()), float(unit_values.max()))
        places = np.clip(unit_values, 0.0, 1.0) * _BINS
        lower_bins = np.floor(places + _BIN_ROUNDING).astype(np.int64)
        upper_bins = np.ceil(places - _BIN_ROUNDING).astype(np.int64)
        self._floor += np.bincount(lower_bins, minlength=_BINS + 1)
        self._ceil += np.bincount(upper_bins, minlength=_BINS + 1)
        self.n += len(data)
        self.known += len(data)
        self._total += float(data.sum())

    def add_between(self, low: float, high: float) -> None:
        """Add one value that is known only up to a range; each bound uses the unfavourable end of the range.

        Args:
            low: The smallest value that it can have.
            high: The largest value that it can have; equal to ``low`` for a known value.

        Raises:
            ValueError: The range is not inside that of the sequence.
        """
        unit_low = self._unit(low)
        unit_high = self._unit(high)
        self._check_range(unit_low, unit_high)
        lower_bin = math.floor(unit_low * _BINS + _BIN_ROUNDING)
        upper_bin = math.ceil(unit_high * _BINS - _BIN_ROUNDING)
        self._floor[max(0, lower_bin)] += 1
        self._ceil[min(_BINS, upper_bin)] += 1
        self.n += 1
        if low == high:
            self.known += 1
            self._total += low

    def _check_range(self, unit_low: float, unit_high: float) -> None:
        """Check that values from ``unit_low`` to ``unit_high``, on the scale of ``_unit``, can occur.

        Raises:
            ValueError: The range is not inside that of the sequence.
        """
        lowest_allowed = -_RANGE_ROUNDING
        highest_allowed = 1 + _RANGE_ROUNDING
        if not lowest_allowed <= unit_low <= unit_high <= highest_allowed:
            raise ValueError(f"a value outside [{self.low}, {self.high}]")

    @property
    def mean(self) -> float:
        """The mean of the known values so far; NaN without any."""
        if not self.known:
            return math.nan
        return self._total / self.known

    def p_above(self, value: float) -> float:
        """Anytime-valid one-sided p-value of "the true mean is not above ``value``": one over the capital."""
        log_wealth = self._wealth_above(self._unit(value))
        return _p_value(log_wealth)

    def p_below(self, value: float) -> float:
        """Anytime-valid one-sided p-value of "the true mean is not below ``value``": one over the capital."""
        log_wealth = self._wealth_below(self._unit(value))
        return _p_value(log_wealth)

    def above(self, value: float) -> bool:
        """Whether the data prove that the true mean is above ``value``, however often one looks."""
        one_sided_level = (1 - self.confidence) / 2
        return self.p_above(value) <= one_sided_level

    def below(self, value: float) -> bool:
        """Whether the data prove that the true mean is below ``value``, however often one looks."""
        one_sided_level = (1 - self.confidence) / 2
        return self.p_below(value) <= one_sided_level

    def _unit(self, value: float) -> float:
        """``value`` on the scale from 0 (low) to 1 (high)."""
        return (value - self.low) / (self.high - self.low)

    def interval(self, confidence: float | None = None) -> Interval:
        """The interval so far: the means that no bet has refuted.

        Args:
            confidence: Confidence level; None uses that of the sequence.

        Returns:
            The interval; from ``low`` to ``high`` before the first value.
        """
        if not self.n:
            return Interval(math.nan, lower=self.low, upper=self.high, method="betting", n=0)
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
        observed_low = float(self._floor @ _GRID) / self.n
        observed_high = float(self._ceil @ _GRID) / self.n
        unit_lower = _boundary(proved_above, extreme=0.0, observed=observed_low)
        unit_upper = _boundary(proved_below, extreme=1.0, observed=observed_high)
        span = self.high - self.low
        return Interval(
            value=self.mean,
            lower=self.low + span * unit_lower,
            upper=self.low + span * unit_upper,
            method="betting",
            n=self.n,
        )

    def _wealth_above(self, unit_mean: float) -> float:
        """Log of the capital after betting that the mean is above ``unit_mean``."""
        return _log_wealth(self._floor, _GRID, unit_mean)

    def _wealth_below(self, unit_mean: float) -> float:
        """Log of the capital after betting that the mean is below ``unit_mean``: the bet above, on mirrored values."""
        return _log_wealth(self._ceil, 1 - _GRID, 1 - unit_mean)


def _empty_bins() -> Counts:
    return np.zeros(_BINS + 1, dtype=np.int64)


def _p_value(log_wealth: float) -> float:
    """The p-value of a bet that multiplied its capital by exp(``log_wealth``); a bet that lost proves nothing."""
    gain = max(0.0, log_wealth)
    return math.exp(-gain)


def _log_wealth(counts: Counts, values: Floats, mean: float) -> float:
    """Log of the capital after betting that the true mean is above ``mean``.

    It is log Σ_u w_u Π_x (1 + u (x / m - 1)), with the values x, the mean m and the weight w_u of each share u.

    Args:
        counts: How many values are in each bin.
        values: The value x of each bin.
        mean: The mean m that is bet against.
    """
    if mean <= 0.0:
        any_positive = bool((counts[values > 0] > 0).any())
        return math.inf if any_positive else 0.0
    if mean > 1.0:
        return 0.0
    bins = np.flatnonzero(counts)
    returns = values[bins] / mean - 1
    # One row for each share, one column for each bin.
    log_growth = np.log1p(np.outer(SHARES, returns))
    log_wealths = log_growth @ counts[bins] + LOG_WEIGHTS
    # log-sum-exp: the largest term is taken out, so that nothing overflows.
    largest = float(log_wealths.max())
    relative_wealths = np.exp(log_wealths - largest)
    return largest + math.log(float(relative_wealths.sum()))


def _boundary(rejects: Callable[[float], bool], *, extreme: float, observed: float) -> float:
    """Find the boundary between rejected and accepted means by bisection.

    Args:
        rejects: Whether a mean is rejected.
        extreme: The end of the range at which means may be rejected.
        observed: The observed mean, which is accepted.

    Returns:
        The last rejected mean; ``extreme`` when no mean is rejected.
    """
    if not rejects(extreme):
        return extreme
    rejected = extreme
    accepted = observed
    for _ in range(_BISECTION_STEPS):
        middle = (rejected + accepted) / 2
        if rejects(middle):
            rejected = middle
        else:
            accepted = middle
    return rejected
