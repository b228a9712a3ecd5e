"""Scores and differences of scores corrected by human labels (``ppi.py``), with intervals that hold for few labels."""

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nemo_evaluator.statistics._scipy import t_quantile
from nemo_evaluator.statistics.bootstrap import SEED
from nemo_evaluator.statistics.difference import Centred, Difference
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.intervals import Interval, shrunk_variance, wilson_modified
from nemo_evaluator.statistics.ppi import Estimate, Labelled, ppi_mean

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
    if not _within_unit_range(data):
        return _t_interval(estimate, labels, quantile)
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


def _t_interval(estimate: Estimate, labels: int, quantile: float) -> Interval:
    """Student's t interval, for grades beyond [0, 1]."""
    small_sample = math.sqrt(labels / max(labels - 2, 1))
    half = quantile * estimate.error * small_sample
    lower = estimate.value - half
    upper = estimate.value + half
    return Interval(estimate.value, lower, upper, method="ppi", n=labels)


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
    influence = _least_influence(sides, problems)
    value = 0.0
    largest_variance = 0.0
    for side, trust in zip(sides, influence.trusts, strict=True):
        alone_mean = side.alone.value
        value += side.factor * (alone_mean + trust * (side.full.value - alone_mean))
        # A score of 0 or 1 still leaves room for one unseen error.
        binomial_variance = max(alone_mean * (1 - alone_mean), 1 / (side.data.labels + 2))
        largest_variance += side.factor * side.factor * binomial_variance / side.data.effective
    per_problem = influence.per_problem
    variance = _cautious_variance(
        float(per_problem @ per_problem),
        largest_variance,
        _informative_labels(per_problem[_has_label(sides, problems)]),
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


class _LeastInfluence(NamedTuple):
    """The λ of both runs that minimise the variance of the difference."""

    trusts: Floats
    # The influence of each problem on the difference at these λ.
    per_problem: Floats


def _least_influence(sides: list[_Side], problems: Ints) -> _LeastInfluence:
    """Choose both λ by least squares on the influence functions, clipped to [0, 1]."""
    # The influence of each problem at λ = 0, and its change for λ = 1.
    at_zero: list[Floats] = []
    slopes: list[Floats] = []
    for side in sides:
        at_zero.append(_per_problem(problems, side, side.alone.influence))
        slopes.append(_per_problem(problems, side, side.full.influence - side.alone.influence))
    alone_influence = sum(at_zero)
    design = np.stack(slopes, axis=1)
    least_squares = np.linalg.lstsq(design, -alone_influence, rcond=None)[0]
    trusts = np.clip(least_squares, 0.0, 1.0)
    return _LeastInfluence(trusts, np.asarray(alone_influence) + design @ trusts)


def _has_label(sides: list[_Side], problems: Ints) -> Flags:
    """Whether each problem has a label in one of the runs."""
    labelled = [side.data.problems[side.data.known > 0] for side in sides]
    return np.isin(problems, np.concatenate(labelled))


def _side(data: Labelled, factor: float) -> _Side:
    """One run of a difference with both of its estimates."""
    return _Side(data, factor, ppi_mean(data, 0.0), full=ppi_mean(data, 1.0))


def _per_problem(problems: Ints, side: _Side, influence: Floats) -> Floats:
    """The influence of each of ``problems`` on the difference: the sum over its rows."""
    place = np.searchsorted(problems, side.data.problems)
    per_row = influence * (side.factor / len(side.data.judge))
    return np.asarray(np.bincount(place, weights=per_row, minlength=len(problems)), float)
