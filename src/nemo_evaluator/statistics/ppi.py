"""Judge scores corrected by human labels: prediction-powered inference.

The estimator is PPI++ (Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453). The judge grades every row of a run;
people label a random sample of the rows, drawn with known probabilities. The labels measure the judge's bias, whatever
the quality of the judge; a good judge gives a narrower interval than the labels alone.
"""

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from nemo_evaluator.statistics._scipy import t_quantile
from nemo_evaluator.statistics.bootstrap import SEED
from nemo_evaluator.statistics.difference import Centred, Difference
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.intervals import (
    Interval,
    shrunk_variance,
    wilson_modified,
    z_quantile,
)

# Below this number of labels the judge's error rate is too uncertain for a formula.
FEW_LABELS: Final = 50
_RESAMPLES: Final = 2000
# Smaller sums of squares are rounding errors: no row of a run contributes so little.
_ROUNDING: Final = 1e-12


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


@dataclass(frozen=True, slots=True)
class Corrected:
    """A corrected score, and for comparison the score of the labels alone.

    Attributes:
        interval: The corrected score.
        alone: The mean of the labels, without the judge.
        trust: λ, the weight of the judge in ``interval``.
        labels: The number of labels.
    """

    interval: Interval
    alone: Interval
    trust: float
    labels: int


def corrected_mean(data: Labelled, *, confidence: float = 0.95) -> Corrected:
    """Estimate the mean that people would have given to all rows.

    The interval is never wider than that of the labels alone: if the judge does not help, it is not used.
    """
    labels_only = ppi_mean(data, 0.0)
    tuned = ppi_mean(data)
    alone = replace(_interval(data, labels_only, confidence), method="labels")
    interval = _interval(data, tuned, confidence)
    if interval.width is None or alone.width is None or interval.width > alone.width:
        return Corrected(alone, alone, 0.0, labels=data.labels)
    return Corrected(interval, alone, tuned.trust, labels=data.labels)


def _interval(data: Labelled, estimate: Estimate, confidence: float) -> Interval:
    """The interval of an estimate.

    For grades in [0, 1]: Wilson's interval at the number of plain labels that would have the same variance. For grades
    beyond: Student's t.
    """
    labels = data.labels
    if labels < 2:
        return Interval(estimate.value, None, None, method="ppi", n=labels)
    labelled = data.known > 0
    informative = _informative_labels(estimate.influence[labelled])
    df = _degrees_of_freedom(data, informative)
    quantile = t_quantile(0.5 + confidence / 2, df)
    human = data.human[labelled]
    lowest_grade = min(human.min(), data.judge.min())
    highest_grade = max(human.max(), data.judge.max())
    if lowest_grade < 0 or highest_grade > 1:
        small_sample = math.sqrt(labels / max(labels - 2, 1))
        half = quantile * estimate.error * small_sample
        lower_bound = estimate.value - half
        upper_bound = estimate.value + half
        return Interval(estimate.value, lower_bound, upper_bound, method="ppi", n=labels)
    value = min(max(estimate.value, 0.0), 1.0)
    size = data.effective
    largest_variance = value * (1 - value) / size
    variance = _cautious_variance(
        estimate.error**2, largest_variance, informative, effective_labels=size
    )
    if variance > 0:
        size = max(largest_variance * size / variance, size)
    wilson = wilson_modified(value * size, size, confidence=confidence, quantile=quantile)
    lower = wilson.lower
    upper = wilson.upper
    if labels < FEW_LABELS and estimate.trust > 0 and lower is not None and upper is not None:
        bootstrap_lower, bootstrap_upper = _bootstrap_bounds(data, estimate, confidence)
        lower = min(lower, max(bootstrap_lower, 0.0))
        upper = max(upper, min(bootstrap_upper, 1.0))
    return Interval(value, lower, upper, method="ppi", n=labels)


def _degrees_of_freedom(data: Labelled, informative: float) -> float:
    """Degrees of freedom of the t quantile: twice those of a free variance, as both ends of the range are known.

    With unequal probabilities a few labels may represent many rows: then the variance is known only as well as the
    labels that carry it are many.
    """
    df = 2 * (data.effective - 1)
    if not data.uniform and informative:
        df = min(df, max(2 * informative, 4.0))
    return max(df, 1.0)


