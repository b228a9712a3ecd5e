"""Judge scores corrected by human labels: prediction-powered inference.

The estimator is PPI++ (Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453). The judge grades every row of a run;
people label a random sample of the rows, drawn with known probabilities. The labels measure the judge's bias, whatever
the quality of the judge; a good judge gives a narrower interval than the labels alone.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from nemo_evaluator.statistics.groups import Floats, Ints

# A draw by level has one probability per level, and at most so many levels of at most this width.
_MOST_LEVELS: Final = 10
_LEVEL_WIDTH: Final = 0.25
_CHANCE_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Labelled:
    """The judge's grades of all rows of a run, and the human labels of some of them.

    Attributes:
        judge: The judge's grade f(X) of each row.
        human: The human label Y of each row, NaN where there is none.
        chance: The probability with which each row was drawn for labelling; None when it was the same for all.
        clusters: The problem of each row; None when every row is a problem of its own.
    """

    judge: Floats
    human: Floats
    chance: Floats | None = None
    clusters: Ints | None = None

    @property
    def known(self) -> Floats:
        """1 for a labelled row, else 0."""
        return (~np.isnan(self.human)).astype(np.float64)

    @property
    def labels(self) -> int:
        """The number of labelled rows."""
        return int(self.known.sum())

    @property
    def uniform(self) -> bool:
        """Whether every row was drawn with the same probability."""
        return self.chance is None or float(np.ptp(self.chance)) < 1e-12

    @property
    def weights(self) -> Floats:
        """Inverse-probability weights (Hájek): the number of rows that each label represents; their sum is all rows."""
        if self.uniform or self.chance is None:
            inverse_chances = self.known
        else:
            inverse_chances = self.known / self.chance
        scale: float = len(inverse_chances) / inverse_chances.sum()
        return inverse_chances * scale

    @property
    def effective(self) -> float:
        """Kish's effective sample size of the labels: (Σw)² / Σw²."""
        weights = self.weights
        sum_of_squares = weights @ weights
        return float(weights.sum() ** 2 / sum_of_squares)

    @property
    def filled(self) -> Floats:
        """The labels, with 0 for a row without one."""
        return np.nan_to_num(self.human)

    @property
    def problems(self) -> Ints:
        """The problem of each row; the row's number where no clusters are set."""
        if self.clusters is None:
            return np.arange(len(self.judge))
        return self.clusters


@dataclass(frozen=True, slots=True)
class Estimate:
    """A PPI++ estimate of a mean.

    Attributes:
        value: The corrected mean.
        error: Its standard error.
        trust: λ, the weight of the judge: 0 uses the labels alone, 1 relies fully on the judge.
        influence: The influence function at each row; the estimates of two runs are compared row by row with it.
    """

    value: float
    error: float
    trust: float
    influence: Floats


def ppi_mean(data: Labelled, trust: float | None = None) -> Estimate:
    """Estimate the mean human label of all rows (PPI++).

    With n labels among N rows, θ = λ · mean of f over the unlabelled rows + mean of (Y - λ f) over the labelled rows.
    The code uses the equal form θ = s · mean of f over all rows + Σ w (Y - s f) / N, where s = λ / (1 - n/N).

    Args:
        data: Grades and labels.
        trust: λ; None chooses the λ with the least variance, clipped to [0, 1].

    Returns:
        The estimate with its cluster-robust standard error.
    """
    rows = len(data.judge)
    if trust is None:
        trust = _tuned_lambda(data)
    slope = 0.0
    unlabelled_share = 1 - data.labels / rows
    if unlabelled_share > 0:
        slope = trust / unlabelled_share
    residuals = data.known * (data.filled - slope * data.judge)
    rectifier = float(data.weights @ residuals) / rows
    value = slope * float(data.judge.mean()) + rectifier
    if data.uniform:
        influence = _uniform_influence(data, slope, residuals)
    else:
        influence = _weighted_influence(data, slope, residuals, rectifier=rectifier)
    per_problem = _per_problem(influence, data.clusters)
    sum_of_squares = float(per_problem @ per_problem)
    standard_error = math.sqrt(sum_of_squares) / rows
    return Estimate(value=value, error=standard_error, trust=trust, influence=influence)


def _per_problem(influence: Floats, clusters: Ints | None) -> Floats:
    """The influence of each problem: the sum over its rows."""
    if clusters is None:
        return influence
    _, problem_of_row = np.unique(clusters, return_inverse=True)
    sums = np.bincount(problem_of_row, weights=influence)
    return np.asarray(sums, dtype=np.float64)


