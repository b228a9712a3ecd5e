"""Which steering files a task without a known solution allows: those that it names, but not those that its tests bring."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import TamperError
from nemo_evaluator.environments.schemes._harbor_steering import SteeringCheck
from nemo_evaluator.environments.schemes._harbor_task import HarborTask
from nemo_evaluator.environments.schemes._harbor_tests import TestRun
from nemo_evaluator.sandbox.steering import SteeringChange

TASKS = Path(__file__).parents[2] / "redteam" / "exploits" / "agent_tasks"


@dataclass
class Runs:
    """Runs that pass unless a certain file is restored."""

    steering: dict[str, SteeringChange]
    task: HarborTask
    folder: Path = TASKS

    async def run(self, _: Path, restore: Collection[str]) -> TestRun:
        """Pass while the files of the agent are there."""
        return TestRun(0.0 if set(self.steering) & set(restore) else 1.0)


def check(change: SteeringChange) -> SteeringCheck:
    """The check of an agent that changed a file which the tests name."""
    runs: Any = Runs({"check_calc.py": change}, HarborTask(TASKS / "unsolved-parts-script"))
    return SteeringCheck(runs, {}, challenges=True)


async def test_a_file_that_the_task_names_is_allowed() -> None:
    change = SteeringChange("a file", "changed")
    assert await check(change).suspect_paths(TestRun(1.0)) == set()


async def test_a_file_that_the_tests_bring_is_not_allowed_because_they_name_it() -> None:
    change = SteeringChange("a file", "changed", is_of_tests=True)
    with pytest.raises(TamperError, match=r"check_calc\.py"):
        await check(change).suspect_paths(TestRun(1.0))
