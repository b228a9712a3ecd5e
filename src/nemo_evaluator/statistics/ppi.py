"""Judge scores corrected by human labels: prediction-powered inference.

The estimator is PPI++ (Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453). The judge grades every row of a run;
people label a random sample of the rows, drawn with known probabilities. The labels measure the judge's bias, whatever
the quality of the judge; a good judge gives a narrower interval than the labels alone.
"""

import math
from dataclasses import dataclass

import numpy as np

from nemo_evaluator.statistics.groups import Floats, Ints


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
            raw = self.known
        else:
            raw = self.known / self.chance
        scale: float = len(raw) / raw.sum()
        return raw * scale

    @property
    def effective(self) -> float:
        """Kish's effective sample size of the labels: (Σw)² / Σw²."""
        weights = self.weights
        return float(weights.sum() ** 2 / (weights @ weights))

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
    unlabelled_share = 1 - data.labels / rows
    if trust is None:
        trust = _tuned_lambda(data)
    slope = trust / unlabelled_share if unlabelled_share > 0 else 0.0
    residual = data.known * (data.filled - slope * data.judge)
    rectifier = float(data.weights @ residual) / rows
    value = slope * float(data.judge.mean()) + rectifier
    influence = _influence(data, slope, residual, rectifier=rectifier)
    if data.clusters is None:
        per_problem = influence
    else:
        problem = np.unique(data.clusters, return_inverse=True)[1]
        sums = np.bincount(problem, weights=influence)
        per_problem = np.asarray(sums, dtype=np.float64)
    error = math.sqrt(float(per_problem @ per_problem)) / rows
    return Estimate(value, error, trust, influence=influence)


def _influence(data: Labelled, slope: float, residual: Floats, *, rectifier: float) -> Floats:
    """The influence function of the estimate at each row.

    With equal probabilities the labelled and the unlabelled rows are two separate samples, each centred on its own
    mean.
    """
    weighted_residual = data.weights * residual
    if not data.uniform:
        centred_judge = data.judge - data.judge.mean()
        centred_residual = data.weights * (residual - rectifier * data.known)
        return np.asarray(slope * centred_judge + centred_residual, dtype=np.float64)
    influence = slope * data.judge + weighted_residual
    labelled = data.known > 0
    for sample in (labelled, ~labelled):
        if sample.any():
            influence[sample] -= influence[sample].mean()
    return influence


def _tuned_lambda(data: Labelled) -> float:
    """The λ that minimises the variance, clipped to [0, 1]: λ = Cov(Y, f) / Var(f) · (N - n) / N."""
    rows = len(data.judge)
    labelled = data.known > 0
    unlabelled_rows = rows - int(labelled.sum())
    if unlabelled_rows == 0 or labelled.sum() < 2:
        return 0.0
    human = data.human[labelled]
    judge = data.judge[labelled]
    if data.uniform:
        variance = float(np.var(data.judge, ddof=1))
        covariance = float(np.mean((human - human.mean()) * (judge - judge.mean())))
    else:
        # Poisson sampling: the variance of a Horvitz-Thompson sum is Σ w (w - 1) x².
        weights = data.weights[labelled]
        poisson_weights = weights * np.maximum(weights - 1, 0.0)
        centred_judge = judge - float(weights @ judge) / rows
        centred_human = human - float(weights @ human) / rows
        variance = float(poisson_weights @ centred_judge**2)
        covariance = float(poisson_weights @ (centred_judge * centred_human))
    if variance <= 0:
        return 0.0
    optimum = covariance / variance * unlabelled_rows / rows
    return min(max(optimum, 0.0), 1.0)
