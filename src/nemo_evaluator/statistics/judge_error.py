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
    true_negative_rate = _adjusted_share(specificity, negatives, pseudo_counts=1)
    true_positive_rate = _adjusted_share(sensitivity, positives, pseudo_counts=1)
    youden = true_negative_rate.value + true_positive_rate.value - 1
    if specificity + sensitivity <= 1 or youden <= 0:
        return Interval(math.nan, None, None, method="rogan_gladen", n=rows)
    value = min(max((judged + specificity - 1) / (specificity + sensitivity - 1), 0.0), 1.0)
    centre = min(max((judged_share.value + true_negative_rate.value - 1) / youden, 0.0), 1.0)
    variance = (
        judged_share.variance
        + (1 - centre) ** 2 * true_negative_rate.variance
        + centre**2 * true_positive_rate.variance
    )
    half = z * math.sqrt(variance) / youden
    weighted_variances = (
        centre * true_positive_rate.variance - (1 - centre) * true_negative_rate.variance
    )
    shift = 2 * z * z * weighted_variances
    lower = max(centre + shift - half, 0.0)
    upper = min(centre + shift + half, 1.0)
    return Interval(value, min(lower, value), max(upper, value), method="rogan_gladen", n=rows)


class _AdjustedShare(NamedTuple):
    """A share with pseudo-counts added, and its variance."""

    value: float
    variance: float


def _adjusted_share(share: float, size: int, *, pseudo_counts: float) -> _AdjustedShare:
    """Add as many right answers as wrong ones to a share of ``size`` answers."""
    adjusted_size = size + 2 * pseudo_counts
    value = (size * share + pseudo_counts) / adjusted_size
    return _AdjustedShare(value, value * (1 - value) / adjusted_size)


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
