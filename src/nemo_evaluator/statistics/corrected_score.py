"""Scores and differences of scores corrected by human labels (``ppi.py``), with intervals that hold for few labels."""

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nemo_evaluator.statistics._scipy import t_quantile
from nemo_evaluator.statistics.bootstrap import SEED, central_quantiles
from nemo_evaluator.statistics.difference import Difference
from nemo_evaluator.statistics.evidence import Centred
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.intervals import (
    Interval,
    effective_size,
    shrunk_variance,
    wilson_modified,
)
from nemo_evaluator.statistics.ppi import Estimate, Labelled, ppi_mean, unseen_variance

Flags: TypeAlias = NDArray[np.bool_]
# Below this number of labels the judge's error rate is too uncertain for a formula.
FEW_LABELS: Final = 50
_RESAMPLES: Final = 2000
# Smaller sums of squares are rounding errors: no row of a run contributes so little.
_ROUNDING: Final = 1e-12


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

    Args:
        data: Grades and labels.
        confidence: Confidence level.
    """
    labels_only = ppi_mean(data, 0.0)
    tuned = ppi_mean(data)
    labels_interval = _interval(data, labels_only, confidence)
    alone = replace(labels_interval, method="labels")
    corrected = _interval(data, tuned, confidence)
    if corrected.width is None or alone.width is None or corrected.width > alone.width:
        return Corrected(interval=alone, alone=alone, trust=0.0, labels=data.labels)
    return Corrected(interval=corrected, alone=alone, trust=tuned.trust, labels=data.labels)


def _interval(data: Labelled, estimate: Estimate, confidence: float) -> Interval:
    """The interval of an estimate: Student's t, or Wilson's for grades in [0, 1].

    Returns:
        The interval; without bounds below two labels.
    """
    if data.labels < 2:
        return Interval.without_bounds(estimate.value, method="ppi", n=data.labels)
    labelled = data.known > 0
    informative = _informative_labels(estimate.influence[labelled])
    degrees_of_freedom = _degrees_of_freedom(data, informative)
    quantile = t_quantile(0.5 + confidence / 2, degrees_of_freedom)
    if not _within_unit_range(data):
        return _t_interval(estimate, data.labels, quantile)
    interval = _wilson_interval(
        data, estimate, informative, confidence=confidence, quantile=quantile
    )
    judge_is_used = estimate.trust > 0
    if judge_is_used and data.labels < FEW_LABELS:
        return _widened_by_bootstrap(interval, data, estimate, confidence=confidence)
    return interval


def _t_interval(estimate: Estimate, labels: int, quantile: float) -> Interval:
    """Student's t interval, for grades beyond [0, 1]."""
    small_sample_factor = math.sqrt(labels / max(labels - 2, 1))
    half_width = quantile * estimate.error * small_sample_factor
    return Interval(
        value=estimate.value,
        lower=estimate.value - half_width,
        upper=estimate.value + half_width,
        method="ppi",
        n=labels,
    )


def _wilson_interval(
    data: Labelled, estimate: Estimate, informative: float, *, confidence: float, quantile: float
) -> Interval:
    """Wilson's interval at the number of plain labels that would have the same variance, for grades in [0, 1]."""
    value = min(max(estimate.value, 0.0), 1.0)
    labels_size = data.effective
    variance = _cautious_variance(
        variance=estimate.error**2 + unseen_variance(data),
        largest=value * (1 - value) / labels_size,
        informative=informative,
        effective_labels=labels_size,
    )
    size = effective_size(value, variance, labels_size)
    bounds = wilson_modified(value * size, size, confidence=confidence, quantile=quantile)
    return replace(bounds, value=value, method="ppi", n=data.labels)


def _widened_by_bootstrap(
    interval: Interval, data: Labelled, estimate: Estimate, *, confidence: float
) -> Interval:
    """The interval, widened to the bootstrap bounds where these are further out."""
    if interval.lower is None or interval.upper is None:
        return interval
    bootstrap_lower, bootstrap_upper = _bootstrap_bounds(data, estimate, confidence)
    return replace(
        interval,
        lower=min(interval.lower, max(bootstrap_lower, 0.0)),
        upper=max(interval.upper, min(bootstrap_upper, 1.0)),
    )


