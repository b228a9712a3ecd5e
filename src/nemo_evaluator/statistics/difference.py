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
        score = abs(away) / math.sqrt(variance / self.n) if variance > 0.0 else math.inf
        if self.least is None:
            score = min(score, self._likelihood_ratio(bound, flipping))
        return math.copysign(score, away) if away else 0.0

    def _flipping(self, bound: float) -> float:
        """The most likely share of flips among places, given that better minus worse is ``bound``."""
        places, worse, better = self.n / self.size, self.worse, self.better
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
                total += count * math.log(count / (self.n * share)) if share > 0.0 else math.inf
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
            near, far = (middle, far) if abs(self.at(middle)) <= quantile else (near, middle)
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
            return Interval(self.value, None, None, self.method, self.n)
        quantile = z_quantile(confidence) if self.df is None else t_quantile(0.5 + confidence / 2, self.df)
        lower, upper = (self.scale * bound for bound in self.evidence.bounds(quantile))
        lower, upper = min(lower, self.value), max(upper, self.value)
        return Interval(self.value, max(lower, -self.scale), min(upper, self.scale), self.method, self.n)

    def p_above(self, bound: float) -> float:
        """One-sided p-value of "the true difference is not above ``bound``"."""
        return 1.0 if self.evidence is None else self._tail(-self.evidence.at(bound / self.scale))

    def p_below(self, bound: float) -> float:
        """One-sided p-value of "the true difference is not below ``bound``"."""
        return 1.0 if self.evidence is None else self._tail(self.evidence.at(bound / self.scale))

    def _tail(self, value: float) -> float:
        return float(normal_cdf(value)) if self.df is None else t_cdf(value, self.df)


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
        return Difference(math.nan, None, None, "none", 0, scale)
    mean = float(values.mean())
    if clusters is not None:
        spread = cluster_spread(values / scale, clusters)
        if spread.df >= 1 and spread.variance > 0:
            evidence = Centred(mean / scale, math.sqrt(spread.variance))
            return Difference(mean, evidence, spread.df, "paired_cluster_t", spread.df + 1, scale)
    if np.ptp(values) == 0.0:
        gain = n * mean / scale
        return Difference(mean, Flips(max(-gain, 0.0), max(gain, 0.0), n), None, "flips", n, scale)
    if bounded:
        return _flips(values / scale, mean, scale)
    evidence = Centred(mean / scale, float(values.std(ddof=1)) / math.sqrt(n) / scale)
    return Difference(mean, evidence, n - 1, "paired_t", n, scale)


def _flips(unit: Floats, mean: float, scale: float) -> Difference:
    n, sizes = len(unit), np.abs(unit)
    moved, gain = float(sizes.sum()), float(unit.sum())
    size = float((unit * unit).sum()) / moved
    # One answer a side: the statistics as they are. Means of repeated answers: their own spread counts too, known
    # about twice as well as a free one because both of its ends are.
    whole = bool(((sizes == 0.0) | (sizes == 1.0)).all())
    least = None if whole else float(unit.var())
    found = Flips((moved - gain) / 2 / size, (moved + gain) / 2 / size, n, size, least)
    return Difference(mean, found, None if whole else 2 * (n - 1), "flips", n, scale)


def unpaired_difference(baseline: Floats, candidate: Floats, *, confidence: float = 0.95) -> Interval:
    """Welch's interval of the difference of two means, for problems that do not pair."""
    a, b = np.asarray(baseline, dtype=np.float64), np.asarray(candidate, dtype=np.float64)
    if len(a) < 2 or len(b) < 2:
        return Interval(math.nan, None, None, "welch", 0)
    value = float(b.mean() - a.mean())
    va, vb = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
    if va + vb == 0.0:
        return Interval(value, None, None, "welch", len(a) + len(b))
    df = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    half = t_quantile(0.5 + confidence / 2, df) * math.sqrt(va + vb)
    return Interval(value, value - half, value + half, "welch", len(a) + len(b))
