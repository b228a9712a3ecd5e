"""Verify a success again with failures planted in the tests: it must lose its reward."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import TamperError
from nemo_evaluator.environments.schemes._challenge import (
    plant_failures,
    plant_in_other_languages,
    set_traps,
    stop_tests,
    swap_rewards,
)
from nemo_evaluator.environments.schemes._harbor_runs import TaskRuns, comparable_reward
from nemo_evaluator.environments.schemes._harbor_tests import TestRun

_FEW: Final = 5
_HALF: Final = 0.5


@dataclass(slots=True)
class Challenge:
    """Challenges of one success, in turn with planted failures and with traps.

    Attributes:
        runs: Runs the tests.
        first: The run that succeeded.
    """

    runs: TaskRuns
    first: TestRun
    # The system's generator: its state cannot be inferred from earlier challenges.
    _with_traps: bool = field(default_factory=lambda: random.SystemRandom().random() < _HALF)

    async def run(self) -> bool:
        """Verify again with planted failures or with traps.

        Returns:
            Whether the reward was lost, as it should be. False if the challenge is inconclusive.

        Raises:
            TamperError: The reward was kept although the tests decide it.
        """
        self._with_traps = not self._with_traps
        if self._with_traps and await self._try_traps():
            return True
        folder = self.runs.new_folder("challenge")
        planted_files = plant_failures(self.runs.folder, folder, earned_all=self._earned_all)
        if not planted_files:
            if self._with_traps:
                return await self._swap() or await self._try_other_languages()
            return await self._try_other_languages() or await self._swap()
        return await self._loses(folder, planted_files)

    async def _try_traps(self) -> bool:
        """Verify again with traps.

        Returns:
            Whether the reward was lost, as it should be. False if the tests have no place for a trap, or if honest work
            falls into one.

        Raises:
            TamperError: The reward was kept, and honest work loses it.
        """
        folder = self.runs.new_folder("challenge")
        trap_files = self._set_traps(folder)
        if not trap_files:
            return False
        if self._is_lost(await self.runs.run_or_break(folder)):
            return True
        if self._has_control:
            control_run = await self.runs.run_on_solution(folder)
        else:
            # Tests may succeed by other means than their exit code: without their assertions, too.
            open_folder = self.runs.new_folder("open")
            self._set_traps(open_folder, is_open=True)
            control_run = await self.runs.run(open_folder)
        if self._is_lost(control_run):
            raise TamperError(
                f"some tests still pass with failures planted in {', '.join(trap_files[:_FEW])}"
            )
        return False

    def _set_traps(self, folder: Path, *, is_open: bool = False) -> list[str]:
        """Write tests with traps to a folder; return the files that have some."""
        return set_traps(
            self.runs.folder,
            folder,
            earned_all=self._earned_all,
            has_control=self._has_control,
            is_open=is_open,
        )

    async def _try_other_languages(self) -> bool:
        """Verify again with failures planted in tests that are not Python.

        Returns:
            Whether the reward was lost, as it should be. False if the task has no known solution, if nel finds nothing
            to change, or if honest work keeps the reward.

        Raises:
            TamperError: The reward was kept, and honest work loses it.
        """
        if not self._has_control:
            return False
        folder = self.runs.new_folder("challenge")
        planted_files = plant_in_other_languages(self.runs.folder, folder)
        if not planted_files:
            return False
        return await self._loses(folder, planted_files)

    @property
    def _earned_all(self) -> bool:
        """Whether the success got the highest reward."""
        return comparable_reward(self.first) >= self.runs.task.reward_range[1]

    @property
    def _has_control(self) -> bool:
        """Whether tests can run on the known solution."""
        return self.runs.is_fresh and self.runs.task.has_solution

    async def _loses(self, folder: Path, planted_files: list[str]) -> bool:
        """Run tests with planted failures.

        Args:
            folder: The changed tests.
            planted_files: The files that differ from the task's tests.

        Returns:
            Whether the reward was lost. False if honest work keeps it, too.

        Raises:
            TamperError: The reward was kept, and honest work loses it.
        """
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
        if self._has_control:
            return self._is_lost(await self.runs.run_on_solution(folder))
        stopped = self.runs.new_folder("stopped")
        stop_tests(self.runs.folder, stopped, planted_files)
        return self._is_lost(await self.runs.run(stopped))

    def _is_lost(self, run: TestRun) -> bool:
        """Return whether a run has less than the reward of the success."""
        return comparable_reward(run) < comparable_reward(self.first)
