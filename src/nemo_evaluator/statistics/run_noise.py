"""Run-to-run noise: how often a server's verdict on a problem changes, and how far its runs differ by that alone.

The flip rate is the mean squared difference of two rewards for the same problem: for right and wrong, the probability
that the second verdict differs from the first. Half of it is the variance of one answer, so the variance of the
difference of two runs over ``n`` problems is ``rate / 2 * (1 / repeats + 1 / repeats) / n``.

A measurement sees few flips, so the rate is uncertain. `self_difference` allows for that: it averages over the rates
that the measurement leaves possible, and does not take the observed rate for the true one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nemo_evaluator.core.values import dataclass
from nemo_evaluator.statistics._scipy import beta_quantiles, normal_cdfs
from nemo_evaluator.statistics.groups import Floats

# The number of equally likely rates that stand for the uncertainty of one.
_RATES: Final = 60
# Halvings when a bound is searched; rewards are at most about 1.
_HALVINGS: Final = 40


@dataclass(frozen=True, slots=True)
class FlipRate:
    """The estimated flip rate of a server on one benchmark.

    Attributes:
        value: The estimate.
        problems: The number of problems behind it.
        unit: What one problem whose verdict changed adds to the sum over the problems.
    """

    value: float
    problems: int
    unit: float

    def quantiles(self, shares: Sequence[float] | Floats) -> Floats:
        """The rates below which the true one lies with these probabilities (Jeffreys prior)."""
        changed = self.value * self.problems / self.unit
        steady = max(self.problems - changed, 0.0)
        quantiles: Floats = self.unit * beta_quantiles(shares, changed + 0.5, steady + 0.5)
        return quantiles

    def bounds(self, confidence: float = 0.95) -> tuple[float, float]:
        """The interval of the rate."""
        tail = (1 - confidence) / 2
        lower, upper = self.quantiles([tail, 1 - tail])
        return float(lower) if self.value else 0.0, float(upper)


def flip_rate(rewards: Floats) -> FlipRate:
    """Estimate the flip rate of a server.

    Args:
        rewards: One row per problem, one column per run.
    """
    problems, runs = rewards.shape
    # Twice the variance within a problem is the mean squared difference of two of its rewards.
    changes = 2 * rewards.var(axis=1, ddof=1)
    total = float(changes.sum())
    if total == 0:
        # One changed verdict among the runs of a problem.
        return FlipRate(0.0, problems, unit=2 / runs)
    return FlipRate(total / problems, problems, unit=float((changes**2).sum()) / total)


@dataclass(frozen=True, slots=True)
class NoisySide:
    """One side of a comparison: the flip rate of its server, and its answers per problem."""

    rate: FlipRate
    repeats: float


def self_difference(
    sides: tuple[NoisySide, NoisySide], problems: int, confidence: float = 0.95
) -> float:
    """How far the mean rewards of two runs differ by run-to-run noise alone, with this probability at most.

    Args:
        sides: Both sides; the same rate twice for a server against itself.
        problems: The number of problems that both runs share.
        confidence: The probability.
    """
    shares = (np.arange(_RATES) + 0.5) / _RATES
    baseline, candidate = sides
    baseline_variance = baseline.rate.quantiles(shares) / (2 * problems * baseline.repeats)
    candidate_variance = candidate.rate.quantiles(shares) / (2 * problems * candidate.repeats)
    if baseline.rate == candidate.rate:
        variance = baseline_variance + candidate_variance
    else:
        variance = (baseline_variance[:, None] + candidate_variance[None, :]).ravel()
    deviation = np.sqrt(variance)
    low = 0.0
    high = 10 * float(deviation.max())
    for _ in range(_HALVINGS):
        bound = (low + high) / 2
        outside = float(2 * normal_cdfs(-bound / deviation).mean())
        if outside > 1 - confidence:
            low = bound
        else:
            high = bound
    return high
