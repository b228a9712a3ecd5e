"""Work that forges in some runs of its tests and not in others: it is caught more often than it pays. The ways to
decide are data in ``exploits/forging_at_random``; each plays many attempts against the real rounds, with scripted runs.
"""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import TamperError
from nemo_evaluator.environments.schemes import _confirmation
from nemo_evaluator.environments.schemes._confirmation import confirm
from nemo_evaluator.environments.schemes._harbor_tests import TestRun

FORGERS = sorted((Path(__file__).parent / "exploits" / "forging_at_random").glob("*.toml"))
ATTEMPTS = 6000
PASSED = TestRun(1.0)
LOST = TestRun(0.0)


@pytest.fixture(autouse=True)
def _same_orders_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(1)
    monkeypatch.setattr(_confirmation.random, "SystemRandom", lambda: generator)


class Work:
    """One attempt of a forger."""

    def __init__(self, forger: dict[str, Any], chance: random.Random) -> None:
        self._forger = forger
        self._chance = chance
        self.runs = 0

    def forges(self) -> bool:
        """Whether it forges in its next run."""
        self.runs += 1
        if "runs" in self._forger:
            return self.runs in self._forger["runs"]
        return self._chance.random() < self._forger["chance"]

    async def repeat(self) -> TestRun:
        """The same tests again."""
        return PASSED if self.forges() else LOST

    async def challenge(self) -> bool:
        """Tests with planted failures."""
        if self.forges():
            raise TamperError("kept")
        return True


async def outcome(work: Work) -> str:
    """What an attempt gets."""
    if not work.forges():
        return "nothing"
    try:
        confirmation = await confirm(PASSED, repeat=work.repeat, challenge=work.challenge)
    except TamperError:
        return "caught"
    return "reward" if confirmation.run.reward else "nothing"


@pytest.mark.parametrize("path", FORGERS, ids=lambda path: path.stem)
async def test_forging_now_and_then_does_not_pay(path: Path) -> None:
    forger = tomllib.loads(path.read_text())
    chance = random.Random(2)
    outcomes = Counter[str]()
    # Who seldom forges has seldom passed the first run; more attempts give figures as exact.
    attempts = int(ATTEMPTS / forger.get("chance", 1))
    for _ in range(attempts):
        outcomes[await outcome(Work(forger, chance))] += 1
    assert outcomes["reward"] <= forger["most"] * outcomes["caught"], outcomes
    # One per cent of tampered rows makes a run invalid. What a valid run can still gain:
    gain = outcomes["reward"] / attempts * min(1.0, 0.01 / (outcomes["caught"] / attempts))
    assert gain <= 0.01, outcomes


def test_there_are_forgers_of_both_kinds() -> None:
    kinds = {"chance" in tomllib.loads(path.read_text()) for path in FORGERS}
    assert len(FORGERS) >= 8
    assert kinds == {True, False}
