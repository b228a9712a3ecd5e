"""Verify a Harbor task so that the agent cannot influence the verdict.

A task's tests run beside the agent's work, so the work can tamper with them. A success counts only if it survives
three checks:

- The tests still pass after every file that steers a test runner, a shell or an interpreter is restored to its state
  at the start of the task. Files that the task's known solution changes as well are exempt.
- The same tests, with failures planted in them, do not pass.
- The same tests pass again. Repetitions and challenges come in an unpredictable order.

Work that keeps its tests from finishing, or from writing a reward, gets the lowest reward if the tests finish without
that work.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import BoundaryError, SandboxError, ScorerError, TamperError
from nemo_evaluator.core.types import JsonDict, VerifyResult
from nemo_evaluator.environments.schemes._challenge import plant_failures, stop_tests, swap_rewards
from nemo_evaluator.environments.schemes._confirmation import confirm
from nemo_evaluator.environments.schemes._harbor_task import SOLUTION, HarborTask
from nemo_evaluator.environments.schemes._harbor_tests import (
    TaskTests,
    TestRun,
    UnusableRewardError,
)
from nemo_evaluator.environments.schemes._workspace_changes import Workspaces
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.sandbox.lazy_sandbox import VerifierSandbox
from nemo_evaluator.sandbox.steering import SteeringChange

_SOLUTION_SECONDS: Final = 1800.0
_SHOWN: Final = 50
_FEW: Final = 5
_SHARED: Final = (
    "the tests ran in the sandbox that the agent used, so it may have changed what they run with"
)
# `cd FOLDER`, `export PYTHONPATH=FOLDER`, `sys.path.insert(0, "FOLDER")`
_GOES_TO: Final = re.compile(
    r"""(?:\b(?:cd|pushd)\s+|\bPYTHONPATH=|\bsys\.path\.(?:insert\(\s*\d+\s*,|append\()\s*)["']?([^\s"';&|:)]+)"""
)
# Shorter file names are too likely to occur in a text by chance.
_SHORTEST_NAME: Final = 4


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
    _scratch: Path = field(default_factory=Path, init=False)
    _workspaces: Workspaces | None = field(default=None, init=False)
    _folders: int = field(default=0, init=False)

    @property
    def _folder(self) -> Path:
        """The task's folder of tests."""
        return self.tests.task.folder / "tests"

    async def run(self) -> VerifyResult:
        """Run the tests and the checks against tampering.

        Returns:
            The verdict, with the outcome of the checks in its scoring details.

        Raises:
            ScorerError: The tests leave no reward that counts.
            TamperError: The reward depends on files that steer the tests, or does not depend on the tests.
        """
        with tempfile.TemporaryDirectory(prefix="nel-verify-") as scratch:
            self._scratch = Path(scratch)
            if not isinstance(self.sandbox, VerifierSandbox):
                return await self._verify_shared()
            return await self._verify(self.sandbox)

    async def _verify_shared(self) -> VerifyResult:
        """Verify in the agent's own sandbox, where nel cannot tell what the agent changed."""
        first_run = await self.tests.run(self.sandbox, self._folder)
        verdict = _verdict(first_run)
        if verdict.reward > self.tests.task.reward_range[0]:
            verdict.scoring_details["unproven"] = _SHARED
            verdict.scoring_details["challenged"] = self.challenges and await self._challenge(
                first_run
            )
        return verdict

    async def _verify(self, sandbox: VerifierSandbox) -> VerifyResult:
        """Verify in fresh sandboxes, into which nel copies the agent's work."""
        home_inside = await self._home_is_inside(sandbox)
        if home_inside:
            await self._ready()
            assert self._workspaces is not None
            self._workspaces.hand_over()
        first_run = await self._attempt(sandbox)
        if isinstance(first_run.failure, UnusableRewardError):
            await self._blame(first_run, first_run.failure)
        if isinstance(first_run.failure, SandboxError | ScorerError):
            second_run = await self._second_attempt(first_run.failure)
            if second_run.failure is not None:
                return self._stopped(first_run)
            first_run = second_run
        verdict = _verdict(first_run)
        if verdict.reward <= self.tests.task.reward_range[0]:
            return verdict
        details = verdict.scoring_details
        if not home_inside:
            await self._ready()
        steering = self._steering
        if steering:
            details["steering_changes"] = _described(steering)
            suspect_paths = await self._differ(first_run, steering)
        else:
            suspect_paths = set()
        if self.challenges:
            verdict = await self._confirm(first_run, verdict)
        else:
            details["challenged"] = False
        if suspect_paths and not verdict.scoring_details["challenged"]:
            raise _steered(suspect_paths)
        return verdict

    async def _confirm(self, first: TestRun, verdict: VerifyResult) -> VerifyResult:
        """Verify a success again, with the same tests and with planted failures.

        Args:
            first: The run that succeeded.
            verdict: The verdict of that run.

        Returns:
            The verdict, unless repetitions lose the reward: then the verdict of most repetitions.

        Raises:
            TamperError: The reward was kept although the tests decide it.
            BoundaryError: Most repetitions left no reward, and the tests leave none without the agent's work either.
        """
        started = time.perf_counter()
        confirmation = await confirm(
            first, repeat=self._repeat, challenge=partial(self._challenge, first)
        )
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
        settled_verdict = await self._settled(confirmation.run)
        settled_verdict.scoring_details = details | settled_verdict.scoring_details
        return settled_verdict

    async def _settled(self, run: TestRun) -> VerifyResult:
        """Return the verdict of the run that stands; the lowest reward if the work kept it from leaving one.

        Raises:
            BoundaryError: The tests leave no reward without the agent's work either.
        """
        if run.failure is None:
            return _verdict(run)
        control_run = await self._control()
        if control_run.failure is not None:
            raise run.failure
        return self._stopped(run)

    async def _repeat(self) -> TestRun:
        """Run the tests again on the agent's work; a broken sandbox is the run's failure."""
        try:
            repeated_run = await self._run_again(self._folder)
        except SandboxError as error:
            return TestRun(None, failure=error)
        if isinstance(repeated_run.failure, TamperError):
            raise repeated_run.failure
        return repeated_run

    @property
    def _home(self) -> str | None:
        """The home directory of the tests; None if it is the sandbox's own."""
        return self._workspaces.home if self._workspaces is not None else None

    @property
    def _steering(self) -> dict[str, SteeringChange]:
        """The steering files that the agent changed, by path."""
        assert self._workspaces is not None
        assert self._workspaces.work is not None
        return self._workspaces.work.steering

    async def _home_is_inside(self, sandbox: Sandbox) -> bool:
        """Return whether the image's home directory, with its start-up files, is inside the workspace."""
        home_result = await sandbox.exec('printf %s "$HOME"', cwd="/")
        home = Path(home_result.stdout or "/")
        workdir = self.tests.task.workdir
        return home.is_relative_to(workdir) or workdir == "/"

    async def _ready(self) -> None:
        """Prepare a fresh sandbox with the agent's work, and record what the work changed."""
        assert isinstance(self.sandbox, VerifierSandbox)
        self._workspaces = self._new_workspaces(self.sandbox)
        await self._workspaces.prepare()

    def _new_workspaces(self, sandbox: VerifierSandbox) -> Workspaces:
        """Build the `Workspaces` for a sandbox."""
        test_file_names = frozenset(path.name for path in self._folder.rglob("*") if path.is_file())
        test_folders = frozenset(_folders_named(self.tests.task))
        return Workspaces(
            sandbox,
            self.tests.task.workdir,
            self._scratch,
            task_tests=test_file_names,
            test_folders=test_folders,
        )

    async def _attempt(self, sandbox: Sandbox) -> TestRun:
        """Run the task's tests; if the sandbox breaks, return the error as the run's failure."""
        try:
            return await self.tests.run(sandbox, self._folder, self._home)
        except SandboxError as error:
            return TestRun(None, failure=error)

    async def _control(self) -> TestRun:
        """Run the task's tests without the agent's work: on the known solution, else on the task's initial state."""
        assert isinstance(self.sandbox, VerifierSandbox)
        if self._workspaces is None:
            self._workspaces = self._new_workspaces(self.sandbox)
        await self._workspaces.prepare(with_work=False)
        if self.tests.task.has_solution:
            await self._solve()
        return await self._attempt(self.sandbox)

    async def _second_attempt(self, failure: BoundaryError) -> TestRun:
        """Run the tests again if they left no verdict, because the cause may be an overloaded machine or flaky tests.

        Raises:
            BoundaryError: The tests leave no reward without the agent's work either; this is the given failure.
            TamperError: The second run found tampering.
        """
        control_run = await self._control()
        if control_run.failure is not None:
            raise failure
        assert self._workspaces is not None
        await self._workspaces.prepare()
        second_run = await self._attempt(self._workspaces.hand_over())
        if isinstance(second_run.failure, UnusableRewardError):
            await self._blame(second_run, second_run.failure)
        if isinstance(second_run.failure, TamperError):
            raise second_run.failure
        return second_run

    def _stopped(self, run: TestRun) -> VerifyResult:
        """Return the lowest reward, for work that keeps its tests from leaving one."""
        lowest = self.tests.task.reward_range[0]
        if self.tests.task.has_solution:
            control_condition = "on the known solution"
        else:
            control_condition = "without the work"
        reason = f"{run.failure}; {control_condition} they leave one"
        details: JsonDict = {"method": "harbor", **run.details, "stopped_tests": reason}
        return VerifyResult(lowest, f"stopped its tests, reward={lowest:g}", details)

    async def _run_again(self, folder: Path, restore: Collection[str] = ()) -> TestRun:
        """Run tests in an unused sandbox, or in the agent's own if there is no other."""
        if self._workspaces is None:
            return await self.tests.run(self.sandbox, folder)
        await self._workspaces.prepare(restore)
        return await self.tests.run(self._workspaces.hand_over(), folder, self._home)

    async def _differ(self, first: TestRun, steering: dict[str, SteeringChange]) -> set[str]:
        """Compare the reward with the one that the agent's work gets when its steering files are restored.

        Returns:
            The files that the reward depends on, and that only a challenge can tell from work: new modules named like
            one of the standard library. They run in the same process as the solution, and can do no more than it.

        Raises:
            TamperError: The reward drops.
        """
        if await self._stands(first, steering):
            return set()
        allowed_paths = await self._allowed(steering)
        refused_paths = set(steering) - allowed_paths
        if not refused_paths or (allowed_paths and await self._stands(first, refused_paths)):
            return set()
        suspect_paths = {path for path in refused_paths if steering[path].may_be_work}
        refused_paths -= suspect_paths
        if not suspect_paths or not self.challenges:
            raise _steered(refused_paths | suspect_paths)
        if refused_paths and not await self._stands(first, refused_paths):
            raise _steered(refused_paths)
        return suspect_paths

    async def _stands(self, first: TestRun, restore: Collection[str]) -> bool:
        """Return whether the reward holds with some files restored; flaky tests get a second try."""
        for _ in range(2):
            repeated_run = await self._run_again(self._folder, restore)
            if _reward(repeated_run) >= _reward(first):
                return True
        return False

    async def _allowed(self, steering: dict[str, SteeringChange]) -> set[str]:
        """Return which of the agent's changed steering files the task requires.

        The known solution decides. Without one, a file is allowed if the task's instruction or tests name it.
        """
        task = self.tests.task
        if not task.has_solution:
            task_text = task.text
            named_paths: set[str] = set()
            for path in steering:
                if len(Path(path).name) >= _SHORTEST_NAME and Path(path).name in task_text:
                    named_paths.add(path)
            return named_paths
        if task.content_hash not in self.allowed:
            self.allowed[task.content_hash] = await self._solution_changes()
        solution_changes = self.allowed[task.content_hash]
        solution_kinds = {change.what for change in solution_changes.values()}
        allowed_paths = set(steering) & set(solution_changes)
        for path, change in steering.items():
            if change.allows_all and change.what in solution_kinds:
                allowed_paths.add(path)
        return allowed_paths

    async def _solution_changes(self) -> dict[str, SteeringChange]:
        """Return the steering files that the known solution changes, by path."""
        assert self._workspaces is not None
        await self._workspaces.prepare(with_work=False)
        before = await self._workspaces.snapshot("unsolved")
        await self._solve()
        after = await self._workspaces.snapshot("solved")
        return self._workspaces.compare(before, after).steering

    async def _solve(self) -> None:
        """Run the known solution in the current sandbox."""
        sandbox = self.sandbox
        task = self.tests.task
        mkdir_result = await sandbox.exec(
            ["sh", "-c", f"mkdir -p {SOLUTION} && test -w {SOLUTION}"], cwd="/"
        )
        solution_folder = SOLUTION if mkdir_result.ok else f"/tmp{SOLUTION}"  # noqa: S108 - inside the sandbox
        await sandbox.upload(task.folder / "solution", solution_folder)
        seconds = max(task.agent_seconds or 0.0, task.verifier_seconds, _SOLUTION_SECONDS)
        await sandbox.exec(["bash", f"{solution_folder}/solve.sh"], timeout=seconds)

    async def _challenge(self, first: TestRun) -> bool:
        """Verify again with planted failures.

        Returns:
            Whether the reward was lost, as it should be. False if the challenge is inconclusive.

        Raises:
            TamperError: The reward was kept although the tests decide it.
        """
        folder = self._new_folder("challenge")
        earned_all = _reward(first) >= self.tests.task.reward_range[1]
        planted_files = plant_failures(self._folder, folder, earned_all=earned_all)
        if not planted_files:
            return await self._swap(first)
        if _reward(await self._run_challenge(folder)) < _reward(first):
            return True
        if await self._tests_decide(first, folder, planted_files):
            raise TamperError(
                f"the reward is the same with failures planted in {', '.join(planted_files[:_FEW])}"
            )
        return False

    async def _run_challenge(self, folder: Path) -> TestRun:
        """Run tests with planted failures; work that breaks its sandbox then has no reward to keep."""
        try:
            return await self._run_again(folder)
        except SandboxError as error:
            if self._workspaces is None:
                raise
            return TestRun(None, failure=error)

    def _new_folder(self, purpose: str) -> Path:
        """Return the path of a folder of tests that does not exist yet."""
        self._folders += 1
        return self._scratch / f"{purpose}-{self._folders}"

    async def _swap(self, first: TestRun) -> bool:
        """Verify again with the rewards for success and failure swapped in ``test.sh``.

        Returns:
            Whether the rewards could be swapped and the reward was lost, as it should be.

        Raises:
            TamperError: The reward was kept, so something other than the tests wrote it.
        """
        folder = self._new_folder("swapped")
        if not swap_rewards(self._folder, folder):
            return False
        if _reward(await self._run_challenge(folder)) >= _reward(first):
            raise TamperError(
                "the reward is the same with the rewards for success and failure exchanged"
            )
        return True

    async def _tests_decide(self, first: TestRun, folder: Path, planted: list[str]) -> bool:
        """Return whether honest work would lose its reward in a challenge.

        The known solution shows this. Without one, nel runs tests that fail before they touch the work.
        """
        if self._workspaces is not None and self.tests.task.has_solution:
            await self._workspaces.prepare(with_work=False)
            await self._solve()
            return _reward(await self.tests.run(self.sandbox, folder, self._home)) < _reward(first)
        stopped = self._new_folder("stopped")
        stop_tests(self._folder, stopped, planted)
        return _reward(await self._run_again(stopped)) < _reward(first)

    async def _blame(self, run: TestRun, refused: UnusableRewardError) -> None:
        """Raise the error for a reward that the task cannot give.

        The agent is at fault if the known solution gets a valid reward. Without a solution, the agent is at fault if
        the reward does not change when failures are planted in the tests.

        Raises:
            TamperError: The agent wrote the reward.
            UnusableRewardError: The task's own tests may have written it.
        """
        if self.tests.task.has_solution:
            control_run = await self._control()
            if control_run.failure is None:
                raise TamperError(refused.message)
        elif self.challenges:
            if self._workspaces is None:
                await self._ready()
            await self._challenge(run)
        raise refused


def _verdict(run: TestRun) -> VerifyResult:
    """Convert a test run to a verdict, or raise its failure."""
    if run.failure is not None:
        raise run.failure
    if run.reward is None:
        raise ScorerError("the tests left no reward")
    details: JsonDict = {"method": "harbor", **run.details}
    summary = f"test_exit={run.details['test_exit_code']} reward={run.reward:g}"
    return VerifyResult(run.reward, summary, details)


def _steered(paths: Collection[str]) -> TamperError:
    """Return the error for a reward that depends on steering files of the agent."""
    names = ", ".join(ascii(path) for path in sorted(paths)[:_FEW])
    return TamperError(f"the tests pass only with files of the agent that steer them: {names}")


def _reward(run: TestRun) -> float:
    """Return a run's reward for comparisons: minus infinity without a reward, infinity for a forged one."""
    if isinstance(run.failure, TamperError | UnusableRewardError):
        # The agent's work wrote it.
        return float("inf")
    if run.reward is not None:
        return run.reward
    return float("-inf")


def _folders_named(task: HarborTask) -> Iterator[str]:
    """Yield the folders that a task's tests change to, or add to Python's search path."""
    for path in sorted((task.folder / "tests").rglob("*")):
        if path.is_file():
            source = path.read_text(encoding="utf-8", errors="replace")
            for match in _GOES_TO.finditer(source):
                yield match[1]
    search_path = task.table("verifier", "env").get("PYTHONPATH")
    yield from str(search_path or "").split(":")


def _described(steering: dict[str, SteeringChange]) -> dict[str, str]:
    """Format steering changes for a result row; at most ``_SHOWN`` of them."""
    listed_changes = sorted(steering.items())[:_SHOWN]
    described = {
        ascii(path)[1:-1]: f"{change.what} ({change.change})" for path, change in listed_changes
    }
    if len(steering) > _SHOWN:
        described["…"] = f"{len(steering) - _SHOWN:,} more"
    return described
