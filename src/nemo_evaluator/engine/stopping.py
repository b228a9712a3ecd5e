"""A stop rule sees the answers in the order of the plan, not in the order in which they happen to arrive.

Fast answers are not like slow ones; a rule that looked at arrivals would be fooled by latency.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nemo_evaluator.core.types import Step

if TYPE_CHECKING:
    from nemo_evaluator.metrics.sequential import StopRule


class OrderedStop:
    """Holds results back until every step before them in the plan has ended; memory is that of the steps at work."""

    def __init__(self, rule: StopRule, steps: Iterator[Step]) -> None:
        self._rule = rule
        self._steps = steps
        self._next = next(steps, None)
        self._early: dict[Step, tuple[str, float | None]] = {}

    def ended(self, step: Step, problem: str, reward: float | None) -> str | None:
        """A step has ended (``reward`` is None when it failed); the reason to stop, once there is one."""
        self._early[step] = (problem, reward)
        while self._next is not None and self._next in self._early:
            step = self._next
            problem, reward = self._early.pop(step)
            self._next = next(self._steps, None)
            if reward is not None:
                reason = self._rule.add(problem, step.repeat, reward)
                if reason is not None:
                    return reason
        return None
