"""Running counts of a benchmark, read by the progress display and by early stopping."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.models.health import Health

if TYPE_CHECKING:
    from nemo_evaluator.store.journal_record import OutcomeRecord


@dataclass(slots=True)
class Tally:
    """Counts over the steps whose records are in the journal.

    Attributes:
        planned: Steps in the plan.
        reused: Steps taken over from earlier sessions.
        scored: Steps with a score.
        reward_sum: Sum of their rewards.
        fractional: Whether a reward other than 0 and 1 occurred.
        tokens: Tokens used.
        cost_usd: Cost of the requests.
        in_flight: Steps that are running now.
        failed: Failed steps, by cause.
        health: Whether the model server is responding.
        started: The monotonic time at which counting began.
    """

    planned: int = 0
    reused: int = 0
    scored: int = 0
    reward_sum: float = 0.0
    fractional: bool = False
    tokens: int = 0
    cost_usd: float = 0.0
    in_flight: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    health: Health = field(default_factory=Health)
    started: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> int:
        """The number of steps that were scored or failed."""
        return self.scored + sum(self.failed.values())

    @property
    def mean_reward(self) -> float | None:
        """The mean reward of the scored steps; None if there are none."""
        return self.reward_sum / self.scored if self.scored else None

    @property
    def rate(self) -> float:
        """Steps per second in this session, without the reused ones."""
        elapsed = time.monotonic() - self.started
        return (self.done - self.reused) / elapsed if elapsed > 0 else 0.0

    @property
    def eta_seconds(self) -> float | None:
        """Estimated seconds until all steps are done; None while the rate is unknown."""
        return (self.planned - self.done) / self.rate if self.rate > 0 else None

    def add(self, outcome: OutcomeRecord, tokens: int = 0, cost_usd: float = 0.0) -> None:
        """Count a step.

        Args:
            outcome: The record of its outcome.
            tokens: The tokens it used.
            cost_usd: The cost of its requests.
        """
        if outcome["status"] == "scored":
            reward = outcome["reward"]
            self.scored += 1
            self.reward_sum += reward
            self.fractional = self.fractional or reward not in (0.0, 1.0)
        else:
            self.failed[outcome["failure"]["cause"]] += 1
        self.tokens += tokens
        self.cost_usd += cost_usd
