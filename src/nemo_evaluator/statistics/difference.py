"""The paired difference of two means: an interval and one-sided tests that keep their level with few changes."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from nemo_evaluator.statistics._scipy import normal_cdf, t_cdf, t_quantile
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.intervals import Interval, cluster_spread, z_quantile

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
            return Interval.without_bounds(self.value, method=self.method, n=self.n)
        unit_lower, unit_upper = self.evidence.bounds(self._quantile(confidence))
        lower = min(self.scale * unit_lower, self.value)
        upper = max(self.scale * unit_upper, self.value)
        return Interval(
            value=self.value,
            lower=max(lower, -self.scale),
            upper=min(upper, self.scale),
            method=self.method,
            n=self.n,
        )

    def _quantile(self, confidence: float) -> float:
        """The two-sided quantile of the statistic's distribution."""
        if self.df is None:
            return z_quantile(confidence)
        return t_quantile(0.5 + confidence / 2, self.df)

    def p_above(self, bound: float) -> float:
        """One-sided p-value of "the true difference is not above ``bound``"."""
        if self.evidence is None:
            return 1.0
        statistic = self.evidence.at(bound / self.scale)
        return self._cdf(-statistic)

    def p_below(self, bound: float) -> float:
        """One-sided p-value of "the true difference is not below ``bound``"."""
        if self.evidence is None:
            return 1.0
        statistic = self.evidence.at(bound / self.scale)
        return self._cdf(statistic)

    def _cdf(self, statistic: float) -> float:
        """The probability of a smaller statistic."""
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

    Returns:
        The difference; without evidence when there are no problems.
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) == 0:
        return Difference(math.nan, evidence=None, df=None, method="none", n=0, scale=scale)
    if clusters is not None:
        clustered = _clustered_difference(values, clusters, scale)
        if clustered is not None:
            return clustered
    if np.ptp(values) == 0.0:
        return _equal_difference(values, scale)
    if bounded:
        return _flip_difference(values, scale)
    return _t_difference(values, scale)


def _clustered_difference(values: Floats, clusters: Ints, scale: float) -> Difference | None:
    """The difference of clustered problems by Student's t; None when the clusters show no spread."""
    spread = cluster_spread(values / scale, clusters)
    if spread.df < 1 or spread.variance <= 0:
        return None
    mean = float(values.mean())
    standard_error = math.sqrt(spread.variance)
    return Difference(
        value=mean,
        evidence=Centred(mean / scale, standard_error),
        df=spread.df,
        method="paired_cluster_t",
        n=spread.df + 1,
        scale=scale,
    )


def _equal_difference(values: Floats, scale: float) -> Difference:
    """The difference of problems that all differ by the same amount: it counts as whole flips."""
    n = len(values)
    mean = float(values.mean())
    gain = n * mean / scale
    flips = Flips(worse=max(-gain, 0.0), better=max(gain, 0.0), n=n)
    return Difference(mean, evidence=flips, df=None, method="flips", n=n, scale=scale)


def _t_difference(values: Floats, scale: float) -> Difference:
    """The difference of rewards without a known limit, by Student's t."""
    n = len(values)
    mean = float(values.mean())
    standard_deviation = float(values.std(ddof=1))
    standard_error = standard_deviation / math.sqrt(n) / scale
    evidence = Centred(mean / scale, standard_error)
    return Difference(mean, evidence=evidence, df=n - 1, method="paired_t", n=n, scale=scale)


def _flip_difference(values: Floats, scale: float) -> Difference:
    """The difference of bounded rewards, as flips of one size that have the same mean and variance.

    With the differences d from -1 to 1, the usual size of a flip is Σ d² / Σ |d|; worsenings and improvements are the
    sums of the negative and of the positive differences, in units of it.
    """
    n = len(values)
    unit_differences = values / scale
    sizes = np.abs(unit_differences)
    total_size = float(sizes.sum())
    sum_of_squares = float((unit_differences * unit_differences).sum())
    flip_size = sum_of_squares / total_size
    gain = float(unit_differences.sum())
    worse = (total_size - gain) / 2 / flip_size
    better = (total_size + gain) / 2 / flip_size
    single_answers = bool(((sizes == 0.0) | (sizes == 1.0)).all())
    least_variance: float | None = None
    degrees_of_freedom: int | None = None
    if not single_answers:
        # The observed variance of mean rewards counts too. Both ends of its range are known, so it is known about
        # twice as well as a free one.
        least_variance = float(unit_differences.var())
        degrees_of_freedom = 2 * (n - 1)
    return Difference(
        value=float(values.mean()),
        evidence=Flips(worse, better, n, size=flip_size, least=least_variance),
        df=degrees_of_freedom,
        method="flips",
        n=n,
        scale=scale,
    )


def unpaired_difference(
    baseline: Floats, candidate: Floats, *, confidence: float = 0.95
) -> Interval:
    """Welch's interval (1947) of candidate minus baseline, for problems that do not pair.

    The degrees of freedom are Welch and Satterthwaite's: (v1 + v2)² / (v1² / (n1 - 1) + v2² / (n2 - 1)), with the
    squared standard errors v1 and v2 of the two means.

    Args:
        baseline: The mean rewards of the baseline's problems.
        candidate: Those of the candidate's problems.
        confidence: Confidence level.

    Returns:
        The interval; without bounds when neither side has any spread, without a value below two problems on a side.
    """
    baseline = np.asarray(baseline, dtype=np.float64)
    candidate = np.asarray(candidate, dtype=np.float64)
    baseline_size = len(baseline)
    candidate_size = len(candidate)
    if baseline_size < 2 or candidate_size < 2:
        return Interval.without_bounds(method="welch")
    problems = baseline_size + candidate_size
    difference = float(candidate.mean() - baseline.mean())
    baseline_variance = float(baseline.var(ddof=1)) / baseline_size
    candidate_variance = float(candidate.var(ddof=1)) / candidate_size
    variance = baseline_variance + candidate_variance
    if variance == 0.0:
        return Interval.without_bounds(difference, method="welch", n=problems)
    baseline_term = baseline_variance**2 / (baseline_size - 1)
    candidate_term = candidate_variance**2 / (candidate_size - 1)
    degrees_of_freedom = variance**2 / (baseline_term + candidate_term)
    standard_error = math.sqrt(variance)
    half_width = t_quantile(0.5 + confidence / 2, degrees_of_freedom) * standard_error
    return Interval(
        value=difference,
        lower=difference - half_width,
        upper=difference + half_width,
        method="welch",
        n=problems,
    )
