"""Scores corrected by a judge's error rates that were measured elsewhere, and the labels that a correction needs."""

import math
from typing import NamedTuple

from nemo_evaluator.statistics.intervals import Interval, z_quantile


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
    judged_share = _adjusted_share(judged, rows, pseudo_counts=z * z / 2)
    true_negatives = _adjusted_share(specificity, negatives, pseudo_counts=1)
    true_positives = _adjusted_share(sensitivity, positives, pseudo_counts=1)
    # Youden's index: how much better than chance the judge is, from the measured rates and from the adjusted ones.
    youden = specificity + sensitivity - 1
    adjusted_youden = true_negatives.value + true_positives.value - 1
    if specificity + sensitivity <= 1 or adjusted_youden <= 0:
        return Interval.without_bounds(method="rogan_gladen", n=rows)
    value = _clipped((judged + specificity - 1) / youden)
    centre = _clipped((judged_share.value + true_negatives.value - 1) / adjusted_youden)
    negative_part = (1 - centre) ** 2 * true_negatives.variance
    positive_part = centre**2 * true_positives.variance
    variance = judged_share.variance + negative_part + positive_part
    half_width = z * math.sqrt(variance) / adjusted_youden
    skew = centre * true_positives.variance - (1 - centre) * true_negatives.variance
    shifted_centre = centre + 2 * z * z * skew
    lower = max(shifted_centre - half_width, 0.0)
    upper = min(shifted_centre + half_width, 1.0)
    return Interval(
        value=value,
        lower=min(lower, value),
        upper=max(upper, value),
        method="rogan_gladen",
        n=rows,
    )


def _clipped(share: float) -> float:
    """A share within [0, 1]."""
    return min(max(share, 0.0), 1.0)


class _AdjustedShare(NamedTuple):
    """A share with pseudo-counts added, and its variance."""

    value: float
    variance: float


def _adjusted_share(share: float, size: int, *, pseudo_counts: float) -> _AdjustedShare:
    """Add as many right answers as wrong ones to a share of ``size`` answers."""
    adjusted_size = size + 2 * pseudo_counts
    right_answers = size * share + pseudo_counts
    value = right_answers / adjusted_size
    variance = value * (1 - value) / adjusted_size
    return _AdjustedShare(value, variance)


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
    true_passes = value * sensitivity
    false_passes = (1 - value) * (1 - specificity)
    judged = true_passes + false_passes
    label_variance = value * (1 - value)
    covariance = label_variance * (sensitivity + specificity - 1)
    explained_variance = 0.0
    if 0 < judged < 1:
        judge_variance = judged * (1 - judged)
        explained_variance = covariance**2 / judge_variance
    unlabelled_share = max(1 - labels / rows, 0.0)
    remaining_variance = label_variance - explained_variance * unlabelled_share
    standard_error = math.sqrt(max(remaining_variance, 0.0) / max(labels, 1))
    return z_quantile(confidence) * standard_error
