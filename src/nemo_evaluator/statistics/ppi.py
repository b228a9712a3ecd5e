"""A judge's scores corrected by human labels: prediction-powered inference (PPI++, arXiv 2311.01453). The judge speaks
on all rows of a run, people on some that were drawn with known chances. Whatever the judge is worth, the labels say how
far off it is on average; a good judge makes the interval narrower than the labels alone could."""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from nemo_evaluator.statistics._scipy import t_quantile
from nemo_evaluator.statistics.bootstrap import SEED
from nemo_evaluator.statistics.difference import Centred, Difference
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.intervals import Interval, wilson_modified, z_quantile

# Below this number of labels the spread of what the judge misses is too uncertain for a formula.
FEW_LABELS: Final = 50
_RESAMPLES: Final = 2000
# Weight of the labels' own spread when few labels contradict the judge; both numbers were chosen by simulation.
_SPREAD_PRIOR: Final = 0.6
_TELLING_POWER: Final = 1.5
# What is less than this is rounding: no row of a run adds so little.
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Labelled:
    """The rows of a run as the judge sees them, and the labels: ``human`` is NaN on a row without one. ``chance`` is
    the probability with which each row was drawn to be labelled, None when all had the same; ``clusters`` names the
    rows that belong to one problem."""

    judge: Floats
    human: Floats
    chance: Floats | None = None
    clusters: Ints | None = None

    @property
    def known(self) -> Floats:
        """1 where there is a label, else 0."""
        return (~np.isnan(self.human)).astype(np.float64)

    @property
    def labels(self) -> int:
        return int(self.known.sum())

    @property
    def uniform(self) -> bool:
        """Whether every row had the same chance."""
        return self.chance is None or float(np.ptp(self.chance)) < 1e-12

    @property
    def weights(self) -> Floats:
        """How many rows each label stands for; together all rows."""
        if self.uniform or self.chance is None:
            raw = self.known
        else:
            raw = self.known / self.chance
        scale: float = len(raw) / raw.sum()
        return raw * scale

    @property
    def effective(self) -> float:
        """How many equally likely labels the drawn ones are worth (Kish)."""
        weights = self.weights
        return float(weights.sum() ** 2 / (weights @ weights))

    @property
    def filled(self) -> Floats:
        """The labels with 0 where there is none."""
        return np.nan_to_num(self.human)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A corrected mean: ``trust`` is how far the judge is relied on (λ), 0 for the labels alone, 1 for all of it.
    ``influence`` is what each row adds to the error, so that estimates of two runs can be set against each other."""

    value: float
    error: float
    trust: float
    influence: Floats


def ppi_mean(data: Labelled, trust: float | None = None) -> Estimate:
    """The PPI++ estimate; ``trust`` of None is tuned on the data and clipped to [0, 1]."""
    rows = len(data.judge)
    labels = data.labels
    share = 1 - labels / rows
    if trust is None:
        trust = _tuned(data)
    else:
        trust = trust
    slope = trust / share if share > 0 else 0.0
    weights = data.weights
    residual = data.known * (data.filled - slope * data.judge)
    missed = float(weights @ residual) / rows
    value = slope * float(data.judge.mean()) + missed
    if data.uniform:
        raw = slope * data.judge + weights * residual
        known = data.known > 0
        influence = raw.copy()
        for group in (known, ~known):
            if group.any():
                influence[group] -= raw[group].mean()
    else:
        influence = slope * (data.judge - data.judge.mean()) + weights * (
            residual - missed * data.known
        )
    problem = (
        np.arange(rows)
        if data.clusters is None
        else np.unique(data.clusters, return_inverse=True)[1]
    )
    sums = np.bincount(problem, weights=influence)
    return Estimate(value, math.sqrt(float(sums @ sums)) / rows, trust, influence=influence)


def _tuned(data: Labelled) -> float:
    """The λ with the least variance, on the scale of the formula for two separate samples."""
    rows = len(data.judge)
    known = data.known > 0
    rest = rows - int(known.sum())
    if rest == 0 or known.sum() < 2:
        return 0.0
    human = data.human[known]
    judge = data.judge[known]
    if data.uniform:
        spread = float(np.var(data.judge, ddof=1))
        together = float(np.mean((human - human.mean()) * (judge - judge.mean())))
    else:
        weights = data.weights[known]
        pull = weights * np.maximum(weights - 1, 0.0)
        centred = judge - float(weights @ judge) / rows
        spread = float(pull @ centred**2)
        together = float(pull @ (centred * (human - float(weights @ human) / rows)))
    if spread > 0:
        return min(max(together / spread * rest / rows, 0.0), 1.0)
    return 0.0


@dataclass(frozen=True, slots=True)
class Corrected:
    """A corrected score beside what the labels alone say; ``trust`` is the weight of the judge in it."""

    interval: Interval
    alone: Interval
    trust: float
    labels: int


def corrected_mean(data: Labelled, *, confidence: float = 0.95) -> Corrected:
    """The judged mean as people would have scored it, never with a wider interval than the labels alone give."""
    found = ppi_mean(data)
    plain = ppi_mean(data, 0.0)
    alone = replace(_bounds(data, plain, confidence), method="labels")
    interval = _bounds(data, found, confidence)
    if interval.width is None or alone.width is None or interval.width > alone.width:
        return Corrected(alone, alone, 0.0, labels=data.labels)
    return Corrected(interval, alone, found.trust, labels=data.labels)


def _bounds(data: Labelled, found: Estimate, confidence: float) -> Interval:
    """Wilson's interval at the number of plain labels that would be as sure; Student's for values beyond [0, 1]."""
    labels = data.labels
    size = data.effective
    if labels < 2:
        return Interval(found.value, None, None, method="ppi", n=labels)
    carried = _telling(found.influence[data.known > 0])
    # With unequal chances few labels may stand for many rows: the spread is as sure as those that tell of it are many.
    if data.uniform or not carried:
        sure: float = 2 * (size - 1)
    else:
        sure = min(2 * (size - 1), max(2 * carried, 4.0))
    quantile = t_quantile(0.5 + confidence / 2, max(sure, 1.0))
    seen = data.human[data.known > 0]
    if min(seen.min(), data.judge.min()) < 0 or max(seen.max(), data.judge.max()) > 1:
        half = quantile * found.error * math.sqrt(labels / max(labels - 2, 1))
        return Interval(found.value, found.value - half, found.value + half, method="ppi", n=labels)
    value = min(max(found.value, 0.0), 1.0)
    widest = value * (1 - value) / size
    variance = _cautious(found.error**2, widest, carried, size=size)
    if variance > 0:
        size = max(widest * size / variance, size)
    else:
        size = size
    plain = wilson_modified(value * size, size, confidence=confidence, quantile=quantile)
    lower = plain.lower
    upper = plain.upper
    if labels < FEW_LABELS and found.trust > 0 and lower is not None and upper is not None:
        low, high = _resampled(data, found, confidence)
        lower = min(lower, max(low, 0.0))
        upper = max(upper, min(high, 1.0))
    return Interval(value, lower, upper, method="ppi", n=labels)


def _telling(influence: Floats) -> float:
    """How many labels carry the variance: those that contradict the judge, where it is right or wrong."""
    squares = (influence - influence.mean()) ** 2
    total = float(squares.sum())
    if total > len(influence) * _ROUNDING:
        return total**2 / float(squares @ squares)
    return 0.0


def _cautious(variance: float, widest: float, telling: float, size: float) -> float:
    """A variance that few labels tell of, drawn towards the one that the labels alone would have."""
    weight = telling**_TELLING_POWER
    known = variance * size / max(size - 2, 1.0)
    return float((weight * known + _SPREAD_PRIOR * widest) / (weight + _SPREAD_PRIOR))


def _resampled(data: Labelled, found: Estimate, confidence: float) -> tuple[float, float]:
    """The percentile bootstrap of the prediction with its bias taken off, for few labels."""
    rng = np.random.default_rng(SEED)
    known = data.known > 0
    rows = len(data.judge)
    slope = found.trust / (1 - data.labels / rows)
    weights = data.weights[known]
    residual = (data.human - slope * data.judge)[known]
    at = rng.integers(0, len(residual), size=(_RESAMPLES, len(residual)))
    missed = (weights * residual)[at].sum(axis=1) / weights[at].sum(axis=1)
    predicted = rng.normal(data.judge.mean(), data.judge.std() / math.sqrt(rows), _RESAMPLES)
    low, high = np.quantile(
        slope * predicted + missed, [(1 - confidence) / 2, (1 + confidence) / 2]
    )
    return float(low), float(high)


def corrected_difference(
    baseline: Labelled, candidate: Labelled, *, share: float = 1.0
) -> Difference:
    """Candidate minus ``share`` of the baseline, both corrected by their own labels, paired by ``clusters``. A judge
    that errs differently on two models shows a difference that is not there. Problems that people labelled on both
    sides take the noise of the problems out; labels on one side alone count as well."""
    sides = (candidate, 1.0), (baseline, -share)
    keys = np.unique(np.concatenate([_keys(data) for data, _ in sides]))

    def total(data: Labelled, sign: float, influence: Floats) -> Floats:
        places = np.searchsorted(keys, _keys(data))
        return np.asarray(
            np.bincount(places, weights=influence * (sign / len(data.judge)), minlength=len(keys)),
            float,
        )

    ends = [(ppi_mean(data, 0.0), ppi_mean(data, 1.0)) for data, _ in sides]
    plain = [
        total(data, sign, low.influence) for (data, sign), (low, _) in zip(sides, ends, strict=True)
    ]
    gains = [
        total(data, sign, high.influence - low.influence)
        for (data, sign), (low, high) in zip(sides, ends, strict=True)
    ]
    trust = np.clip(np.linalg.lstsq(np.stack(gains, axis=1), -sum(plain), rcond=None)[0], 0.0, 1.0)
    value = sum(
        sign * (low.value + one * (high.value - low.value))
        for (_, sign), (low, high), one in zip(sides, ends, trust, strict=True)
    )
    error = np.asarray(sum(plain)) + np.stack(gains, axis=1) @ trust
    known = np.isin(keys, np.concatenate([_keys(data)[data.known > 0] for data, _ in sides]))
    labels = min(data.labels for data, _ in sides)
    widest = sum(
        sign * sign * max(low.value * (1 - low.value), 1 / (data.labels + 2)) / data.effective
        for (data, sign), (low, _) in zip(sides, ends, strict=True)
    )
    variance = _cautious(
        float(error @ error),
        widest,
        _telling(error[known]),
        size=min(data.effective for data, _ in sides),
    )
    return Difference(
        float(value),
        Centred(float(value), math.sqrt(variance)),
        2.0 * max(labels - 1, 1),
        method="ppi_paired",
        n=len(keys),
        scale=1.0,
    )


def _keys(data: Labelled) -> Ints:
    if data.clusters is None:
        return np.arange(len(data.judge))
    return data.clusters


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
    """A share of right answers corrected by sensitivity and specificity that were measured elsewhere. The interval is
    the adjusted one of arXiv 2511.21140. No bounds where the judge does no better than chance."""
    z = z_quantile(confidence)
    n = rows + z * z
    m0 = negatives + 2
    m1 = positives + 2
    p = (rows * judged + z * z / 2) / n
    q0 = (negatives * specificity + 1) / m0
    q1 = (positives * sensitivity + 1) / m1
    better = q0 + q1 - 1
    if specificity + sensitivity <= 1 or better <= 0:
        return Interval(math.nan, None, None, method="rogan_gladen", n=rows)
    value = min(max((judged + specificity - 1) / (specificity + sensitivity - 1), 0.0), 1.0)
    centre = min(max((p + q0 - 1) / better, 0.0), 1.0)
    v0 = q0 * (1 - q0) / m0
    v1 = q1 * (1 - q1) / m1
    shift = 2 * z * z * (centre * v1 - (1 - centre) * v0)
    half = z * math.sqrt(p * (1 - p) / n + (1 - centre) ** 2 * v0 + centre**2 * v1) / better
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
    """How far a corrected score will be from its bounds, for so many labels on a run of ``rows`` rows."""
    together = value * (1 - value) * (sensitivity + specificity - 1)
    judged = value * sensitivity + (1 - value) * (1 - specificity)
    if 0 < judged < 1:
        explained: float = together**2 / (judged * (1 - judged))
    else:
        explained = 0.0
    left = value * (1 - value) - explained * max(1 - labels / rows, 0.0)
    return z_quantile(confidence) * math.sqrt(max(left, 0.0) / max(labels, 1))
