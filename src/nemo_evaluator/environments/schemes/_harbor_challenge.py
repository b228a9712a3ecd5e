"""Verify a success again with failures planted in the tests: it must lose its reward."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import TamperError
from nemo_evaluator.environments.schemes._challenge import plant_failures, stop_tests, swap_rewards
from nemo_evaluator.environments.schemes._harbor_runs import TaskRuns, comparable_reward
from nemo_evaluator.environments.schemes._harbor_tests import TestRun

_FEW: Final = 5


@dataclass(frozen=True, slots=True)
class Challenge:
    """Challenges of one success.

    Attributes:
        runs: Runs the tests.
        first: The run that succeeded.
    """

    runs: TaskRuns
    first: TestRun

    async def run(self) -> bool:
        """Verify again with planted failures.

        Returns:
            Whether the reward was lost, as it should be. False if the challenge is inconclusive.

        Raises:
            TamperError: The reward was kept although the tests decide it.
        """
        folder = self.runs.new_folder("challenge")
        earned_all = comparable_reward(self.first) >= self.runs.task.reward_range[1]
        planted_files = plant_failures(self.runs.folder, folder, earned_all=earned_all)
        if not planted_files:
            return await self._swap()
        if self._is_lost(await self.runs.run_or_break(folder)):
            return True
        if await self._tests_decide(folder, planted_files):
            raise TamperError(
                f"the reward is the same with failures planted in {', '.join(planted_files[:_FEW])}"
            )
        return False

    async def _swap(self) -> bool:
        """Verify again with the rewards for success and failure swapped in ``test.sh``.

        Returns:
            Whether the rewards could be swapped and the reward was lost, as it should be.

        Raises:
            TamperError: The reward was kept, so something other than the tests wrote it.
        """
        folder = self.runs.new_folder("swapped")
        if not swap_rewards(self.runs.folder, folder):
            return False
        if not self._is_lost(await self.runs.run_or_break(folder)):
            raise TamperError(
                "the reward is the same with the rewards for success and failure exchanged"
            )
        return True

    async def _tests_decide(self, folder: Path, planted_files: list[str]) -> bool:
        """Return whether honest work would lose its reward in a challenge.

        The known solution shows this. Without one, nel runs tests that fail before they touch the work.
        """
        if self.runs.is_fresh and self.runs.task.has_solution:
            return self._is_lost(await self.runs.run_on_solution(folder))
        stopped = self.runs.new_folder("stopped")
        stop_tests(self.runs.folder, stopped, planted_files)
        return self._is_lost(await self.runs.run(stopped))

    def _is_lost(self, run: TestRun) -> bool:
        """Return whether a run has less than the reward of the success."""
        return comparable_reward(run) < comparable_reward(self.first)