def _uniform_influence(data: Labelled, slope: float, residuals: Floats) -> Floats:
    """The influence function of the estimate at each row, for a draw with equal probabilities.

    The labelled and the unlabelled rows are then two separate samples, each centred on its own mean.

    Args:
        data: Grades and labels.
        slope: The factor s of the judge's grades.
        residuals: Label minus s times grade; 0 for a row without a label.
    """
    influence = slope * data.judge + data.weights * residuals
    labelled = data.known > 0
    for sample in (labelled, ~labelled):
        if sample.any():
            influence[sample] -= influence[sample].mean()
    return influence


def _weighted_influence(
    data: Labelled, slope: float, residuals: Floats, *, rectifier: float
) -> Floats:
    """The influence function for a draw with unequal probabilities.

    Args:
        data: Grades and labels.
        slope: The factor s of the judge's grades.
        residuals: Label minus s times grade; 0 for a row without a label.
        rectifier: The weighted mean of the residuals.
    """
    centred_judge = data.judge - data.judge.mean()
    centred_residuals = residuals - rectifier * data.known
    influence = slope * centred_judge + data.weights * centred_residuals
    return np.asarray(influence, dtype=np.float64)


def _tuned_lambda(data: Labelled) -> float:
    """The λ that minimises the variance, clipped to [0, 1]: λ = Cov(Y, f) / Var(f) · (N - n) / N."""
    rows = len(data.judge)
    unlabelled_rows = rows - data.labels
    if unlabelled_rows == 0 or data.labels < 2:
        return 0.0
    moments = _uniform_moments(data) if data.uniform else _weighted_moments(data)
    if moments.judge_variance <= 0:
        return 0.0
    optimum = moments.covariance / moments.judge_variance * unlabelled_rows / rows
    return min(max(optimum, 0.0), 1.0)


def unseen_variance(data: Labelled) -> float:
    """The variance that a stratified draw hides where the labels of a level of the judge's grades are nearly all equal.

    Thirty labels of 0 in a level do not prove that the next one is 0 too. The share of labels is smoothed by a
    quarter of a label of each kind; the result is what this adds to the variance of the mean.

    Args:
        data: Grades and labels in [0, 1].

    Returns:
        The additional variance; 0 for a draw that is not by level.
    """
    if data.uniform or data.chance is None:
        return 0.0
    chances, level_of_row = np.unique(np.round(data.chance, _CHANCE_DIGITS), return_inverse=True)
    if len(chances) > _MOST_LEVELS:
        return 0.0
    rows = len(data.judge)
    unseen = 0.0
    for level in range(len(chances)):
        in_level = level_of_row == level
        judge = data.judge[in_level]
        labels = data.human[in_level & (data.known > 0)]
        if not len(labels) or float(np.ptp(judge)) > _LEVEL_WIDTH:
            continue
        level_share = len(judge) / rows
        mean = float(labels.mean())
        smoothed_mean = (float(labels.sum()) + 0.25) / (len(labels) + 0.5)
        excess = smoothed_mean * (1 - smoothed_mean) - mean * (1 - mean)
        unseen += level_share**2 * max(excess, 0.0) / len(labels)
    return unseen


class _Moments(NamedTuple):
    """How far the judge's grades and the labels vary, and how far together."""

    judge_variance: float
    covariance: float


def _uniform_moments(data: Labelled) -> _Moments:
    """The moments for a draw with equal probabilities: the judge's variance is known from all rows."""
    labelled = data.known > 0
    human = data.human[labelled]
    judge = data.judge[labelled]
    centred_human = human - human.mean()
    centred_judge = judge - judge.mean()
    return _Moments(
        judge_variance=float(np.var(data.judge, ddof=1)),
        covariance=float(np.mean(centred_human * centred_judge)),
    )


def _weighted_moments(data: Labelled) -> _Moments:
    """The moments for a draw with unequal probabilities (Poisson sampling).

    The variance of a Horvitz-Thompson sum is Σ w (w - 1) x².
    """
    rows = len(data.judge)
    labelled = data.known > 0
    human = data.human[labelled]
    judge = data.judge[labelled]
    weights = data.weights[labelled]
    poisson_weights = weights * np.maximum(weights - 1, 0.0)
    centred_human = human - float(weights @ human) / rows
    centred_judge = judge - float(weights @ judge) / rows
    return _Moments(
        judge_variance=float(poisson_weights @ centred_judge**2),
        covariance=float(poisson_weights @ (centred_judge * centred_human)),
    )
