"""Compare a reward with the one that the work gets without the files of the agent that steer tests."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import TamperError
from nemo_evaluator.environments.schemes._harbor_runs import TaskRuns, comparable_reward
from nemo_evaluator.environments.schemes._harbor_tests import TestRun
from nemo_evaluator.sandbox.steering import SteeringChange

_SHOWN: Final = 50
_FEW: Final = 5
# Shorter file names are too likely to occur in a text by chance.
_SHORTEST_NAME: Final = 4


@dataclass(frozen=True, slots=True)
class SteeringCheck:
    """Checks that a reward does not depend on steering files of the agent.

    Attributes:
        runs: Runs the tests.
        allowed: The steering files that known solutions change, keyed by the content hash of the task; shared by
            all attempts.
        challenges: Whether a challenge follows, which can judge files that may be work.
    """

    runs: TaskRuns
    allowed: dict[str, dict[str, SteeringChange]]
    challenges: bool

    async def suspect_paths(self, first: TestRun) -> set[str]:
        """Compare the reward with the one that the agent's work gets when its steering files are restored.

        Returns:
            The files that the reward depends on, and that only a challenge can tell from work: new modules named like
            one of the standard library, and new packages that neither the tests nor a test runner import. Only the
            solution runs them, and they can do no more than it.

        Raises:
            TamperError: The reward drops.
        """
        steering = self.runs.steering
        if not steering or await self._stands(first, steering):
            return set()
        allowed_paths = await self._allowed(steering)
        refused_paths = set(steering) - allowed_paths
        if not refused_paths or (allowed_paths and await self._stands(first, refused_paths)):
            return set()
        suspect_paths = {path for path in refused_paths if steering[path].may_be_work}
        refused_paths -= suspect_paths
        if not suspect_paths or not self.challenges:
            raise steered(refused_paths | suspect_paths)
        if refused_paths and not await self._stands(first, refused_paths):
            raise steered(refused_paths)
        return suspect_paths

    async def _stands(self, first: TestRun, restore: Collection[str]) -> bool:
        """Return whether the reward holds with some files restored; flaky tests get a second try."""
        for _ in range(2):
            repeated_run = await self.runs.run(self.runs.folder, restore)
            if comparable_reward(repeated_run) >= comparable_reward(first):
                return True
        return False

    async def _allowed(self, steering: dict[str, SteeringChange]) -> set[str]:
        """Return which of the agent's changed steering files the task requires.

        The known solution decides. Without one, a file is allowed if the task's instruction or tests name it.
        """
        task = self.runs.task
        if not task.has_solution:
            task_text = task.text
            named_paths: set[str] = set()
            for path, change in steering.items():
                name = Path(path).name
                if len(name) >= _SHORTEST_NAME and name in task_text and not change.is_of_tests:
                    named_paths.add(path)
            return named_paths
        if task.content_hash not in self.allowed:
            self.allowed[task.content_hash] = await self.runs.solution_changes()
        solution_changes = self.allowed[task.content_hash]
        solution_kinds = {change.what for change in solution_changes.values()}
        allowed_paths = set(steering) & set(solution_changes)
        for path, change in steering.items():
            if change.allows_all and change.what in solution_kinds:
                allowed_paths.add(path)
        return allowed_paths


def steered(paths: Collection[str]) -> TamperError:
    """Return the error for a reward that depends on steering files of the agent."""
    names = ", ".join(ascii(path) for path in sorted(paths)[:_FEW])
    return TamperError(f"the tests pass only with files of the agent that steer them: {names}")


def described(steering: dict[str, SteeringChange]) -> dict[str, str]:
    """Format steering changes for a result row; at most ``_SHOWN`` of them."""
    listed_changes = sorted(steering.items())[:_SHOWN]
    described_changes = {
        ascii(path)[1:-1]: f"{change.what} ({change.change})" for path, change in listed_changes
    }
    if len(steering) > _SHOWN:
        described_changes["…"] = f"{len(steering) - _SHOWN:,} more"
    return described_changes