def _informative_labels(influence: Floats) -> float:
    """How many labels carry the variance, as (Σd²)² / Σd⁴ of the centred influences d: those that contradict the judge,
    or those that confirm it, whichever are rare."""
    squares = (influence - influence.mean()) ** 2
    total = float(squares.sum())
    if total <= len(influence) * _ROUNDING:
        return 0.0
    return total**2 / float(squares @ squares)


def _cautious_variance(
    variance: float, largest: float, informative: float, *, effective_labels: float
) -> float:
    """The variance, shrunk towards the largest possible one when few labels carry it."""
    unbiased = variance * effective_labels / max(effective_labels - 2, 1.0)
    return float(shrunk_variance(unbiased, largest, informative))


def _bootstrap_bounds(data: Labelled, estimate: Estimate, confidence: float) -> tuple[float, float]:
    """Percentile bootstrap bounds of the corrected mean, for few labels.

    The labels are resampled; the judge's mean, known from many rows, is drawn from its normal distribution.
    """
    rng = np.random.default_rng(SEED)
    labelled = data.known > 0
    rows = len(data.judge)
    slope = estimate.trust / (1 - data.labels / rows)
    weights = data.weights[labelled]
    residual = (data.human - slope * data.judge)[labelled]
    drawn = rng.integers(0, len(residual), size=(_RESAMPLES, len(residual)))
    rectifiers = (weights * residual)[drawn].sum(axis=1) / weights[drawn].sum(axis=1)
    judge_error = data.judge.std() / math.sqrt(rows)
    judge_means = rng.normal(data.judge.mean(), judge_error, _RESAMPLES)
    means = slope * judge_means + rectifiers
    lower, upper = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(lower), float(upper)


class _Side(NamedTuple):
    """One run of a difference: the corrected mean is ``alone.value + λ * (full.value - alone.value)``."""

    data: Labelled
    # The factor of this run's mean in the difference: 1 for the candidate, -share for the baseline.
    factor: float
    # The estimates at λ = 0 and at λ = 1.
    alone: Estimate
    full: Estimate


def corrected_difference(
    baseline: Labelled, candidate: Labelled, *, share: float = 1.0
) -> Difference:
    """Candidate minus ``share`` of the baseline, each corrected by its own labels and paired by problem.

    A judge that errs differently on two models shows a difference that does not exist. Problems that people labelled
    in both runs cancel the variance between problems; labels in only one run count as well. Both λ are chosen together
    to minimise the variance of the difference (least squares on the influence functions).

    Args:
        baseline: Grades and labels of the baseline.
        candidate: Grades and labels of the candidate.
        share: The factor of the baseline's mean.

    Returns:
        The difference with a normal-theory standard error and Student's t.
    """
    sides = [_side(candidate, 1.0), _side(baseline, -share)]
    problems = np.unique(np.concatenate([side.data.problems for side in sides]))
    # Influence of each problem on the difference at λ = 0, and its change for λ = 1.
    at_zero: list[Floats] = []
    slopes: list[Floats] = []
    for side in sides:
        at_zero.append(_per_problem(problems, side, side.alone.influence))
        slopes.append(_per_problem(problems, side, side.full.influence - side.alone.influence))
    alone_influence = sum(at_zero)
    design = np.stack(slopes, axis=1)
    least_squares = np.linalg.lstsq(design, -alone_influence, rcond=None)[0]
    trusts = np.clip(least_squares, 0.0, 1.0)
    influence = np.asarray(alone_influence) + design @ trusts

    value = 0.0
    largest_variance = 0.0
    for side, trust in zip(sides, trusts, strict=True):
        alone_mean = side.alone.value
        value += side.factor * (alone_mean + trust * (side.full.value - alone_mean))
        # A score of 0 or 1 still leaves room for one unseen error.
        binomial_variance = max(alone_mean * (1 - alone_mean), 1 / (side.data.labels + 2))
        largest_variance += side.factor * side.factor * binomial_variance / side.data.effective
    labelled = [side.data.problems[side.data.known > 0] for side in sides]
    labelled_problems = np.isin(problems, np.concatenate(labelled))
    variance = _cautious_variance(
        float(influence @ influence),
        largest_variance,
        _informative_labels(influence[labelled_problems]),
        effective_labels=min(side.data.effective for side in sides),
    )
    fewest_labels = min(side.data.labels for side in sides)
    return Difference(
        value=float(value),
        evidence=Centred(float(value), math.sqrt(variance)),
        df=2.0 * max(fewest_labels - 1, 1),
        method="ppi_paired",
        n=len(problems),
        scale=1.0,
    )


