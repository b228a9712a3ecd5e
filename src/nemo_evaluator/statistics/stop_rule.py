"""The rule that ends a run as soon as its question is answered.

Looking after every problem does not raise the error rate, because the rule uses confidence sequences.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nemo_evaluator.statistics._scipy import t_quantile
from nemo_evaluator.statistics.alpha_spending import ENDED, LOOKING, Reading
from nemo_evaluator.statistics.difference import mean_difference
from nemo_evaluator.statistics.intervals import Interval, wilson
from nemo_evaluator.statistics.power import MOST_PROBLEMS, first
from nemo_evaluator.statistics.sequential import MeanSequence

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import RuleInterval, RuleSummary


@dataclass(frozen=True, slots=True)
class Baseline:
    """The run that a running evaluation is compared with.

    Attributes:
        rewards: The mean reward of each problem, by problem hash.
        max_drop: The largest acceptable drop.
        name: The name of the run in messages.
    """

    rewards: Mapping[str, float]
    max_drop: float
    name: str = "the baseline"


class StopRule:
    """Takes problems one by one, in the order of the plan; ``add`` returns the reason once the run may stop.

    A failed answer could have had any reward. It counts as the worst case for each side, so failures can delay a
    decision but never cause one.

    Attributes:
        enough: With this many problems the usual interval is at most ``interval_width`` wide, whatever the score. The
            number is known in advance, so it counts as a planned end, where the last look is taken. None without a
            width.
        reason: Why the run may stop; None while it may not.
        note: Why the rule does not apply; None when it does.
        last_look: Whether the run stopped at ``enough`` problems.
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
            self.enough = _problems_for_width(interval_width, confidence)
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
        self._answers = 0
        self._scored = 0
        self._next_look = min_problems
        self._next_width = 0

    def add(self, problem: str, rewards: Sequence[float | None]) -> str | None:
        """Add all answers to one problem.

        Args:
            problem: The problem's hash.
            rewards: The rewards of its answers, None for a failed answer.

        Returns:
            The reason to stop; None to continue.
        """
        if self.reason is not None or self.note is not None:
            return self.reason
        scored = [reward for reward in rewards if reward is not None]
        outside = next((reward for reward in scored if not 0.0 <= reward <= 1.0), None)
        if outside is not None:
            self.note = (
                f"not applied: a reward of {outside:g} is outside [0, 1], where the rule holds"
            )
            return None
        self._answers += len(rewards)
        self._scored += len(scored)
        self._add_problem(problem, scored, answers=len(rewards))
        coverage_too_low = self._scored < self.min_coverage * self._answers
        if coverage_too_low or self._score.known < self.min_problems:
            return None
        if self.enough is not None and self._score.known >= self.enough:
            self.last_look = True
            self.reason = f"{self.enough} problems make the interval at most {self.interval_width:g} wide at any score"
        elif self._score.n >= self._next_look:
            # Waiting for 1 % more problems loses almost nothing and keeps the cost of looking flat.
            self._next_look = math.ceil(self._score.n * 1.01)
            self.reason = self._decision() or self._narrow_enough()
        return self.reason

    def _add_problem(self, problem: str, scored: list[float], *, answers: int) -> None:
        """Add a finished problem to the score, and to the difference if the baseline has it."""
        total = sum(scored)
        failed = answers - len(scored)
        low = total / answers
        high = (total + failed) / answers
        self._score.add_between(low, high)
        # A problem that the dataset holds twice is paired once.
        baseline_reward = self._unpaired.pop(problem, None)
        if baseline_reward is None or self.baseline is None:
            return
        if not 0.0 <= baseline_reward <= 1.0:
            self.note = (
                f"not applied: a baseline reward of {baseline_reward:g} is outside [0, 1],"
                " where the rule holds"
            )
            return
        self._least.append(low - baseline_reward)
        self._most.append(high - baseline_reward)
        if failed:
            # Where the baseline is so low that a drop beyond the limit is impossible, a failure must not count as
            # evidence for "not worse".
            low = min(low, baseline_reward - self.baseline.max_drop)
        self._difference.add_between(low - baseline_reward, high - baseline_reward)

    def _decision(self) -> str | None:
        """The verdict of the confidence sequence, if it has one."""
        if self.baseline is None or self._difference.known < self.min_problems:
            return None
        limit = -self.baseline.max_drop
        # Only the side on which the mean lies can be proved.
        if self._difference.mean > limit:
            return self._verdict(not_worse=self._difference.above(limit), worse=False)
        return self._verdict(not_worse=False, worse=self._difference.below(limit))

    def _verdict(self, *, not_worse: bool, worse: bool) -> str | None:
        """The decision as a sentence, if one of the two is proved."""
        if self.baseline is None or not (not_worse or worse):
            return None
        comparison = "not worse" if not_worse else "worse"
        return f"{comparison} than {self.baseline.name} by more than {self.baseline.max_drop:g}: proved"

    def _narrow_enough(self) -> str | None:
        """The reason to stop when the interval is narrow enough."""
        n = self._score.n
        if self.interval_width is None or n < self._next_width:
            return None
        width = self._score.interval().width or 0.0
        if width <= self.interval_width:
            return (
                f"the interval is {width:.4f} wide, at most {self.interval_width:g} was asked for"
            )
        # Half the width needs at least twice the problems (four times, far from 0 and 1); an earlier look is useless.
        self._next_width = math.floor(n * width / self.interval_width)
        return None

    def end(self, planned: int) -> int:
        """The last problem of a run of ``planned`` problems: ``enough``, if that comes first."""
        if self.enough is None:
            return planned
        return min(planned, self.enough)

    def forgo_last_look(self) -> None:
        """Give up the last look, because the end was moved and an earlier session may have taken it."""
        self.enough = None

    def summary(self, *, ended: bool = False) -> RuleSummary:
        """The bundle's entry about the rule: settings, data and decision.

        Args:
            ended: Whether the run reached its planned end, so that the last look is due.
        """
        out: RuleSummary = {
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
            out["rule"]["decided_against"] = self.baseline.name
            out["rule"]["max_drop"] = self.baseline.max_drop
            interval: Interval | None = None
            if self.last_look or (ended and self.reason is None):
                interval, decision = self._last_look_result()
            else:
                decision = self._decision()
            if interval is None:
                interval = self._difference.interval()
            out["difference"] = {**_bounds(interval), "paired": self._difference.n}
            out["decision"] = decision
            if self._score.n and not self._difference.n and not self.note:
                self.note = f"no problem of this run is in {self.baseline.name}: nothing to decide"
        if self.note:
            out["note"] = self.note
        if self.last_look:
            out["last_look"] = True
        return out

    def _last_look_result(self) -> tuple[Interval | None, str | None]:
        """Interval and verdict of all planned problems, with the share of the error that was reserved for them."""
        if self.baseline is None or not self._least or self.note is not None:
            return None, None
        least = _last_reading(self._least)
        most = _last_reading(self._most)
        limit = -self.baseline.max_drop
        alpha = (1 - self.confidence) / 2
        verdict = self._verdict(
            not_worse=least.p_above(limit) <= alpha, worse=most.p_below(limit) <= alpha
        )
        low = least.interval(self.confidence)
        high = most.interval(self.confidence)
        mean = self._difference.mean
        interval = Interval(mean, low.lower, high.upper, method=low.method, n=low.n)
        return interval, verdict


def _last_reading(differences: array[float]) -> Reading:
    """The evidence of all differences at the planned end."""
    values = np.frombuffer(differences, dtype=np.float64)
    return ENDED.reading(values, mean_difference(values, bounded=True))


def _problems_for_width(width: float, confidence: float) -> int | None:
    """Problems that make the last look's interval at most ``width`` wide at a score of one half, where it is widest."""
    level = 1 - (1 - confidence) * ENDED.last

    def narrow(n: int) -> bool:
        quantile = t_quantile(0.5 + level / 2, n - 1)
        interval = wilson(n / 2, n, quantile=quantile)
        return (interval.width or 1.0) <= width

    return first(narrow, 2, MOST_PROBLEMS)


def _bounds(interval: Interval) -> RuleInterval:
    """An interval as the bundle's entry has it."""
    return {
        "value": None if math.isnan(interval.value) else round(interval.value, 6),
        "ci_lower": interval.lower,
        "ci_upper": interval.upper,
        "ci_method": interval.method,
    }
