"""Verify a Harbor task so that the agent cannot influence the verdict.

A task's tests run beside the agent's work, so the work can tamper with them. A success counts only if it survives
three checks:

- The tests still pass after every file that steers a test runner, a shell or an interpreter is restored to its state
  at the start of the task. Files that the task's known solution changes as well are exempt (`_harbor_steering`).
- The same tests, with failures planted in them, do not pass (`_harbor_challenge`).
- The same tests pass again. Repetitions and challenges come in an unpredictable order (`_confirmation`).

Work that keeps its tests from finishing, or from writing a reward, gets the lowest reward if the tests finish without
that work.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import SandboxError, ScorerError, TamperError
from nemo_evaluator.core.types import JsonDict, VerifyResult
from nemo_evaluator.environments.schemes._confirmation import confirm
from nemo_evaluator.environments.schemes._harbor_challenge import Challenge
from nemo_evaluator.environments.schemes._harbor_runs import TaskRuns
from nemo_evaluator.environments.schemes._harbor_steering import (
    SteeringCheck,
    described,
    steered,
)
from nemo_evaluator.environments.schemes._harbor_tests import (
    TaskTests,
    TestRun,
    UnusableRewardError,
)
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.sandbox.steering import SteeringChange

_SHARED: Final = (
    "the tests ran in the sandbox that the agent used, so it may have changed what they run with"
)


@dataclass(slots=True)
class Verification:
    """Verifies one agent's work with the tests of its task.

    Attributes:
        tests: The task's tests.
        sandbox: The sandbox that the tests run in; without a `VerifierSandbox` it is the one that the agent used.
        allowed: The steering files that known solutions change, keyed by the content hash of the task; shared by
            all attempts.
        challenges: Whether a success is verified again with planted failures.
    """

    tests: TaskTests
    sandbox: Sandbox
    allowed: dict[str, dict[str, SteeringChange]] = field(default_factory=dict)
    challenges: bool = True

    async def run(self) -> VerifyResult:
        """Run the tests and the checks against tampering.

        Returns:
            The verdict, with the outcome of the checks in its scoring details.

        Raises:
            ScorerError: The tests leave no reward that counts.
            TamperError: The reward depends on files that steer the tests, or does not depend on the tests.
        """
        with tempfile.TemporaryDirectory(prefix="nel-verify-") as scratch:
            runs = TaskRuns(self.tests, self.sandbox, Path(scratch))
            if runs.is_fresh:
                return await self._verify(runs)
            return await self._verify_shared(runs)

    @property
    def _lowest_reward(self) -> float:
        return self.tests.task.reward_range[0]

    async def _verify_shared(self, runs: TaskRuns) -> VerifyResult:
        """Verify in the agent's own sandbox, where nel cannot tell what the agent changed."""
        first_run = await runs.run(runs.folder)
        verdict = _verdict(first_run)
        if verdict.reward > self._lowest_reward:
            details = verdict.scoring_details
            details["unproven"] = _SHARED
            details["challenged"] = self.challenges and await _is_challenged(runs, first_run)
        return verdict

    async def _verify(self, runs: TaskRuns) -> VerifyResult:
        """Verify in fresh sandboxes, into which nel copies the agent's work."""
        home_inside = await runs.home_is_inside()
        if home_inside:
            await runs.prepare()
            runs.hand_over()
        first_run = await self._first_run(runs)
        if first_run.failure is not None:
            return self._stopped(first_run)
        verdict = _verdict(first_run)
        if verdict.reward <= self._lowest_reward:
            return verdict
        if not home_inside:
            await runs.prepare()
        if runs.steering:
            verdict.scoring_details["steering_changes"] = described(runs.steering)
        steering_check = SteeringCheck(runs, self.allowed, self.challenges)
        suspect_paths = await steering_check.suspect_paths(first_run)
        if self.challenges:
            verdict = await self._confirm(runs, first_run, verdict)
        else:
            verdict.scoring_details["challenged"] = False
        if suspect_paths and not verdict.scoring_details["challenged"]:
            raise steered(suspect_paths)
        return verdict

    async def _first_run(self, runs: TaskRuns) -> TestRun:
        """Run the tests, again if they leave no verdict: the cause may be an overloaded machine or flaky tests.

        Returns:
            The run; with a failure if the work twice kept its tests from leaving a reward.

        Raises:
            BoundaryError: The tests leave no reward without the agent's work either.
            TamperError: The run found tampering.
        """
        first_run = await self._blamed_attempt(runs)
        failure = first_run.failure
        if not isinstance(failure, SandboxError | ScorerError):
            return first_run
        control_run = await runs.control()
        if control_run.failure is not None:
            raise failure
        await runs.prepare()
        runs.hand_over()
        second_run = await self._blamed_attempt(runs)
        if second_run.failure is not None:
            return first_run
        return second_run

    async def _blamed_attempt(self, runs: TaskRuns) -> TestRun:
        """Run the tests once.

        Raises:
            TamperError: The run found tampering, or the agent wrote a reward that the task cannot give.
            UnusableRewardError: The task's own tests may have written such a reward.
        """
        run = await runs.attempt()
        if isinstance(run.failure, UnusableRewardError):
            await self._blame(runs, run, run.failure)
        if isinstance(run.failure, TamperError):
            raise run.failure
        return run

    async def _blame(self, runs: TaskRuns, run: TestRun, refused: UnusableRewardError) -> None:
        """Raise the error for a reward that the task cannot give.

        The agent is at fault if the known solution gets a valid reward. Without a solution, the agent is at fault if
        the reward does not change when failures are planted in the tests.

        Raises:
            TamperError: The agent wrote the reward.
            UnusableRewardError: The task's own tests may have written it.
        """
        if self.tests.task.has_solution:
            control_run = await runs.control()
            if control_run.failure is None:
                raise TamperError(refused.message)
        elif self.challenges:
            await Challenge(runs, run).run()
        raise refused

    async def _confirm(self, runs: TaskRuns, first: TestRun, verdict: VerifyResult) -> VerifyResult:
        """Verify a success again, with the same tests and with planted failures.

        Args:
            runs: Runs the tests.
            first: The run that succeeded.
            verdict: The verdict of that run.

        Returns:
            The verdict, unless repetitions lose the reward: then the verdict of most repetitions.

        Raises:
            TamperError: The reward was kept although the tests decide it.
            BoundaryError: Most repetitions left no reward, and the tests leave none without the agent's work either.
        """
        started = time.perf_counter()

        async def repeat() -> TestRun:
            repeated_run = await runs.run_or_break(runs.folder)
            if isinstance(repeated_run.failure, TamperError):
                raise repeated_run.failure
            return repeated_run

        confirmation = await confirm(first, repeat=repeat, challenge=Challenge(runs, first).run)
        details = verdict.scoring_details
        details["challenged"] = confirmation.challenged
        details["challenge_ms"] = round((time.perf_counter() - started) * 1000, 1)
        if not confirmation.differing_runs:
            return verdict
        rewards = [
            "none" if run.reward is None else f"{run.reward:g}"
            for run in confirmation.differing_runs
        ]
        details["unsteady"] = f"the same tests gave {', '.join(rewards)}"
        settled_verdict = await self._settled(runs, confirmation.run)
        settled_verdict.scoring_details = details | settled_verdict.scoring_details
        return settled_verdict

    async def _settled(self, runs: TaskRuns, run: TestRun) -> VerifyResult:
        """Return the verdict of the run that stands; the lowest reward if the work kept it from leaving one.

        Raises:
            BoundaryError: The tests leave no reward without the agent's work either.
        """
        if run.failure is None:
            return _verdict(run)
        control_run = await runs.control()
        if control_run.failure is not None:
            raise run.failure
        return self._stopped(run)

    def _stopped(self, run: TestRun) -> VerifyResult:
        """Return the lowest reward, for work that keeps its tests from leaving one."""
        lowest = self._lowest_reward
        if self.tests.task.has_solution:
            control_condition = "on the known solution"
        else:
            control_condition = "without the work"
        reason = f"{run.failure}; {control_condition} they leave one"
        details: JsonDict = {"method": "harbor", **run.details, "stopped_tests": reason}
        return VerifyResult(lowest, f"stopped its tests, reward={lowest:g}", details)


async def _is_challenged(runs: TaskRuns, first: TestRun) -> bool:
    """Return whether a success passes both kinds of challenge."""
    challenge = Challenge(runs, first)
    return await challenge.run() and await challenge.run()


def _verdict(run: TestRun) -> VerifyResult:
    """Convert a test run to a verdict, or raise its failure."""
    if run.failure is not None:
        raise run.failure
    if run.reward is None:
        raise ScorerError("the tests left no reward")
    details: JsonDict = {"method": "harbor", **run.details}
    summary = f"test_exit={run.details['test_exit_code']} reward={run.reward:g}"
    return VerifyResult(run.reward, summary, details)
