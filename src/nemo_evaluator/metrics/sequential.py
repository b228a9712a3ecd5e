"""Looking as often as one likes: confidence sequences, and the rule that ends a run early.

The bounds come from bets against each possible mean (Waudby-Smith and Ramdas 2024): a gambler who stakes a share u of
his money on "the mean is above m" can multiply it by 2/alpha, ever, with probability alpha/2 at most when it is not.
A mixture over shares makes the bet fit effects of any size, and wealth is monotone in m, so the bound is a root.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.metrics.groups import Floats
from nemo_evaluator.metrics.intervals import Interval

# Values are counted in bins; a value between two is rounded against us on both sides, so the bounds stay valid.
_BINS: Final = 4800
_GRID: Final = np.arange(_BINS + 1) / _BINS
# Larger stakes get more of the money: they win the comparisons that can be won early, with hundreds of problems.
SHARES: Final = np.geomspace(0.004, 0.8, 11)
LOG_WEIGHTS: Final = np.log(np.sqrt(SHARES) / np.sqrt(SHARES).sum())


class MeanSequence:
    """An anytime-valid interval for the mean of values in [low, high], fed one value or many at a time."""

    def __init__(self, *, low: float = 0.0, high: float = 1.0, confidence: float = 0.95) -> None:
        self.low, self.high, self.confidence = low, high, confidence
        self.n = 0
        self._total = 0.0
        self._floor = np.zeros(_BINS + 1, dtype=np.int64)
        self._ceil = np.zeros(_BINS + 1, dtype=np.int64)

    def add(self, values: float | Iterable[float] | Floats) -> None:
        """Take further values; one outside the range is an error."""
        data = np.atleast_1d(np.asarray(values, dtype=np.float64))
        unit = (data - self.low) / (self.high - self.low)
        if len(unit) and not (unit.min() >= -1e-9 and unit.max() <= 1 + 1e-9):
            raise ValueError(f"a value outside [{self.low}, {self.high}]")
        scaled = np.clip(unit, 0.0, 1.0) * _BINS
        np.add.at(self._floor, np.floor(scaled + 1e-7).astype(np.int64), 1)
        np.add.at(self._ceil, np.ceil(scaled - 1e-7).astype(np.int64), 1)
        self.n += len(data)
        self._total += float(data.sum())

    @property
    def mean(self) -> float:
        """The mean so far."""
        return self._total / self.n if self.n else math.nan

    def p_above(self, value: float) -> float:
        """Anytime-valid one-sided p-value of "the true mean is not above ``value``": one over the wealth."""
        return math.exp(-max(0.0, self._wealth_above(self._unit(value))))

    def p_below(self, value: float) -> float:
        """Anytime-valid one-sided p-value of "the true mean is not below ``value``"."""
        return math.exp(-max(0.0, self._wealth_below(self._unit(value))))

    def above(self, value: float) -> bool:
        """Whether the true mean is proved to be above ``value``, now and under any peeking."""
        return self.p_above(value) <= (1 - self.confidence) / 2

    def below(self, value: float) -> bool:
        """Whether the true mean is proved to be below ``value``."""
        return self.p_below(value) <= (1 - self.confidence) / 2

    def _unit(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def interval(self) -> Interval:
        """The bounds so far."""
        if not self.n:
            return Interval(math.nan, self.low, self.high, "betting", 0)
        span, mean = self.high - self.low, (self.mean - self.low) / (self.high - self.low)
        lower = _edge(lambda m: self._wealth_above(m) >= self._goal, 0.0, mean)
        upper = _edge(lambda m: self._wealth_below(m) >= self._goal, 1.0, mean)
        return Interval(self.mean, self.low + span * lower, self.low + span * upper, "betting", self.n)

    @property
    def _goal(self) -> float:
        return math.log(2 / (1 - self.confidence))

    def _wealth_above(self, m: float) -> float:
        return _log_wealth(self._floor, _GRID, m)

    def _wealth_below(self, m: float) -> float:
        return _log_wealth(self._ceil, 1 - _GRID, 1 - m)


def _log_wealth(counts: np.ndarray, values: Floats, m: float) -> float:
    """Log of the mixed wealth of bets that the mean of ``values`` (in bins of ``counts``) is above ``m``."""
    if m <= 0.0:
        return math.inf if bool((counts[values > 0] > 0).any()) else 0.0
    if m > 1.0:
        return 0.0
    bins = np.flatnonzero(counts)
    gains = np.log1p(np.outer(SHARES, values[bins] / m - 1)) @ counts[bins] + LOG_WEIGHTS
    top = float(gains.max())
    return top + math.log(float(np.exp(gains - top).sum()))


def _edge(rejects: Callable[[float], bool], far: float, near: float) -> float:
    """The border between rejected means (from ``far``) and kept ones (towards ``near``)."""
    if not rejects(far):
        return far
    low, high = far, near
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if rejects(middle) else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a run is compared with while it goes on: the mean reward of each problem, by problem hash."""

    rewards: Mapping[str, float]
    max_drop: float
    name: str = "the baseline"


