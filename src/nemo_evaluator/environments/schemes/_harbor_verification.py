"""Verification that an agent cannot steer.

A task's own tests run beside the agent's work, so the work can reach for them. A success counts when it is still one

- with every file that steers a test runner, a shell or an interpreter as it was at the start of the task, unless the
  task's known solution changes the file as well;
- and when the same tests, with failures planted in them, do not pass.

Work that keeps its tests from ending, or from leaving a reward, gets the lowest one where the tests end without it.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import BoundaryError, SandboxError, ScorerError, TamperError
from nemo_evaluator.core.types import JsonDict, VerifyResult
from nemo_evaluator.environments.schemes._challenge import plant_failures, stop_tests, swap_rewards
from nemo_evaluator.environments.schemes._harbor_task import INSTRUCTION, SOLUTION, HarborTask
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
# Files that are too common a word to be looked for in a text.
_SHORTEST_NAME: Final = 4


@dataclass(slots=True)
class Verification:
    """Verifies one agent's work with the tests of its task.

    ``allowed`` is shared by all attempts: the steering files that known solutions change, by the content of the task.
    """

    tests: TaskTests
    sandbox: Sandbox
    allowed: dict[str, dict[str, SteeringChange]] = field(default_factory=dict)
    challenges: bool = True
    _scratch: Path = field(default_factory=Path, init=False)
    _workspaces: Workspaces | None = field(default=None, init=False)

    @property
    def _folder(self) -> Path:
        return self.tests.task.folder / "tests"

    async def run(self) -> VerifyResult:
        """The verdict.

        Raises:
            ScorerError: when the tests leave no reward that counts.
            TamperError: when the reward depends on files that steer the tests, or does not depend on the tests.
        """
        with tempfile.TemporaryDirectory(prefix="nel-verify-") as scratch:
            self._scratch = Path(scratch)
            if not isinstance(self.sandbox, VerifierSandbox):
                return await self._verify_shared()
            return await self._verify(self.sandbox)

    async def _verify_shared(self) -> VerifyResult:
        """The verdict of tests that run where the agent worked: what it changed there is not known."""
        first = await self.tests.run(self.sandbox, self._folder)
        verdict = _verdict(first)
        if verdict.reward > self.tests.task.reward_range[0]:
            verdict.scoring_details["unproven"] = _SHARED
            verdict.scoring_details["challenged"] = self.challenges and await self._challenge(first)
        return verdict

    async def _verify(self, sandbox: VerifierSandbox) -> VerifyResult:
        home_inside = await self._home_is_inside(sandbox)
        if home_inside:
            await self._ready()
            assert self._workspaces is not None
            self._workspaces.hand_over()
        first = await self._attempt(sandbox)
        if isinstance(first.failure, UnusableRewardError):
            await self._blame(first, first.failure)
        if isinstance(first.failure, SandboxError | ScorerError):
            second = await self._second_attempt(first.failure)
            if second.failure is not None:
                return self._stopped(first)
            first = second
        verdict = _verdict(first)
        if verdict.reward <= self.tests.task.reward_range[0]:
            return verdict
        details = verdict.scoring_details
        if not home_inside:
            await self._ready()
        steering = self._steering
        if steering:
            details["steering_changes"] = _described(steering)
            await self._differ(first, steering)
        started = time.perf_counter()
        details["challenged"] = self.challenges and await self._challenge(first)
        details["challenge_ms"] = round((time.perf_counter() - started) * 1000, 1)
        return verdict

    @property
    def _home(self) -> str | None:
        return self._workspaces.home if self._workspaces is not None else None

    @property
    def _steering(self) -> dict[str, SteeringChange]:
        assert self._workspaces is not None
        assert self._workspaces.work is not None
        return self._workspaces.work.steering

    async def _home_is_inside(self, sandbox: Sandbox) -> bool:
        """Whether the home that the image sets is inside the workspace, with its start-up files."""
        printed = await sandbox.exec('printf %s "$HOME"', cwd="/")
        home = Path(printed.stdout or "/")
        workdir = self.tests.task.workdir
        return home.is_relative_to(workdir) or workdir == "/"

    async def _ready(self) -> None:
        """A fresh sandbox with the work, and the knowledge of what the work changed."""
        assert isinstance(self.sandbox, VerifierSandbox)
        self._workspaces = self._new_workspaces(self.sandbox)
        await self._workspaces.prepare()

    def _new_workspaces(self, sandbox: VerifierSandbox) -> Workspaces:
        names = frozenset(path.name for path in self._folder.rglob("*") if path.is_file())
        folders = frozenset(_folders_named(self.tests.task))
        return Workspaces(
            sandbox, self.tests.task.workdir, self._scratch, task_tests=names, test_folders=folders
        )

    async def _attempt(self, sandbox: Sandbox) -> TestRun:
        """Run the task's tests. A sandbox that breaks under them is a failure of the run."""
        try:
            return await self.tests.run(sandbox, self._folder, self._home)
        except SandboxError as error:
            return TestRun(None, failure=error)

    async def _control(self) -> TestRun:
        """Run the task's tests without the agent's work: on the known solution, else on the start of the task."""
        assert isinstance(self.sandbox, VerifierSandbox)
        if self._workspaces is None:
            self._workspaces = self._new_workspaces(self.sandbox)
        await self._workspaces.prepare(with_work=False)
        if _has_solution(self.tests.task.folder):
            await self._solve()
        return await self._attempt(self.sandbox)

    async def _second_attempt(self, failure: BoundaryError) -> TestRun:
        """Run tests that left no verdict once more: a crowded machine, or unsteady tests, are nobody's fault.

        Raises the failure when the tests leave no reward without the work either.
        """
        control = await self._control()
        if control.failure is not None:
            raise failure
        assert self._workspaces is not None
        await self._workspaces.prepare()
        second = await self._attempt(self._workspaces.hand_over())
        if isinstance(second.failure, UnusableRewardError):
            await self._blame(second, second.failure)
        if isinstance(second.failure, TamperError):
            raise second.failure
        return second

    def _stopped(self, run: TestRun) -> VerifyResult:
        """The verdict about work that keeps its tests from leaving a reward."""
        lowest = self.tests.task.reward_range[0]
        if _has_solution(self.tests.task.folder):
            without = "on the known solution"
        else:
            without = "without the work"
        why = f"{run.failure}; {without} they leave one"
        details: JsonDict = {"method": "harbor", **run.details, "stopped_tests": why}
        return VerifyResult(lowest, f"stopped its tests, reward={lowest:g}", details)

    async def _run_again(self, folder: Path, restore: Collection[str] = ()) -> TestRun:
        """Run tests in a sandbox in which nothing ran before, or where the agent worked if there is no other."""
        if self._workspaces is None:
            return await self.tests.run(self.sandbox, folder)
        await self._workspaces.prepare(restore)
        return await self.tests.run(self._workspaces.hand_over(), folder, self._home)

    async def _differ(self, first: TestRun, steering: dict[str, SteeringChange]) -> None:
        """Raise TamperError when the reward is lost with the steering files as they were at the start."""
        if await self._stands(first, steering):
            return
        allowed = await self._allowed(steering)
        refused = set(steering) - allowed
        if refused and (not allowed or not await self._stands(first, refused)):
            names = ", ".join(ascii(path) for path in sorted(refused)[:_FEW])
            raise TamperError(
                f"the tests pass only with files of the agent that steer them: {names}"
            )

    async def _stands(self, first: TestRun, restore: Collection[str]) -> bool:
        """Whether the reward does not drop with some files restored. Tests may be unsteady: they get a second try."""
        for _ in range(2):
            again = await self._run_again(self._folder, restore)
            if _reward(again) >= _reward(first):
                return True
        return False

    async def _allowed(self, steering: dict[str, SteeringChange]) -> set[str]:
        """Those of the agent's steering files that the task asks for."""
        task = self.tests.task
        if not _has_solution(task.folder):
            texts = _texts(task.folder)
            unique: set[str] = set()
            for path in steering:
                if len(Path(path).name) >= _SHORTEST_NAME and Path(path).name in texts:
                    unique.add(path)
            return unique
        if task.content_hash not in self.allowed:
            self.allowed[task.content_hash] = await self._solution_changes()
        solved = self.allowed[task.content_hash]
        kinds = {change.what for change in solved.values()}
        allowed = set(steering) & set(solved)
        for path, change in steering.items():
            if change.allows_all and change.what in kinds:
                allowed.add(path)
        return allowed

    async def _solution_changes(self) -> dict[str, SteeringChange]:
        """The steering files that the known solution changes."""
        assert self._workspaces is not None
        await self._workspaces.prepare(with_work=False)
        before = await self._workspaces.snapshot("unsolved")
        await self._solve()
        after = await self._workspaces.snapshot("solved")
        return self._workspaces.compare(before, after).steering

    async def _solve(self) -> None:
        """Run the known solution in the sandbox as it is."""
        sandbox = self.sandbox
        task = self.tests.task
        made = await sandbox.exec(
            ["sh", "-c", f"mkdir -p {SOLUTION} && test -w {SOLUTION}"], cwd="/"
        )
        place = SOLUTION if made.ok else f"/tmp{SOLUTION}"  # noqa: S108 - inside the sandbox
        await sandbox.upload(task.folder / "solution", place)
        seconds = max(task.agent_seconds or 0.0, task.verifier_seconds, _SOLUTION_SECONDS)
        await sandbox.exec(["bash", f"{place}/solve.sh"], timeout=seconds)

    async def _challenge(self, first: TestRun) -> bool:
        """Verify once more with planted failures. Returns whether the reward was lost, as it should be.

        Raises TamperError when it was not, although the tests decide about it.
        """
        folder = self._scratch / "challenge"
        earned_all = _reward(first) >= self.tests.task.reward_range[1]
        planted = plant_failures(self._folder, folder, earned_all=earned_all)
        if not planted:
            return await self._swap(first)
        if _reward(await self._run_again(folder)) < _reward(first):
            return True
        if await self._tests_decide(first, folder, planted):
            raise TamperError(
                f"the reward is the same with failures planted in {', '.join(planted[:_FEW])}"
            )
        return False

    async def _swap(self, first: TestRun) -> bool:
        """Verify with the rewards for success and failure exchanged: one that stays was not written by the tests."""
        folder = self._scratch / "swapped"
        if not swap_rewards(self._folder, folder):
            return False
        if _reward(await self._run_again(folder)) >= _reward(first):
            raise TamperError(
                "the reward is the same with the rewards for success and failure exchanged"
            )
        return True

    async def _tests_decide(self, first: TestRun, folder: Path, planted: list[str]) -> bool:
        """Whether honest work would lose its reward in a challenge.

        The known solution tells. Without one, tests that fail before they touch the work do.
        """
        if self._workspaces is not None and _has_solution(self.tests.task.folder):
            await self._workspaces.prepare(with_work=False)
            await self._solve()
            return _reward(await self.tests.run(self.sandbox, folder, self._home)) < _reward(first)
        stopped = self._scratch / "stopped"
        stop_tests(self._folder, stopped, planted)
        return _reward(await self._run_again(stopped)) < _reward(first)

    async def _blame(self, run: TestRun, refused: UnusableRewardError) -> None:
        """Raise for a reward that no task gives.

        It is the agent's doing when the known solution gets a proper one. Without a solution, it is when the reward
        stays as it is with failures planted in the tests.
        """
        if _has_solution(self.tests.task.folder):
            solved = await self._control()
            if solved.failure is None:
                raise TamperError(refused.message)
        elif self.challenges:
            if self._workspaces is None:
                await self._ready()
            await self._challenge(run)
        raise refused


