"""Evidence about a mean difference: by how many standard errors the data lie above a bound."""

import math
from dataclasses import dataclass
from typing import Final

_BISECTION_STEPS: Final = 50


@dataclass(frozen=True, slots=True)
class Centred:
    """Evidence about a mean by a Wald statistic: an estimate and its standard error.

    Attributes:
        centre: The estimate.
        error: Its standard error.
    """

    centre: float
    error: float

    def at(self, bound: float) -> float:
        """The statistic (centre - bound) / error: how many standard errors the data lie above ``bound``."""
        distance = self.centre - bound
        return distance / self.error

    def bounds(self, quantile: float) -> tuple[float, float]:
        """Lower and upper bound at ``quantile`` standard errors."""
        half_width = quantile * self.error
        return self.centre - half_width, self.centre + half_width


@dataclass(frozen=True, slots=True)
class Span:
    """Evidence about a mean of which some values are unknown: it is between the means of two completions.

    Attributes:
        low: The evidence when each unknown value is the one that lowers the mean most.
        high: The evidence when each is the one that raises it most.
    """

    low: Centred
    high: Centred

    def at(self, bound: float) -> float:
        """How many standard errors the data lie above ``bound``, whatever the unknown values are.

        Returns:
            A positive number if they lie above it in any case, a negative one if they lie below it in any case, and 0
            if that depends on the unknown values.
        """
        lowest = self.low.at(bound)
        highest = self.high.at(bound)
        if lowest > 0:
            return lowest
        return min(highest, 0.0)

    def bounds(self, quantile: float) -> tuple[float, float]:
        """The lower bound of the lowest completion and the upper bound of the highest one."""
        lower, _ = self.low.bounds(quantile)
        _, upper = self.high.bounds(quantile)
        return lower, upper


@dataclass(frozen=True, slots=True)
class Flips:
    """Evidence from problems that flip: Tango's score (1998) or the signed root of the likelihood ratio, whichever is
    weaker.

    Both ask how likely the data are if the bound were true. So both know that no flip among sixty problems does not
    prove a drop under five points. The score is too sure when many flips occur where few are expected, the ratio when
    few occur where many are expected. The weaker of the two keeps its level far into the tails.

    Means of repeated answers differ by less than a whole point. They count as flips of their usual ``size`` among
    n / size places, which keeps mean and variance as they are; then the score decides alone.

    Attributes:
        worse: Flips from right to wrong (Tango's c).
        better: Flips from wrong to right (Tango's b).
        n: Number of problems; may be an effective number.
        size: Size of one flip, 1 for single 0/1 answers.
        least: Smallest allowed variance of a difference: the observed variance of repeated answers, else None.
    """

    worse: float
    better: float
    n: float
    size: float = 1.0
    least: float | None = None

    @property
    def mean(self) -> float:
        """The mean difference: better minus worse, per problem."""
        net_flips = self.better - self.worse
        return net_flips * self.size / self.n

    def at(self, bound: float) -> float:
        """The signed statistic: how many standard errors the data lie above ``bound``."""
        distance = self.mean - bound
        if not distance:
            return 0.0
        discordance = self._discordance(bound)
        statistic = self._score(abs(distance), bound, discordance)
        if self.least is None:
            likelihood_ratio = self._likelihood_ratio(bound, discordance)
            statistic = min(statistic, likelihood_ratio)
        return math.copysign(statistic, distance)

    def _score(self, distance: float, bound: float, discordance: float) -> float:
        """Tango's score: the distance over its standard error if the true difference were ``bound``.

        Args:
            distance: The size of the mean minus ``bound``.
            bound: The assumed true difference.
            discordance: The share of flips under that assumption.

        Returns:
            The score; infinite when the assumption leaves no variance.
        """
        second_moment = self.size * discordance
        variance = max(second_moment - bound * bound, self.least or 0.0)
        if variance <= 0.0:
            return math.inf
        standard_error = math.sqrt(variance / self.n)
        return distance / standard_error

    def _discordance(self, bound: float) -> float:
        """The maximum-likelihood share of flips, given that the true difference is ``bound`` (Tango 1998).

        With n places the share q of worsenings solves A q² + B q + C = 0, where A = 2n,
        B = -(worse + better) + (2n + worse - better) Δ and C = -worse Δ (1 - Δ); so q = (-B + sqrt(B² - 4AC)) / 2A.
        """
        places = self.n / self.size
        same = places - self.worse - self.better
        minus_b = self.worse * (1 - 3 * bound) + self.better * (1 - bound) - 2 * same * bound
        minus_4ac = 8 * places * self.worse * bound * (1 - bound)
        discriminant = max(minus_b * minus_b + minus_4ac, 0.0)
        worse_share = (minus_b + math.sqrt(discriminant)) / (4 * places)
        # Neither share may be negative, and together they are at most 1.
        least_share = max(0.0, -bound)
        largest_share = (1 - bound) / 2
        worse_share = min(max(worse_share, least_share), largest_share)
        # The share of improvements is that of worsenings plus the bound.
        return 2 * worse_share + bound

    def _likelihood_ratio(self, bound: float, discordance: float) -> float:
        """The root of the likelihood-ratio statistic: sqrt(2 Σ count · log(count / expected)).

        Args:
            bound: The assumed true difference.
            discordance: The share of flips under that assumption.
        """
        same = self.n - self.worse - self.better
        worse_share = (discordance - bound) / 2
        better_share = (discordance + bound) / 2
        same_share = 1 - discordance
        log_ratio = (
            self._log_ratio(self.worse, worse_share)
            + self._log_ratio(self.better, better_share)
            + self._log_ratio(same, same_share)
        )
        return math.sqrt(max(2 * log_ratio, 0.0))

    def _log_ratio(self, count: float, share: float) -> float:
        """One term of the likelihood ratio: a count of problems against their expected share."""
        if count <= 0.0:
            return 0.0
        if share <= 0.0:
            return math.inf
        expected = self.n * share
        return count * math.log(count / expected)

    def bounds(self, quantile: float) -> tuple[float, float]:
        """The differences at which the statistic just reaches ``quantile``."""
        lower = self._invert(-1.0, quantile)
        upper = self._invert(1.0, quantile)
        return lower, upper

    def _invert(self, extreme: float, quantile: float) -> float:
        """The bound between the mean and ``extreme``, by bisection.

        Args:
            extreme: The end of the range at which the statistic is largest.
            quantile: The largest statistic that the bound may have.
        """
        if abs(self.at(extreme)) <= quantile:
            return extreme
        accepted = self.mean
        rejected = extreme
        for _ in range(_BISECTION_STEPS):
            middle = (accepted + rejected) / 2
            if abs(self.at(middle)) <= quantile:
                accepted = middle
            else:
                rejected = middle
        return accepted