def _side(data: Labelled, factor: float) -> _Side:
    return _Side(data, factor, ppi_mean(data, 0.0), full=ppi_mean(data, 1.0))


def _per_problem(problems: Ints, side: _Side, influence: Floats) -> Floats:
    """The influence of each of ``problems`` on the difference: the sum over its rows."""
    place = np.searchsorted(problems, side.data.problems)
    per_row = influence * (side.factor / len(side.data.judge))
    return np.asarray(np.bincount(place, weights=per_row, minlength=len(problems)), float)


def rogan_gladen(
    judged: float,
    rows: int,
    sensitivity: float,
    positives: int,
    specificity: float,
    negatives: int,
    *,
    confidence: float = 0.95,
) -> Interval:
    """Correct a share of right answers by the judge's sensitivity and specificity, measured elsewhere.

    The estimate is Rogan and Gladen's (1978): (p + specificity - 1) / (sensitivity + specificity - 1). The interval is
    the adjusted one of Lee et al. (2025), arXiv 2511.21140, in whose notation p̃, q̃0 and q̃1 are the shares with
    pseudo-counts added.

    Args:
        judged: Share of rows that the judge passes, p.
        rows: Number of judged rows.
        sensitivity: Share of right answers that the judge passes.
        positives: Number of right answers behind ``sensitivity``.
        specificity: Share of wrong answers that the judge fails.
        negatives: Number of wrong answers behind ``specificity``.
        confidence: Confidence level.

    Returns:
        The corrected share; without bounds when the judge does no better than chance.
    """
    z = z_quantile(confidence)
    n = rows + z * z
    m0 = negatives + 2
    m1 = positives + 2
    p = (rows * judged + z * z / 2) / n
    q0 = (negatives * specificity + 1) / m0
    q1 = (positives * sensitivity + 1) / m1
    youden = q0 + q1 - 1
    if specificity + sensitivity <= 1 or youden <= 0:
        return Interval(math.nan, None, None, method="rogan_gladen", n=rows)
    value = min(max((judged + specificity - 1) / (specificity + sensitivity - 1), 0.0), 1.0)
    centre = min(max((p + q0 - 1) / youden, 0.0), 1.0)
    variance_p = p * (1 - p) / n
    variance_q0 = q0 * (1 - q0) / m0
    variance_q1 = q1 * (1 - q1) / m1
    variance = variance_p + (1 - centre) ** 2 * variance_q0 + centre**2 * variance_q1
    half = z * math.sqrt(variance) / youden
    shift = 2 * z * z * (centre * variance_q1 - (1 - centre) * variance_q0)
    lower = max(centre + shift - half, 0.0)
    upper = min(centre + shift + half, 1.0)
    return Interval(value, min(lower, value), max(upper, value), method="rogan_gladen", n=rows)


def expected_half_width(
    labels: int,
    rows: int,
    value: float,
    sensitivity: float,
    specificity: float,
    *,
    confidence: float = 0.95,
) -> float:
    """Expected half width of the corrected interval, for planning how many labels to collect.

    The variance of a label is Var(Y) minus the part Cov(Y, f)² / Var(f) that the judge explains on unlabelled rows.

    Args:
        labels: Number of labels.
        rows: Number of rows in the run.
        value: Expected share of right answers.
        sensitivity: Share of right answers that the judge passes.
        specificity: Share of wrong answers that the judge fails.
        confidence: Confidence level.
    """
    judged = value * sensitivity + (1 - value) * (1 - specificity)
    covariance = value * (1 - value) * (sensitivity + specificity - 1)
    judge_variance = judged * (1 - judged)
    if 0 < judged < 1:
        explained: float = covariance**2 / judge_variance
    else:
        explained = 0.0
    unlabelled_share = max(1 - labels / rows, 0.0)
    remaining = value * (1 - value) - explained * unlabelled_share
    return z_quantile(confidence) * math.sqrt(max(remaining, 0.0) / max(labels, 1))