def _verdict(run: TestRun) -> VerifyResult:
    """A run as a verdict. Raises what kept it from having a reward."""
    if run.failure is not None:
        raise run.failure
    if run.reward is None:
        raise ScorerError("the tests left no reward")
    details: JsonDict = {"method": "harbor", **run.details}
    shown = f"test_exit={run.details['test_exit_code']} reward={run.reward:g}"
    return VerifyResult(run.reward, shown, details)


def _reward(run: TestRun) -> float:
    """The reward of a run; less than any when there is none."""
    if isinstance(run.failure, TamperError | UnusableRewardError):
        # It was the work that wrote it.
        return float("inf")
    if run.reward is not None:
        return run.reward
    return float("-inf")


def _has_solution(folder: Path) -> bool:
    return (folder / "solution" / "solve.sh").is_file()


def _texts(folder: Path) -> str:
    """What a task says: its instruction and its tests."""
    paths = [folder / INSTRUCTION, *sorted((folder / "tests").rglob("*"))]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file()]
    return "\n".join(texts)


def _folders_named(task: HarborTask) -> Iterator[str]:
    """Folders that a task's tests go to, or have Python look for modules in."""
    for path in sorted((task.folder / "tests").rglob("*")):
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            for match in _GOES_TO.finditer(text):
                yield match[1]
    search_path = task.table("verifier", "env").get("PYTHONPATH")
    yield from str(search_path or "").split(":")


def _described(steering: dict[str, SteeringChange]) -> dict[str, str]:
    """Steering changes as a row tells them."""
    shown = sorted(steering.items())[:_SHOWN]
    described = {ascii(path)[1:-1]: f"{change.what} ({change.change})" for path, change in shown}
    if len(steering) > _SHOWN:
        described["…"] = f"{len(steering) - _SHOWN:,} more"
    return described