def _within_unit_range(data: Labelled) -> bool:
    """Whether all grades and labels are from 0 to 1."""
    human = data.human[data.known > 0]
    lowest_grade = min(human.min(), data.judge.min())
    highest_grade = max(human.max(), data.judge.max())
    return bool(lowest_grade >= 0 and highest_grade <= 1)


def _degrees_of_freedom(data: Labelled, informative: float) -> float:
    """Degrees of freedom of the t quantile: twice those of a free variance, as both ends of the range are known.

    With unequal probabilities a few labels may represent many rows: then the variance is known only as well as the
    labels that carry it are many.
    """
    degrees_of_freedom = 2 * (data.effective - 1)
    if not data.uniform and informative:
        of_informative_labels = max(2 * informative, 4.0)
        degrees_of_freedom = min(degrees_of_freedom, of_informative_labels)
    return max(degrees_of_freedom, 1.0)


def _informative_labels(influence: Floats) -> float:
    """How many labels carry the variance, as (Σd²)² / Σd⁴ of the centred influences d: those that contradict the judge,
    or those that confirm it, whichever are rare."""
    squares = (influence - influence.mean()) ** 2
    sum_of_squares = float(squares.sum())
    if sum_of_squares <= len(influence) * _ROUNDING:
        return 0.0
    sum_of_fourth_powers = float(squares @ squares)
    return sum_of_squares**2 / sum_of_fourth_powers


def _cautious_variance(
    variance: float, largest: float, informative: float, *, effective_labels: float
) -> float:
    """The variance, shrunk towards the largest possible one when few labels carry it.

    Args:
        variance: The observed variance of the mean.
        largest: The variance without the judge.
        informative: Number of labels that carry the observed variance.
        effective_labels: Effective number of labels.
    """
    degrees_of_freedom = max(effective_labels - 2, 1.0)
    unbiased_variance = variance * effective_labels / degrees_of_freedom
    return float(shrunk_variance(unbiased_variance, largest, informative))


def _bootstrap_bounds(data: Labelled, estimate: Estimate, confidence: float) -> tuple[float, float]:
    """Percentile bootstrap bounds of the corrected mean, for few labels.

    The labels are resampled; the judge's mean, known from many rows, is drawn from its normal distribution.
    """
    rng = np.random.default_rng(SEED)
    rows = len(data.judge)
    unlabelled_share = 1 - data.labels / rows
    slope = estimate.trust / unlabelled_share
    labelled = data.known > 0
    weights = data.weights[labelled]
    residuals = (data.human - slope * data.judge)[labelled]
    weighted_residuals = weights * residuals
    # One row of positions for each bootstrap sample.
    drawn = rng.integers(0, len(residuals), size=(_RESAMPLES, len(residuals)))
    residual_sums = weighted_residuals[drawn].sum(axis=1)
    weight_sums = weights[drawn].sum(axis=1)
    rectifiers = residual_sums / weight_sums
    judge_error = data.judge.std() / math.sqrt(rows)
    judge_means = rng.normal(data.judge.mean(), judge_error, _RESAMPLES)
    corrected_means = slope * judge_means + rectifiers
    return central_quantiles(corrected_means, confidence)


