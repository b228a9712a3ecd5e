"""Challenges of a success: with planted failures and with traps in turn, and what follows if the reward is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import TamperError
from nemo_evaluator.environments.schemes._harbor_challenge import Challenge
from nemo_evaluator.environments.schemes._harbor_task import HarborTask
from nemo_evaluator.environments.schemes._harbor_tests import TestRun

TASKS = Path(__file__).parents[2] / "redteam" / "exploits" / "agent_tasks"
PASSED = TestRun(1.0)
LOST = TestRun(0.0)


def text_of(folder: Path) -> str:
    """The text of all tests in a folder."""
    return "".join(path.read_text() for path in sorted(folder.rglob("*")) if path.is_file())


@dataclass
class Runs:
    """Runs of tests that pass if the work, or the known solution, is said to pass them."""

    task: HarborTask
    scratch: Path
    # What the tests have to hold for the work, and for the solution, to keep the reward.
    work_keeps: str = "nothing"
    solution_keeps: str = "nothing"
    is_fresh: bool = True
    texts: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The task's tests."""
        return self.task.folder / "tests"

    def new_folder(self, purpose: str) -> Path:
        """A folder that does not exist."""
        return self.scratch / f"{purpose}-{len(list(self.scratch.iterdir()))}"

    async def run_or_break(self, folder: Path) -> TestRun:
        """Run tests on the work."""
        self.texts.append(text_of(folder))
        return PASSED if self.work_keeps in self.texts[-1] else LOST

    run = run_or_break

    async def run_on_solution(self, folder: Path) -> TestRun:
        """Run tests on the known solution."""
        return PASSED if self.solution_keeps in text_of(folder) else LOST


def challenge(runs: Any) -> Challenge:
    """The challenges of a success."""
    return Challenge(runs, PASSED)


async def test_failures_and_traps_take_turns(tmp_path: Path) -> None:
    runs = Runs(HarborTask(TASKS / "script"), tmp_path)
    rounds = challenge(runs)
    assert [await rounds.run(), await rounds.run(), await rounds.run()] == [True] * 3
    with_traps = ["__exit__" in text for text in runs.texts]
    assert with_traps in ([True, False, True], [False, True, False])


async def test_work_that_falls_into_a_trap_is_tampering(tmp_path: Path) -> None:
    rounds = challenge(Runs(HarborTask(TASKS / "script"), tmp_path, work_keeps="__exit__"))
    with pytest.raises(TamperError, match=r"still pass with failures planted in check_calc\.py"):
        for _ in range(2):
            await rounds.run()


async def test_a_trap_that_honest_work_falls_into_decides_nothing(tmp_path: Path) -> None:
    runs = Runs(
        HarborTask(TASKS / "script"), tmp_path, work_keeps="__exit__", solution_keeps="__exit__"
    )
    rounds = challenge(runs)
    # Planted failures decide in its place.
    assert [await rounds.run(), await rounds.run()] == [True, True]
    assert len(runs.texts) == 3


@pytest.mark.parametrize("succeeds_without_assertions", [True, False])
async def test_without_a_solution_tests_without_assertions_are_the_control(
    succeeds_without_assertions: bool, tmp_path: Path
) -> None:
    keeps = "(Exception)" if succeeds_without_assertions else "(): assert"
    runs = Runs(HarborTask(TASKS / "script"), tmp_path, work_keeps=keeps, is_fresh=False)
    rounds = challenge(runs)
    if succeeds_without_assertions:
        assert [await rounds.run(), await rounds.run()] == [True, True]
        assert sum("if 0: assert" in text for text in runs.texts) == 1
    else:
        with pytest.raises(TamperError, match="some tests still pass"):
            assert [await rounds.run(), await rounds.run()]


async def test_tests_in_other_languages_are_changed_and_exchanged_in_turn(tmp_path: Path) -> None:
    runs = Runs(HarborTask(TASKS / "node"), tmp_path)
    rounds = challenge(runs)
    assert [await rounds.run(), await rounds.run()] == [True, True]
    exchanged = ["then echo 0" in text for text in runs.texts]
    assert sorted(exchanged) == [False, True]
    original = text_of(runs.folder)
    assert all(text != original for text in runs.texts)


async def test_a_change_that_honest_work_survives_decides_nothing(tmp_path: Path) -> None:
    unchanged = "then echo 1"
    runs = Runs(
        HarborTask(TASKS / "node"), tmp_path, work_keeps=unchanged, solution_keeps=unchanged
    )
    rounds = challenge(runs)
    assert [await rounds.run(), await rounds.run()] == [True, True]


async def test_tests_in_other_languages_stay_without_a_known_solution(tmp_path: Path) -> None:
    runs = Runs(HarborTask(TASKS / "node"), tmp_path, is_fresh=False)
    rounds = challenge(runs)
    assert [await rounds.run(), await rounds.run()] == [True, True]
    assert all("then echo 0" in text for text in runs.texts)
