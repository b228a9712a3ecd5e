"""The paired difference of two means: an interval and tests that stay honest when few problems differ."""

import math
from dataclasses import dataclass

import numpy as np

from nemo_evaluator.statistics._scipy import normal_cdf, t_cdf, t_quantile
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.intervals import Interval, cluster_spread, z_quantile


@dataclass(frozen=True, slots=True)
class Centred:
    """Evidence about a mean, in standard errors: one error for all bounds, around a centre."""

    centre: float
    error: float

    def at(self, bound: float) -> float:
        """How far the data lie above ``bound``."""
        return (self.centre - bound) / self.error

    def bounds(self, quantile: float) -> tuple[float, float]:
        return self.centre - quantile * self.error, self.centre + quantile * self.error


@dataclass(frozen=True, slots=True)
class Flips:
    """Evidence from problems that flip: Tango's (1998) score, or the likelihood ratio where that is weaker.

    Both ask how likely the data are if the bound were true, so both know that no flip among sixty problems does not
    prove a drop under five points. The score is too sure of many flips where few are allowed, the ratio of few where
    many are: together they hold their level far into the tails.

    ``worse`` and ``better`` count flips among ``n`` problems. Means of repeated answers differ by less than a whole
    point: they count as flips of their usual ``size`` among n / size places, which keeps mean and spread as they are;
    ``least``, their own variance, is then a floor, and the score decides alone.
    """

    worse: float
    better: float
    n: int
    size: float = 1.0
    least: float | None = None

    @property
    def mean(self) -> float:
        """Better minus worse, per problem."""
        return (self.better - self.worse) * self.size / self.n

    def at(self, bound: float) -> float:
        """How far the data lie above ``bound``."""
        flipping = self._flipping(bound)
        variance = max(self.size * flipping - bound * bound, self.least or 0.0)
        away = self.mean - bound
        if variance > 0.0:
            score = abs(away) / math.sqrt(variance / self.n)
        else:
            score = math.inf
        if self.least is None:
            score = min(score, self._likelihood_ratio(bound, flipping))
        if away:
            return math.copysign(score, away)
        return 0.0

    def _flipping(self, bound: float) -> float:
        """The most likely share of flips among places, given that better minus worse is ``bound``."""
        places = self.n / self.size
        worse = self.worse
        better = self.better
        same = places - worse - better
        linear = worse * (1 - 3 * bound) + better * (1 - bound) - 2 * same * bound
        root = math.sqrt(max(linear * linear + 8 * places * worse * bound * (1 - bound), 0.0))
        share = (linear + root) / (4 * places)
        return 2 * min(max(share, 0.0, -bound), (1 - bound) / 2) + bound

    def _likelihood_ratio(self, bound: float, flipping: float) -> float:
        """The signed root without its sign."""
        counts = (self.worse, self.better, self.n - self.worse - self.better)
        shares = ((flipping - bound) / 2, (flipping + bound) / 2, 1 - flipping)
        total = 0.0
        for count, share in zip(counts, shares, strict=True):
            if count > 0.0:
                if share > 0.0:
                    total += count * math.log(count / (self.n * share))
                else:
                    total += math.inf
        return math.sqrt(max(2 * total, 0.0))

    def bounds(self, quantile: float) -> tuple[float, float]:
        """The bounds at which the data are just ``quantile`` away."""
        return self._edge(-1.0, quantile), self._edge(1.0, quantile)

    def _edge(self, far: float, quantile: float) -> float:
        near = self.mean
        if abs(self.at(far)) <= quantile:
            return far
        for _ in range(50):
            middle = (near + far) / 2
            if abs(self.at(middle)) <= quantile:
                near = middle
            else:
                far = middle
        return near


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference and the evidence about it, in units of ``scale``. ``df`` is None where the normal distribution
    applies; ``evidence`` is None when nothing is known about the spread."""

    value: float
    evidence: Centred | Flips | None
    df: float | None
    method: str
    n: int
    scale: float

    def interval(self, confidence: float = 0.95) -> Interval:
        """Two-sided bounds."""
        if self.evidence is None:
            return Interval(self.value, None, None, method=self.method, n=self.n)
        if self.df is None:
            quantile = z_quantile(confidence)
        else:
            quantile = t_quantile(0.5 + confidence / 2, self.df)
        lower, upper = (self.scale * bound for bound in self.evidence.bounds(quantile))
        lower = min(lower, self.value)
        upper = max(upper, self.value)
        return Interval(
            self.value,
            max(lower, -self.scale),
            min(upper, self.scale),
            method=self.method,
            n=self.n,
        )

    def p_above(self, bound: float) -> float:
        """One-sided p-value of "the true difference is not above ``bound``"."""
        if self.evidence is None:
            return 1.0
        return self._tail(-self.evidence.at(bound / self.scale))

    def p_below(self, bound: float) -> float:
        """One-sided p-value of "the true difference is not below ``bound``"."""
        if self.evidence is None:
            return 1.0
        return self._tail(self.evidence.at(bound / self.scale))

    def _tail(self, value: float) -> float:
        if self.df is None:
            return float(normal_cdf(value))
        return t_cdf(value, self.df)


def mean_difference(
    differences: Floats, *, bounded: bool = False, scale: float = 1.0, clusters: Ints | None = None
) -> Difference:
    """The mean of per-problem differences, which lie between -``scale`` and ``scale``. ``bounded`` says that those are
    true limits, as for rewards in [0, 1]: then a loss that was not seen yet has a known size, and ``Flips`` allows for
    it. Otherwise Student's t. Ten equal differences do not prove that the eleventh is equal too: without any spread to
    go by, they count as so many whole flips."""
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    if n == 0:
        return Difference(math.nan, None, None, method="none", n=0, scale=scale)
    mean = float(values.mean())
    if clusters is not None:
        spread = cluster_spread(values / scale, clusters)
        if spread.df >= 1 and spread.variance > 0:
            evidence = Centred(mean / scale, math.sqrt(spread.variance))
            return Difference(
                mean, evidence, spread.df, method="paired_cluster_t", n=spread.df + 1, scale=scale
            )
    if np.ptp(values) == 0.0:
        gain = n * mean / scale
        return Difference(
            mean, Flips(max(-gain, 0.0), max(gain, 0.0), n), None, method="flips", n=n, scale=scale
        )
    if bounded:
        return _flips(values / scale, mean, scale)
    evidence = Centred(mean / scale, float(values.std(ddof=1)) / math.sqrt(n) / scale)
    return Difference(mean, evidence, n - 1, method="paired_t", n=n, scale=scale)


def _flips(unit: Floats, mean: float, scale: float) -> Difference:
    n = len(unit)
    sizes = np.abs(unit)
    moved = float(sizes.sum())
    gain = float(unit.sum())
    size = float((unit * unit).sum()) / moved
    # One answer a side: the statistics as they are. Means of repeated answers: their own spread counts too, known
    # about twice as well as a free one because both of its ends are.
    whole = bool(((sizes == 0.0) | (sizes == 1.0)).all())
    if whole:
        least: float | None = None
    else:
        least = float(unit.var())
    found = Flips((moved - gain) / 2 / size, (moved + gain) / 2 / size, n, size=size, least=least)
    return Difference(mean, found, None if whole else 2 * (n - 1), method="flips", n=n, scale=scale)


def unpaired_difference(
    baseline: Floats, candidate: Floats, *, confidence: float = 0.95
) -> Interval:
    """Welch's interval of the difference of two means, for problems that do not pair."""
    a = np.asarray(baseline, dtype=np.float64)
    b = np.asarray(candidate, dtype=np.float64)
    if len(a) < 2 or len(b) < 2:
        return Interval(math.nan, None, None, method="welch", n=0)
    value = float(b.mean() - a.mean())
    va = float(a.var(ddof=1)) / len(a)
    vb = float(b.var(ddof=1)) / len(b)
    if va + vb == 0.0:
        return Interval(value, None, None, method="welch", n=len(a) + len(b))
    df = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    half = t_quantile(0.5 + confidence / 2, df) * math.sqrt(va + vb)
    return Interval(value, value - half, value + half, method="welch", n=len(a) + len(b))
