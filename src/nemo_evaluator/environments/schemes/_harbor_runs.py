"""Run a Harbor task's tests in fresh sandboxes: on the agent's work, on the known solution, or on the initial state."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import SandboxError, TamperError
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
# `cd FOLDER`, `export PYTHONPATH=FOLDER`, `sys.path.insert(0, "FOLDER")`
_GOES_TO: Final = re.compile(
    r"""(?:\b(?:cd|pushd)\s+|\bPYTHONPATH=|\bsys\.path\.(?:insert\(\s*\d+\s*,|append\()\s*)["']?([^\s"';&|:)]+)"""
)
# The files that a patch among the tests changes.
_PATCHES: Final = re.compile(r"^(?:---|\+\+\+) [ab]/(\S+)", re.MULTILINE)


@dataclass(slots=True)
class TaskRuns:
    """Runs the tests of one task, each time in an unused sandbox if there is one.

    Attributes:
        tests: The task's tests.
        sandbox: The sandbox that the tests run in; without a `VerifierSandbox` it is the one that the agent used.
        scratch: A local folder for archives and copies of the tests.
    """

    tests: TaskTests
    sandbox: Sandbox
    scratch: Path
    _workspaces: Workspaces | None = field(default=None, init=False)
    _folders: int = field(default=0, init=False)

    @property
    def task(self) -> HarborTask:
        """The task."""
        return self.tests.task

    @property
    def folder(self) -> Path:
        """The task's folder of tests."""
        return self.task.folder / "tests"

    @property
    def is_fresh(self) -> bool:
        """Whether the tests run in sandboxes that the agent never used."""
        return isinstance(self.sandbox, VerifierSandbox)

    @property
    def steering(self) -> dict[str, SteeringChange]:
        """The steering files that the agent changed, by path."""
        workspaces = self._ready_workspaces()
        assert workspaces.work is not None
        return workspaces.work.steering

    def new_folder(self, purpose: str) -> Path:
        """Return the path of a folder of tests that does not exist yet."""
        self._folders += 1
        return self.scratch / f"{purpose}-{self._folders}"

    async def home_is_inside(self) -> bool:
        """Return whether the image's home directory, with its start-up files, is inside the workspace."""
        home_result = await self.sandbox.exec('printf %s "$HOME"', cwd="/")
        home = Path(home_result.stdout or "/")
        workdir = self.task.workdir
        return home.is_relative_to(workdir) or workdir == "/"

    async def prepare(self) -> None:
        """Prepare a fresh sandbox with the agent's work, and record what the work changed."""
        await self._ready_workspaces().prepare()

    def hand_over(self) -> None:
        """Let the next `attempt` use the prepared sandbox."""
        self._ready_workspaces().hand_over()

    async def attempt(self) -> TestRun:
        """Run the task's tests in the sandbox as it is; a sandbox that breaks is the run's failure."""
        try:
            return await self.tests.run(self.sandbox, self.folder, self._home)
        except SandboxError as error:
            return TestRun(None, failure=error)

    async def run(self, folder: Path, restore: Collection[str] = ()) -> TestRun:
        """Run tests on the agent's work in an unused sandbox, or in the agent's own if there is no other.

        Args:
            folder: The task's tests, or a copy of them.
            restore: The paths to restore to their initial state.

        Raises:
            SandboxError: The sandbox, not the tests, failed.
        """
        if not self.is_fresh:
            return await self.tests.run(self.sandbox, folder)
        workspaces = self._ready_workspaces()
        await workspaces.prepare(restore)
        return await self.tests.run(workspaces.hand_over(), folder, self._home)

    async def run_or_break(self, folder: Path) -> TestRun:
        """Run tests as `run` does; a fresh sandbox that breaks is the run's failure."""
        try:
            return await self.run(folder)
        except SandboxError as error:
            if not self.is_fresh:
                raise
            return TestRun(None, failure=error)

    async def run_on_solution(self, folder: Path) -> TestRun:
        """Run tests on the known solution, in a fresh sandbox."""
        await self._ready_workspaces().prepare(with_work=False)
        await self._solve()
        return await self.tests.run(self.sandbox, folder, self._home)

    async def control(self) -> TestRun:
        """Run the task's tests without the agent's work: on the known solution, else on the task's initial state."""
        await self._ready_workspaces().prepare(with_work=False)
        if self.task.has_solution:
            await self._solve()
        return await self.attempt()

    async def solution_changes(self) -> dict[str, SteeringChange]:
        """Return the steering files that the known solution changes, by path."""
        workspaces = self._ready_workspaces()
        await workspaces.prepare(with_work=False)
        before = await workspaces.snapshot("unsolved")
        await self._solve()
        after = await workspaces.snapshot("solved")
        return workspaces.compare(before, after).steering

    @property
    def _home(self) -> str | None:
        """The home directory of the tests; None if it is the sandbox's own."""
        return self._workspaces.home if self._workspaces is not None else None

    def _ready_workspaces(self) -> Workspaces:
        """Return the `Workspaces` of the sandbox, built on first use."""
        if self._workspaces is None:
            assert isinstance(self.sandbox, VerifierSandbox)
            test_file_names = [path.name for path in self.folder.rglob("*") if path.is_file()]
            self._workspaces = Workspaces(
                self.sandbox,
                self.task.workdir,
                self.scratch,
                task_tests=frozenset(test_file_names),
                test_folders=frozenset(_folders_named(self.task)),
                patched_paths=frozenset(_PATCHES.findall(self.task.test_text)),
                test_words=frozenset(re.findall(r"\w+", self.task.test_text)),
            )
        return self._workspaces

    async def _solve(self) -> None:
        """Run the known solution in the current sandbox."""
        sandbox = self.sandbox
        task = self.task
        mkdir_result = await sandbox.exec(
            ["sh", "-c", f"mkdir -p {SOLUTION} && test -w {SOLUTION}"], cwd="/"
        )
        solution_folder = SOLUTION if mkdir_result.ok else f"/tmp{SOLUTION}"  # noqa: S108 - inside the sandbox
        await sandbox.upload(task.folder / "solution", solution_folder)
        seconds = max(task.agent_seconds or 0.0, task.verifier_seconds, _SOLUTION_SECONDS)
        await sandbox.exec(["bash", f"{solution_folder}/solve.sh"], timeout=seconds)


def comparable_reward(run: TestRun) -> float:
    """Return a run's reward for comparisons: minus infinity without a reward, infinity for a forged one."""
    if isinstance(run.failure, TamperError | UnusableRewardError):
        # The agent's work wrote it.
        return float("inf")
    if run.reward is not None:
        return run.reward
    return float("-inf")


def _folders_named(task: HarborTask) -> Iterator[str]:
    """Yield the folders that a task's tests change to, or add to Python's search path."""
    for match in _GOES_TO.finditer(task.test_text):
        yield match[1]
    search_path = task.table("verifier", "env").get("PYTHONPATH")
    yield from str(search_path or "").split(":")
