"""A success is confirmed in an unpredictable order, and flaky tests are told from forged rewards."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nemo_evaluator.core.errors import ScorerError, TamperError
from nemo_evaluator.environments.schemes._confirmation import Confirmation, Round, Rounds, confirm
from nemo_evaluator.environments.schemes._harbor_tests import TestRun


class Script:
    """Repetitions with given rewards; challenges that are lost unless stated otherwise."""

    def __init__(self, rewards: Sequence[float | None], lost: Sequence[bool] = ()) -> None:
        self.rewards = list(rewards)
        self.lost = list(lost)
        self.calls: list[str] = []

    async def repeat(self) -> TestRun:
        """Give the next reward."""
        self.calls.append("repeat")
        reward = self.rewards.pop(0)
        return TestRun(reward, failure=None if reward is not None else ScorerError("no reward"))

    async def challenge(self) -> bool:
        """Give the next outcome."""
        self.calls.append("challenge")
        return self.lost.pop(0) if self.lost else True

    async def confirm(self, first: float = 1.0) -> Confirmation:
        """Confirm a first run."""
        return await confirm(TestRun(first), repeat=self.repeat, challenge=self.challenge)


async def test_a_steady_success_stands_after_one_repetition_and_two_challenges() -> None:
    script = Script([1.0])
    confirmation = await script.confirm()
    assert confirmation == Confirmation(TestRun(1.0), challenged=True, differing_runs=[])
    assert sorted(script.calls) == ["challenge", "challenge", "repeat"]


def test_the_order_is_drawn_anew() -> None:
    orders = {tuple(Rounds().remaining) for _ in range(200)}
    assert len(orders) == 3
    assert all(order.count(Round.CHALLENGE) == 2 for order in orders)


@pytest.mark.parametrize(
    ("rewards", "reward"),
    [
        ([0.0, 1.0, 1.0, 1.0], 1.0),
        ([0.0, 1.0, 0.0, 1.0], 1.0),
        ([0.0, 0.0, 1.0, 0.0], 0.0),
        ([None, None, None, 1.0], None),
        ([0.9, 1.1, 0.8, 0.95], 0.95),
    ],
)
async def test_where_repetitions_differ_most_of_them_decide(
    rewards: list[float | None], reward: float | None
) -> None:
    script = Script(rewards)
    confirmation = await script.confirm()
    assert confirmation.run.reward == reward
    assert [run.reward for run in confirmation.differing_runs] == [1.0, *rewards]
    assert (script.calls.count("repeat"), script.calls.count("challenge")) == (4, 5)


async def test_a_higher_reward_in_a_repetition_changes_nothing() -> None:
    confirmation = await Script([0.75]).confirm(0.5)
    assert confirmation == Confirmation(TestRun(0.5), challenged=True, differing_runs=[])


async def test_where_challenges_show_nothing_the_first_run_stands() -> None:
    script = Script([0.0, 0.0, 0.0, 0.0], lost=[False])
    confirmation = await script.confirm()
    assert confirmation == Confirmation(TestRun(1.0), challenged=False, differing_runs=[])
    assert script.calls.count("challenge") == 1


async def test_a_reward_that_a_challenge_does_not_take_is_no_reward() -> None:
    async def kept() -> bool:
        raise TamperError("kept")

    with pytest.raises(TamperError):
        await confirm(TestRun(1.0), repeat=Script([1.0]).repeat, challenge=kept)
