"""What follows from the runs of a task's tests, with scripted runs in place of sandboxes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import SandboxError, TamperError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.environments.schemes import _harbor_runs
from nemo_evaluator.environments.schemes._harbor_task import HarborTask
from nemo_evaluator.environments.schemes._harbor_tests import (
    TaskTests,
    TestRun,
    UnusableRewardError,
)
from nemo_evaluator.environments.schemes._harbor_verification import Verification
from nemo_evaluator.environments.schemes._workspace_changes import Work
from nemo_evaluator.sandbox.base import ExecResult
from nemo_evaluator.sandbox.lazy_sandbox import VerifierSandbox
from nemo_evaluator.sandbox.steering import SteeringChange

TASK = Path(__file__).parents[2] / "redteam" / "exploits" / "agent_tasks" / "script"
SHADOW = SteeringChange("a module", "created", may_be_work=True)
CONFTEST = SteeringChange("a configuration", "created")
BROKEN = SandboxError("the container ended")


class Sandbox(VerifierSandbox):
    """A sandbox in which every command says nothing."""

    async def exec(self, *_: Any, **__: Any) -> ExecResult:
        """Succeed."""
        return ExecResult(stdout="/root", stderr="", return_code=0)

    async def upload(self, *_: Any) -> None:
        """Do nothing."""


class Workspaces:
    """Fresh sandboxes at no cost."""

    home = None
    work = Work({}, {}, {}, steering={})

    def __init__(self, sandbox: VerifierSandbox, *_: Any, **__: Any) -> None:
        self._sandbox = sandbox

    async def prepare(self, _: Collection[str] = (), *, with_work: bool = True) -> None:
        """Note whether the next run is on the work."""
        Scripted.with_work = with_work

    def hand_over(self) -> VerifierSandbox:
        """The sandbox."""
        return self._sandbox


@dataclass(frozen=True, slots=True)
class Scripted(TaskTests):
    """Tests with given outcomes: a reward, or an error."""

    with_work = True
    plain: list[float | Exception]
    planted: float | Exception = 0.0
    control: float | Exception = 1.0

    async def run(self, sandbox: Any, folder: Path, home: str | None = None) -> TestRun:
        """Give the next outcome."""
        if not Scripted.with_work:
            outcome = self.control
        elif folder == self.task.folder / "tests":
            outcome = self.plain.pop(0)
        else:
            outcome = self.planted
        if isinstance(outcome, SandboxError):
            raise outcome
        details = {"test_exit_code": 0}
        if isinstance(outcome, Exception):
            return TestRun(None, details, outcome)
        return TestRun(outcome, details)


@pytest.fixture(autouse=True)
def _scripted_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_harbor_runs, "Workspaces", Workspaces)
    monkeypatch.setattr(Scripted, "with_work", True)


def verification(
    *plain: float | Exception, planted: float | Exception = 0.0, control: float | Exception = 1.0
) -> Verification:
    """The verification of work with given runs."""
    tests = Scripted(HarborTask(TASK), {}, list(plain), planted, control)
    manager: Any = None
    work: Any = None
    return Verification(tests, Sandbox(manager, SandboxSpec(), work))


async def test_steady_success_has_no_note() -> None:
    verdict = await verification(1.0, 1.0).run()
    assert verdict.reward == 1.0
    assert verdict.scoring_details["challenged"] is True
    assert "unsteady" not in verdict.scoring_details


async def test_flaky_tests_are_noted_and_most_runs_decide() -> None:
    verdict = await verification(1.0, 0.0, 1.0, 1.0, 1.0).run()
    assert verdict.reward == 1.0
    assert verdict.scoring_details["unsteady"] == "the same tests gave 1, 0, 1, 1, 1"
    lost = await verification(1.0, 0.0, 0.0, 1.0, 0.0).run()
    assert (lost.reward, lost.extracted_answer) == (0.0, "test_exit=0 reward=0")
    assert lost.scoring_details["unsteady"] == "the same tests gave 1, 0, 0, 1, 0"


@pytest.mark.parametrize(
    "outcome", [BROKEN, UnusableRewardError("a reward of 7")], ids=["broken", "unusable"]
)
async def test_work_that_breaks_its_repetitions_does_not_leave_the_mean(outcome: Exception) -> None:
    verdict = await verification(1.0, *[outcome] * 4).run()
    assert verdict.reward == 0.0
    assert "on the known solution they leave one" in verdict.scoring_details["stopped_tests"]
    assert verdict.scoring_details["unsteady"] == "the same tests gave 1, none, none, none, none"


async def test_sandboxes_that_break_without_the_work_too_are_nobodys_fault() -> None:
    with pytest.raises(SandboxError, match="the container ended"):
        await verification(1.0, *[BROKEN] * 4, control=BROKEN).run()


async def test_work_that_breaks_its_challenges_does_not_leave_the_mean() -> None:
    verdict = await verification(1.0, 1.0, planted=BROKEN).run()
    assert (verdict.reward, verdict.scoring_details["challenged"]) == (1.0, True)


@pytest.mark.parametrize(
    ("changes", "challenged", "passes"),
    [
        ({"queue.py": SHADOW}, True, True),
        ({"queue.py": SHADOW}, False, False),
        ({"queue.py": SHADOW, "conftest.py": CONFTEST}, True, False),
        ({"conftest.py": CONFTEST}, True, False),
    ],
)
async def test_a_module_named_like_the_librarys_is_work_only_where_a_challenge_judges_it(
    changes: dict[str, SteeringChange],
    challenged: bool,
    passes: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Workspaces, "work", Work({}, {}, {}, steering=changes))
    # The work with all of these files restored fails, twice; then come its repetitions.
    check = verification(1.0, 0.0, 0.0, *([0.0, 0.0] if len(changes) > 1 else [1.0]))
    check.allowed[check.tests.task.content_hash] = {}
    check.challenges = challenged
    if passes:
        assert (await check.run()).reward == 1.0
    else:
        with pytest.raises(TamperError, match="only with files of the agent that steer them"):
            await check.run()


async def test_a_module_named_like_the_librarys_is_refused_where_challenges_show_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Workspaces, "work", Work({}, {}, {}, steering={"queue.py": SHADOW}))
    # The planted failures do not take the known solution's reward, either.
    check = verification(1.0, 0.0, 0.0, 1.0, planted=1.0, control=1.0)
    check.allowed[check.tests.task.content_hash] = {}
    with pytest.raises(TamperError, match=r"queue\.py"):
        await check.run()


async def test_a_forged_reward_in_a_repetition_is_tampering() -> None:
    with pytest.raises(TamperError, match="a pipe"):
        await verification(1.0, TamperError("a pipe")).run()
