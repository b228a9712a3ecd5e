"""Shows answers to a stop rule in the order of the plan, not in the order in which they arrive.

Fast answers differ from slow ones, so a rule that used the order of arrival would be biased by latency. The rule
therefore shortens the plan: only the problems up to the one that settled it count, even if others were in progress.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.types import Step
from nemo_evaluator.engine.plan import Plan
from nemo_evaluator.store.index import StepIndex
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.records import total_tokens

if TYPE_CHECKING:
    from nemo_evaluator.statistics.stop_rule import StopRule
    from nemo_evaluator.store.bundle_document import UnusedAnswers

_ROUNDS: Final = 2


class OrderedStop:
    """Holds results back until every earlier step in the plan has ended; memory is limited by the steps in progress.

    A slow step delays the rule. To limit the requests sent meanwhile, no step is started while two rounds of
    ``max_concurrent`` results are held back.
    """

    def __init__(self, rule: StopRule, plan: Plan, max_concurrent: int) -> None:
        """Create the queue.

        Args:
            rule: The stop rule.
            plan: The steps.
            max_concurrent: The concurrency of the benchmark.
        """
        self._rule = rule
        self._repeats = plan.repeats
        # The maximum and the current number of results of this session that are held back.
        self._most_held = _ROUNDS * max_concurrent
        self._held = 0
        self._moved = asyncio.Event()
        self._steps = plan.steps()
        self._next = next(self._steps, None)
        self._early: dict[Step, tuple[str, float | None, bool]] = {}
        self._answers: list[float | None] = []
        # The number of problems that the rule has seen.
        self.problems = 0

    async def room(self) -> None:
        """Wait until a further step may be started."""
        while self.full:
            self._moved.clear()
            await self._moved.wait()

    @property
    def full(self) -> bool:
        """True while no further step may be started."""
        return self._held >= self._most_held and self._rule.reason is None

    def ended(
        self, step: Step, problem: str, reward: float | None, *, fresh: bool = True
    ) -> str | None:
        """Add the result of a step, and show the rule all results that are now in order.

        Args:
            step: The step.
            problem: The hash of its problem.
            reward: Its reward; None if it failed.
            fresh: Whether it is a result of this session; only these are limited in number.

        Returns:
            The reason to stop; None while there is none.
        """
        if self._rule.reason is not None:
            return self._rule.reason
        self._early[step] = (problem, reward, fresh)
        self._held += fresh
        self._moved.set()
        while self._next is not None and self._next in self._early:
            problem, reward, fresh = self._early.pop(self._next)
            self._held -= fresh
            self._next = next(self._steps, None)
            self._answers.append(reward)
            if len(self._answers) == self._repeats:
                answers = self._answers
                self._answers = []
                self.problems += 1
                if self._rule.add(problem, answers) is not None:
                    return self._rule.reason
        return None


def unused_answers(plan: Plan, used: int, index: StepIndex, journal: Journal) -> UnusedAnswers:
    """Count the answers beyond the first ``used`` problems, which were in progress when the rule stopped the run."""
    answers = 0
    tokens = 0
    cost_usd = 0.0
    for step in plan.steps(start=used):
        offset = index.answer(step)
        if offset is None:
            continue
        record = journal.answer_at(offset)
        answers += 1
        tokens += total_tokens(record)
        cost_usd = round(cost_usd + (record.get("cost_usd") or 0.0), 6)
    return {"answers": answers, "tokens": tokens, "cost_usd": cost_usd}