class StopRule:
    """Ends a run as soon as its question is answered; peeking after every answer costs nothing in error.

    A problem counts when all its repeats are in. ``add`` returns the reason once the rule allows to stop.
    """

    def __init__(
        self,
        *,
        interval_width: float | None = None,
        baseline: Baseline | None = None,
        confidence: float = 0.95,
        min_problems: int = 30,
        repeats: int = 1,
    ) -> None:
        if interval_width is None and baseline is None:
            raise ValueError("a stop rule needs interval_width, a baseline, or both")
        self.interval_width, self.baseline = interval_width, baseline
        self.min_problems, self.repeats = min_problems, max(1, repeats)
        self.reason: str | None = None
        self.note: str | None = None
        self._score = MeanSequence(confidence=confidence)
        self._difference = MeanSequence(low=-1.0, high=1.0, confidence=confidence)
        self._open: dict[str, dict[int, float]] = {}
        self._next_look = min_problems

    def add(self, problem: str, repeat: int, reward: float) -> str | None:
        """Take one scored answer; the reason to stop, or ``None``."""
        if self.reason is not None or self.note is not None:
            return self.reason
        if not 0.0 <= reward <= 1.0:
            self.note = f"not applied: a reward of {reward:g} is outside [0, 1], where the rule holds"
            return None
        answers = self._open.setdefault(problem, {})
        answers[repeat] = reward
        if len(answers) < self.repeats:
            return None
        del self._open[problem]
        self._take(problem, sum(answers.values()) / len(answers))
        self.reason = self._decided() or self._narrow()
        return self.reason

    def _take(self, problem: str, reward: float) -> None:
        self._score.add(reward)
        known = None if self.baseline is None else self.baseline.rewards.get(problem)
        if known is not None:
            if 0.0 <= known <= 1.0:
                self._difference.add(reward - known)
            else:
                self.note = f"not applied: a baseline reward of {known:g} is outside [0, 1], where the rule holds"

    def _decided(self) -> str | None:
        if self.baseline is None or self._difference.n < self.min_problems:
            return None
        limit = -self.baseline.max_drop
        if self._difference.above(limit):
            return f"not worse than {self.baseline.name} by more than {self.baseline.max_drop:g}: proved"
        if self._difference.below(limit):
            return f"worse than {self.baseline.name} by more than {self.baseline.max_drop:g}: proved"
        return None

    def _narrow(self) -> str | None:
        if self.interval_width is None or self._score.n < self._next_look:
            return None
        # Looking again after 2 % more problems loses next to nothing and keeps the cost of looking flat.
        self._next_look = max(self._score.n + 1, math.ceil(self._score.n * 1.02))
        width = self._score.interval().width
        if width is not None and width <= self.interval_width:
            return f"the interval is {width:.4f} wide, at most {self.interval_width:g} was asked for"
        return None

    def summary(self, planned: int | None = None) -> JsonDict:
        """What the bundle says about the rule: its settings, what it saw, why it stopped, what that saved."""
        score, seen = self._score.interval(), self._score.n
        out: JsonDict = {
            "rule": {"interval_width": self.interval_width, "min_problems": self.min_problems},
            "confidence": self._score.confidence,
            "stopped": self.reason is not None,
            "reason": self.reason,
            "problems": seen,
            "score": _bounds(score),
        }
        if self.note:
            out["note"] = self.note
        if self.baseline is not None:
            out["rule"] |= {"decided_against": self.baseline.name, "max_drop": self.baseline.max_drop}
            out["difference"] = _bounds(self._difference.interval()) | {"paired": self._difference.n}
        if planned:
            out["planned"] = planned
            out["saved_share"] = round(max(0.0, 1 - seen / planned), 4)
        return out


def _bounds(interval: Interval) -> JsonDict:
    return {
        "value": None if math.isnan(interval.value) else round(interval.value, 6),
        "ci_lower": interval.lower,
        "ci_upper": interval.upper,
        "ci_method": interval.method,
    }
