"""Confirm a success: the same tests pass again, and tests with planted failures do not.

Work that forges its reward now and then has to forge in every repetition and in no challenge. It cannot tell one from
the other, and each attempt has an order of its own, so that neither a clock nor a count of the runs helps it.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from nemo_evaluator.environments.schemes._harbor_tests import TestRun

_REPETITIONS: Final = 1
_CHALLENGES: Final = 2
# Added when a repetition loses the reward: flaky tests keep it in most repetitions, and lose it in every challenge.
_MORE_REPETITIONS: Final = 3
_MORE_CHALLENGES: Final = 3


class Round(Enum):
    """One more verification of a success."""

    REPETITION = auto()
    CHALLENGE = auto()


@dataclass(slots=True)
class Rounds:
    """The remaining verifications of one success, in an order that nobody can predict."""

    remaining: list[Round] = field(default_factory=list)
    is_extended: bool = False

    def __post_init__(self) -> None:
        self._add(_REPETITIONS, _CHALLENGES)

    def extend(self) -> None:
        """Add the rounds that tell flaky tests from work that forges now and then; only once."""
        if not self.is_extended:
            self.is_extended = True
            self._add(_MORE_REPETITIONS, _MORE_CHALLENGES)

    def _add(self, repetitions: int, challenges: int) -> None:
        self.remaining += [Round.REPETITION] * repetitions
        self.remaining += [Round.CHALLENGE] * challenges
        # The system's generator: its state cannot be inferred from earlier orders.
        random.SystemRandom().shuffle(self.remaining)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the rounds have shown.

    Attributes:
        run: The run whose verdict stands: the first, unless repetitions differ.
        challenged: Whether the reward was lost in challenges.
        differing_runs: All runs of the same tests if a repetition lost the reward; empty otherwise.
    """

    run: TestRun
    challenged: bool
    differing_runs: list[TestRun]


async def confirm(
    first: TestRun,
    *,
    repeat: Callable[[], Awaitable[TestRun]],
    challenge: Callable[[], Awaitable[bool]],
) -> Confirmation:
    """Verify a success again.

    Args:
        first: The run that succeeded.
        repeat: Runs the same tests on the same work.
        challenge: Verifies with planted failures, and returns whether the reward was lost; False if the tests do not
            decide it. Raises TamperError if work kept a reward that the tests decide.

    Returns:
        The confirmation. If repetitions differ, the run with the median reward stands, of two the lower one.
    """
    rounds = Rounds()
    runs = [first]
    while rounds.remaining:
        if rounds.remaining.pop() is Round.REPETITION:
            repeated_run = await repeat()
            runs.append(repeated_run)
            if _reward(repeated_run) < _reward(first):
                rounds.extend()
        elif not await challenge():
            # Nothing tells a forged reward from an earned one here, and so repetitions do not, either.
            return Confirmation(first, challenged=False, differing_runs=[])
    if not rounds.is_extended:
        return Confirmation(first, challenged=True, differing_runs=[])
    runs_by_reward = sorted(runs, key=_reward)
    median_run = runs_by_reward[(len(runs) - 1) // 2]
    return Confirmation(median_run, challenged=True, differing_runs=runs)


def _reward(run: TestRun) -> float:
    """Return a run's reward; minus infinity without a proper one."""
    return float("-inf") if run.reward is None else run.reward
