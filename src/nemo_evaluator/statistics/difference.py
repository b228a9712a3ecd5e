"""The paired difference of two means: an interval and one-sided tests that keep their level with few changes."""

import math
from dataclasses import dataclass

import numpy as np

from nemo_evaluator.statistics._scipy import normal_cdf, t_cdf, t_quantile
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.intervals import Interval, cluster_spread, z_quantile


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
        return (self.centre - bound) / self.error

    def bounds(self, quantile: float) -> tuple[float, float]:
        """Lower and upper bound at ``quantile`` standard errors."""
        return self.centre - quantile * self.error, self.centre + quantile * self.error


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
            A negative number if they lie below it in any case, and 0 if that depends on the unknown values.
        """
        above = self.low.at(bound)
        below = self.high.at(bound)
        if above > 0:
            return above
        return min(below, 0.0)

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
        n: Number of problems.
        size: Size of one flip, 1 for single 0/1 answers.
        least: Smallest allowed variance of a difference: the observed variance of repeated answers, else None.
    """

    worse: float
    better: float
    n: int
    size: float = 1.0
    least: float | None = None

    @property
    def mean(self) -> float:
        """The mean difference: better minus worse, per problem."""
        return (self.better - self.worse) * self.size / self.n

    def at(self, bound: float) -> float:
        """The signed statistic: how many standard errors the data lie above ``bound``."""
        distance = self.mean - bound
        if not distance:
            return 0.0
        discordance = self._discordance(bound)
        variance = max(self.size * discordance - bound * bound, self.least or 0.0)
        if variance > 0.0:
            statistic = abs(distance) / math.sqrt(variance / self.n)
        else:
            statistic = math.inf
        if self.least is None:
            statistic = min(statistic, self._likelihood_ratio(bound, discordance))
        return math.copysign(statistic, distance)

    def _discordance(self, bound: float) -> float:
        """The maximum-likelihood share of flips, given that the true difference is ``bound`` (Tango 1998).

        With n places the share of worsenings solves A q² + B q + C = 0, where A = 2n,
        B = -(worse + better) + (2n + worse - better) Δ and C = -worse Δ (1 - Δ).
        """
        places = self.n / self.size
        worse = self.worse
        better = self.better
        same = places - worse - better
        minus_b = worse * (1 - 3 * bound) + better * (1 - bound) - 2 * same * bound
        minus_4ac = 8 * places * worse * bound * (1 - bound)
        discriminant = max(minus_b * minus_b + minus_4ac, 0.0)
        worse_share = (minus_b + math.sqrt(discriminant)) / (4 * places)
        allowed_share = min(max(worse_share, 0.0, -bound), (1 - bound) / 2)
        return 2 * allowed_share + bound

    def _likelihood_ratio(self, bound: float, discordance: float) -> float:
        """The root of the likelihood-ratio statistic: sqrt(2 Σ count · log(count / expected))."""
        same = self.n - self.worse - self.better
        counts = (self.worse, self.better, same)
        shares = ((discordance - bound) / 2, (discordance + bound) / 2, 1 - discordance)
        log_ratio = 0.0
        for count, share in zip(counts, shares, strict=True):
            if count <= 0.0:
                continue
            if share > 0.0:
                log_ratio += count * math.log(count / (self.n * share))
            else:
                log_ratio += math.inf
        return math.sqrt(max(2 * log_ratio, 0.0))

    def bounds(self, quantile: float) -> tuple[float, float]:
        """The differences at which the statistic just reaches ``quantile``."""
        return self._invert(-1.0, quantile), self._invert(1.0, quantile)

    def _invert(self, extreme: float, quantile: float) -> float:
        """The bound between the mean and ``extreme``, by bisection."""
        if abs(self.at(extreme)) <= quantile:
            return extreme
        accepted = self.mean
        rejected = extreme
        for _ in range(50):
            middle = (accepted + rejected) / 2
            if abs(self.at(middle)) <= quantile:
                accepted = middle
            else:
                rejected = middle
        return accepted


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference and the evidence about it.

    Attributes:
        value: The mean difference, in score units.
        evidence: The test statistic, in units of ``scale``; None when nothing is known about the spread.
        df: Degrees of freedom of Student's t; None for the normal distribution.
        method: The name of the method in reports.
        n: Number of independent units (problems or clusters).
        scale: The largest possible difference.
    """

    value: float
    evidence: Centred | Span | Flips | None
    df: float | None
    method: str
    n: int
    scale: float

    def interval(self, confidence: float = 0.95) -> Interval:
        """The two-sided interval; it contains the value and stays within [-scale, scale]."""
        if self.evidence is None:
            return Interval(self.value, None, None, method=self.method, n=self.n)
        if self.df is None:
            quantile = z_quantile(confidence)
        else:
            quantile = t_quantile(0.5 + confidence / 2, self.df)
        unit_lower, unit_upper = self.evidence.bounds(quantile)
        lower = min(self.scale * unit_lower, self.value)
        upper = max(self.scale * unit_upper, self.value)
        return Interval(
            value=self.value,
            lower=max(lower, -self.scale),
            upper=min(upper, self.scale),
            method=self.method,
            n=self.n,
        )

    def p_above(self, bound: float) -> float:
        """One-sided p-value of "the true difference is not above ``bound``"."""
        if self.evidence is None:
            return 1.0
        return self._cdf(-self.evidence.at(bound / self.scale))

    def p_below(self, bound: float) -> float:
        """One-sided p-value of "the true difference is not below ``bound``"."""
        if self.evidence is None:
            return 1.0
        return self._cdf(self.evidence.at(bound / self.scale))

    def _cdf(self, statistic: float) -> float:
        if self.df is None:
            return float(normal_cdf(statistic))
        return t_cdf(statistic, self.df)


def mean_difference(
    differences: Floats, *, bounded: bool = False, scale: float = 1.0, clusters: Ints | None = None
) -> Difference:
    """The mean of per-problem differences and the evidence about it.

    Ten equal differences do not prove that the eleventh is equal too: without any spread, differences count as whole
    flips.

    Args:
        differences: Candidate minus baseline, one per problem, between -``scale`` and ``scale``.
        bounded: Whether ``scale`` is a true limit, as for rewards in [0, 1]. A loss that has not been observed yet then
            has a known largest size, which ``Flips`` allows for. Otherwise Student's t is used.
        scale: The largest possible difference.
        clusters: Problems that belong together; None when they are independent.
    """
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    if n == 0:
        return Difference(math.nan, None, None, method="none", n=0, scale=scale)
    mean = float(values.mean())
    if clusters is not None:
        spread = cluster_spread(values / scale, clusters)
        if spread.df >= 1 and spread.variance > 0:
            return Difference(
                value=mean,
                evidence=Centred(mean / scale, math.sqrt(spread.variance)),
                df=spread.df,
                method="paired_cluster_t",
                n=spread.df + 1,
                scale=scale,
            )
    if np.ptp(values) == 0.0:
        gain = n * mean / scale
        flips = Flips(worse=max(-gain, 0.0), better=max(gain, 0.0), n=n)
        return Difference(mean, flips, None, method="flips", n=n, scale=scale)
    if bounded:
        return _flip_difference(values / scale, mean, scale)
    error = float(values.std(ddof=1)) / math.sqrt(n) / scale
    evidence = Centred(mean / scale, error)
    return Difference(mean, evidence, n - 1, method="paired_t", n=n, scale=scale)


def _flip_difference(unit_differences: Floats, mean: float, scale: float) -> Difference:
    """The difference of bounded rewards; ``unit_differences`` lie between -1 and 1."""
    n = len(unit_differences)
    sizes = np.abs(unit_differences)
    total_size = float(sizes.sum())
    gain = float(unit_differences.sum())
    flip_size = float((unit_differences * unit_differences).sum()) / total_size
    worse = (total_size - gain) / 2 / flip_size
    better = (total_size + gain) / 2 / flip_size
    single_answers = bool(((sizes == 0.0) | (sizes == 1.0)).all())
    least: float | None = None
    df: int | None = None
    if not single_answers:
        # The observed variance of mean rewards counts too. Both ends of its range are known, so it is known about
        # twice as well as a free one.
        least = float(unit_differences.var())
        df = 2 * (n - 1)
    flips = Flips(worse, better, n, size=flip_size, least=least)
    return Difference(mean, flips, df, method="flips", n=n, scale=scale)


def unpaired_difference(
    baseline: Floats, candidate: Floats, *, confidence: float = 0.95
) -> Interval:
    """Welch's interval of candidate minus baseline, for problems that do not pair.

    The degrees of freedom are Welch and Satterthwaite's. Without bounds when neither side has any spread.
    """
    first = np.asarray(baseline, dtype=np.float64)
    second = np.asarray(candidate, dtype=np.float64)
    n1 = len(first)
    n2 = len(second)
    if n1 < 2 or n2 < 2:
        return Interval(math.nan, None, None, method="welch", n=0)
    value = float(second.mean() - first.mean())
    # Squared standard errors of the two means.
    v1 = float(first.var(ddof=1)) / n1
    v2 = float(second.var(ddof=1)) / n2
    variance = v1 + v2
    if variance == 0.0:
        return Interval(value, None, None, method="welch", n=n1 + n2)
    df = variance**2 / (v1**2 / (n1 - 1) + v2**2 / (n2 - 1))
    half = t_quantile(0.5 + confidence / 2, df) * math.sqrt(variance)
    return Interval(value, value - half, value + half, method="welch", n=n1 + n2)