class _Side(NamedTuple):
    """One run of a difference: the corrected mean is ``alone.value + λ * (full.value - alone.value)``."""

    data: Labelled
    # The factor of this run's mean in the difference: 1 for the candidate, -share for the baseline.
    factor: float
    # The estimates at λ = 0 and at λ = 1.
    alone: Estimate
    full: Estimate

    def mean(self, trust: float) -> float:
        """The corrected mean at a weight λ of the judge."""
        change = self.full.value - self.alone.value
        return self.alone.value + trust * change

    def largest_variance(self) -> float:
        """The variance of this run's term in the difference, without the judge."""
        mean = self.alone.value
        # A score of 0 or 1 still leaves room for one unseen error.
        least_variance = 1 / (self.data.labels + 2)
        answer_variance = max(mean * (1 - mean), least_variance)
        return self.factor * self.factor * answer_variance / self.data.effective


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
    sides = [_side(candidate, factor=1.0), _side(baseline, factor=-share)]
    problems = np.unique(np.concatenate([side.data.problems for side in sides]))
    influence = _least_influence(sides, problems)
    difference = 0.0
    largest_variance = 0.0
    unseen = 0.0
    for side, trust in zip(sides, influence.trusts.tolist(), strict=True):
        difference += side.factor * side.mean(trust)
        largest_variance += side.largest_variance()
        unseen += side.factor * side.factor * unseen_variance(side.data)
    labelled_influence = influence.per_problem[_has_label(sides, problems)]
    variance = _cautious_variance(
        variance=float(influence.per_problem @ influence.per_problem) + unseen,
        largest=largest_variance,
        informative=_informative_labels(labelled_influence),
        effective_labels=min(side.data.effective for side in sides),
    )
    fewest_labels = min(side.data.labels for side in sides)
    return Difference(
        value=difference,
        evidence=Centred(difference, math.sqrt(variance)),
        df=2.0 * max(fewest_labels - 1, 1),
        method="ppi_paired",
        n=len(problems),
        scale=1.0,
    )


def corrected_pair(baseline: Labelled, candidate: Labelled) -> tuple[float, float]:
    """The corrected means of baseline and candidate whose difference is that of `corrected_difference`.

    Each differs a little from `corrected_mean`, which chooses λ for the run alone.
    """
    sides = [_side(candidate, factor=1.0), _side(baseline, factor=-1.0)]
    problems = np.unique(np.concatenate([side.data.problems for side in sides]))
    candidate_trust, baseline_trust = _least_influence(sides, problems).trusts.tolist()
    return sides[1].mean(baseline_trust), sides[0].mean(candidate_trust)


class _LeastInfluence(NamedTuple):
    """The λ of both runs that minimise the variance of the difference."""

    trusts: Floats
    # The influence of each problem on the difference at these λ.
    per_problem: Floats


def _least_influence(sides: list[_Side], problems: Ints) -> _LeastInfluence:
    """Choose both λ by least squares on the influence functions, clipped to [0, 1]."""
    # The influence of each problem at λ = 0, and for each run its change from λ = 0 to λ = 1.
    influence_at_zero = np.zeros(len(problems))
    changes: list[Floats] = []
    for side in sides:
        change = side.full.influence - side.alone.influence
        influence_at_zero += _per_problem(problems, side, side.alone.influence)
        changes.append(_per_problem(problems, side, change))
    design = np.stack(changes, axis=1)
    # The λ at which the changes cancel as much of the influence as they can.
    least_squares = np.linalg.lstsq(design, -influence_at_zero, rcond=None)[0]
    trusts = np.clip(least_squares, 0.0, 1.0)
    return _LeastInfluence(trusts, influence_at_zero + design @ trusts)


def _has_label(sides: list[_Side], problems: Ints) -> Flags:
    """Whether each problem has a label in one of the runs."""
    labelled = [side.data.problems[side.data.known > 0] for side in sides]
    return np.isin(problems, np.concatenate(labelled))


def _side(data: Labelled, factor: float) -> _Side:
    """One run of a difference with both of its estimates."""
    return _Side(
        data=data,
        factor=factor,
        alone=ppi_mean(data, trust=0.0),
        full=ppi_mean(data, trust=1.0),
    )


def _per_problem(problems: Ints, side: _Side, influence: Floats) -> Floats:
    """The influence of each of ``problems`` on the difference: the sum over its rows."""
    problem_of_row = np.searchsorted(problems, side.data.problems)
    row_factor = side.factor / len(side.data.judge)
    sums = np.bincount(problem_of_row, weights=influence * row_factor, minlength=len(problems))
    return np.asarray(sums, dtype=np.float64)
