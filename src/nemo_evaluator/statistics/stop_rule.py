"""The rule that ends a run as soon as its question is answered; looking after every problem costs nothing in error."""

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.statistics._scipy import t_quantile
from nemo_evaluator.statistics.alpha_spending import ENDED, LOOKING
from nemo_evaluator.statistics.difference import mean_difference
from nemo_evaluator.statistics.intervals import Interval, wilson
from nemo_evaluator.statistics.power import MOST_PROBLEMS, first
from nemo_evaluator.statistics.sequential import MeanSequence


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a run is compared with while it goes on: the mean reward of each problem, by problem hash."""

    rewards: Mapping[str, float]
    max_drop: float
    name: str = "the baseline"


class StopRule:
    """Takes problems one by one, in the order of the plan; ``add`` returns the reason once it allows to stop.

    An answer that failed may have been anything: it counts as the worst for whatever is to be proved, so failures can
    delay a decision and never make one.

    ``enough`` problems make the usual interval as narrow as was asked, whatever the score. That number is known
    beforehand, so it is a planned end, and the look that is kept for the end is taken there.
    """

    def __init__(
        self,
        *,
        interval_width: float | None = None,
        baseline: Baseline | None = None,
        confidence: float = 0.95,
        min_problems: int = 30,
        min_coverage: float = 0.0,
    ) -> None:
        if interval_width is None and baseline is None:
            raise ValueError("a stop rule needs interval_width, a baseline, or both")
        self.interval_width = interval_width
        self.baseline = baseline
        self.confidence = confidence
        self.min_problems = min_problems
        self.min_coverage = min_coverage
        if interval_width is None:
            self.enough: int | None = None
        else:
            self.enough = _enough(interval_width, confidence)
        self.reason: str | None = None
        self.note: str | None = None
        self.last_look = False
        looking = 1 - (1 - confidence) * LOOKING
        self._score = MeanSequence(confidence=looking)
        self._difference = MeanSequence(low=-1.0, high=1.0, confidence=looking)
        # For the look at the planned end: the least and the most that each difference can be.
        self._least = array("d")
        self._most = array("d")
        if baseline is not None:
            self._unpaired = dict(baseline.rewards)
        else:
            self._unpaired = {}
        self._answers = self._scored = 0
        self._next_look = min_problems
        self._next_width = 0

    def add(self, problem: str, rewards: Sequence[float | None]) -> str | None:
        """Take all answers to one problem, None for one that failed; the reason to stop, or ``None``."""
        if self.reason is not None or self.note is not None:
            return self.reason
        scored = [reward for reward in rewards if reward is not None]
        outside = next((reward for reward in scored if not 0.0 <= reward <= 1.0), None)
        if outside is not None:
            self.note = (
                f"not applied: a reward of {outside:g} is outside [0, 1], where the rule holds"
            )
            return None
        self._answers = self._answers + len(rewards)
        self._scored = self._scored + len(scored)
        self._take(problem, scored, len(rewards))
        if (
            self._scored < self.min_coverage * self._answers
            or self._score.known < self.min_problems
        ):
            return None
        if self.enough is not None and self._score.known >= self.enough:
            self.last_look = True
            self.reason = f"{self.enough} problems make the interval at most {self.interval_width:g} wide at any score"
        elif self._score.n >= self._next_look:
            # Looking again after 1 % more problems loses next to nothing and keeps the cost of looking flat.
            self._next_look = math.ceil(self._score.n * 1.01)
            self.reason = self._decided() or self._narrow()
        return self.reason

    def _take(self, problem: str, scored: list[float], asked: int) -> None:
        total = sum(scored)
        failed = asked - len(scored)
        low = total / asked
        high = (total + failed) / asked
        self._score.add_between(low, high)
        # A problem that the dataset holds twice says nothing new the second time.
        known = self._unpaired.pop(problem, None)
        if known is None or self.baseline is None:
            return
        if not 0.0 <= known <= 1.0:
            self.note = f"not applied: a baseline reward of {known:g} is outside [0, 1], where the rule holds"
            return
        self._least.append(low - known)
        self._most.append(high - known)
        if failed:
            # Not even where the baseline was so low that no drop beyond the limit is possible does a failure help.
            low = min(low, known - self.baseline.max_drop)
        self._difference.add_between(low - known, high - known)

    def _decided(self) -> str | None:
        if self.baseline is None or self._difference.known < self.min_problems:
            return None
        limit = -self.baseline.max_drop
        found = self._difference
        # Only the side on which the mean lies can be proved.
        better = found.mean > limit
        return self._verdict(better and found.above(limit), not better and found.below(limit))

    def _verdict(self, above: bool, below: bool) -> str | None:
        if self.baseline is None or not (above or below):
            return None
        comparison = "not worse" if above else "worse"
        return f"{comparison} than {self.baseline.name} by more than {self.baseline.max_drop:g}: proved"

    def _narrow(self) -> str | None:
        n = self._score.n
        if self.interval_width is None or n < self._next_width:
            return None
        width = self._score.interval().width or 0.0
        if width <= self.interval_width:
            return (
                f"the interval is {width:.4f} wide, at most {self.interval_width:g} was asked for"
            )
        # Half as wide takes at least twice as many (four times, far from 0 and 1): until then it is not worth a look.
        self._next_width = math.floor(n * width / self.interval_width)
        return None

    def end(self, planned: int) -> int:
        """Where a run of so many problems ends at the latest."""
        if self.enough is None:
            return planned
        return min(planned, self.enough)

    def forgo_last_look(self) -> None:
        """The end was moved: an earlier session has taken the look that was kept for it, or could have."""
        self.enough = None

    def summary(self, *, ended: bool = False) -> JsonDict:
        """What the bundle says about the rule: its settings, what it saw, what it decided. ``ended``: every planned
        problem was asked, so the last look is due."""
        out: JsonDict = {
            "rule": {"interval_width": self.interval_width, "min_problems": self.min_problems},
            "confidence": self.confidence,
            "spent_on_looking": LOOKING,
            "stopped": self.reason is not None,
            "reason": self.reason,
            "problems": self._score.n,
            "failed_answers": self._answers - self._scored,
        }
        if not self.last_look:
            out["score"] = _bounds(self._score.interval())
        if self.baseline is not None:
            out["rule"] |= {
                "decided_against": self.baseline.name,
                "max_drop": self.baseline.max_drop,
            }
            last = self.last_look or (ended and self.reason is None)
            found, decision = self._last_look() if last else (None, self._decided())
            if found is None:
                interval = self._difference.interval()
            else:
                interval = found
            out["difference"] = _bounds(interval) | {"paired": self._difference.n}
            out["decision"] = decision
            if self._score.n and not self._difference.n:
                self.note = (
                    self.note
                    or f"no problem that was asked is in {self.baseline.name}: nothing to decide"
                )
        if self.note:
            out["note"] = self.note
        return out | {"last_look": True} if self.last_look else out

    def _last_look(self) -> tuple[Interval | None, str | None]:
        """What all of the planned problems say, with the error that was kept for this."""
        if self.baseline is None or not self._least or self.note is not None:
            return None, None
        ends = (np.frombuffer(side, dtype=np.float64) for side in (self._least, self._most))
        least, most = (
            ENDED.reading(values, mean_difference(values, bounded=True)) for values in ends
        )
        limit = -self.baseline.max_drop
        alpha = (1 - self.confidence) / 2
        low = least.interval(self.confidence)
        high = most.interval(self.confidence)
        found = Interval(self._difference.mean, low.lower, high.upper, method=low.method, n=low.n)
        return found, self._verdict(least.p_above(limit) <= alpha, most.p_below(limit) <= alpha)


def _enough(width: float, confidence: float) -> int | None:
    """Problems that make the interval of the last look at most so wide where it is widest, at a score of one half."""
    level = 1 - (1 - confidence) * ENDED.last

    def narrow(n: int) -> bool:
        return (wilson(n / 2, n, quantile=t_quantile(0.5 + level / 2, n - 1)).width or 1.0) <= width

    return first(narrow, 2, MOST_PROBLEMS)


def _bounds(interval: Interval) -> JsonDict:
    return {
        "value": None if math.isnan(interval.value) else round(interval.value, 6),
        "ci_lower": interval.lower,
        "ci_upper": interval.upper,
        "ci_method": interval.method,
    }
