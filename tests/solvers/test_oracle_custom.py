"""The oracle runs the known solution; a custom solver is the user's own class."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.config import CustomSolverConfig, OracleSolverConfig
from nemo_evaluator.config.groups import SOLVERS
from nemo_evaluator.core.errors import SandboxError, SeedError, UsageError
from nemo_evaluator.core.types import ErrorKind, SeedResult, SolveResult
from nemo_evaluator.solvers.base import SolverContext
from nemo_evaluator.solvers.oracle import OracleSolver
from nemo_evaluator.testing import validate_trajectory

NOTHING = SolverContext(clients={})


def _task(tmp_path: Path, script: str, **metadata: Any) -> SeedResult:
    solution = tmp_path / "solution"
    (solution / "deep").mkdir(parents=True)
    (solution / "solve.sh").write_text(script)
    (solution / "deep" / "data.txt").write_text("from a sub-folder")
    return SeedResult("do it", "", metadata={"task_dir": str(tmp_path), **metadata})


@pytest.mark.needs("bwrap")
@pytest.mark.asyncio(loop_scope="module")
async def test_the_solution_runs_with_its_whole_folder(sandbox: Any, tmp_path: Path) -> None:
    task = _task(tmp_path, 'cat "$(dirname "$0")/deep/data.txt" > result.txt; echo said; exit 4')
    result = await OracleSolver().solve(task, sandbox=sandbox)
    assert (await sandbox.exec("cat result.txt")).stdout == "from a sub-folder"
    # A script that fails is for verification to judge.
    assert (result.error, result.scoring_details) == (None, {"oracle_exit_code": 4})
    (document,) = result.trajectory
    assert validate_trajectory(document, strict=True) == []
    assert document["steps"][1]["observation"]["results"][0]["content"] == "[exit code 4]\nsaid"


@pytest.mark.needs("bwrap")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_solution_that_does_not_end_is_cut_and_said(sandbox: Any, tmp_path: Path) -> None:
    result = await OracleSolver(run_timeout=0.5).solve(_task(tmp_path, "sleep 30"), sandbox=sandbox)
    assert result.error == "the solution did not end within 0.5 s"
    assert result.error_kind is ErrorKind.SOLVE_TIMEOUT


@pytest.mark.needs("bwrap")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_script_in_the_metadata_is_a_solution_too(sandbox: Any) -> None:
    task = SeedResult("do it", "", metadata={"solution": "echo inline > inline.txt"})
    await OracleSolver().solve(task, sandbox=sandbox)
    assert (await sandbox.exec("cat inline.txt")).stdout == "inline\n"


async def test_a_plain_question_is_answered_with_its_known_answer() -> None:
    assert (await OracleSolver().solve(SeedResult("2+2?", "4"))).response == "4"


async def test_what_is_missing_is_a_failure_of_the_harness(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="needs a sandbox"):
        await OracleSolver().solve(_task(tmp_path, "true"))
    with pytest.raises(SeedError, match="no known solution"):
        await OracleSolver().solve(SeedResult("?", ""))
    with pytest.raises(SeedError, match=r"no solution/solve\.sh"):
        await OracleSolver().solve(
            SeedResult("?", "", metadata={"task_dir": str(tmp_path / "empty")})
        )


@pytest.mark.parametrize(
    ("settings", "theirs", "seconds"),
    [
        ({}, None, 1800.0),
        ({}, 60, 60.0),
        ({"run_timeout": 10}, 60, 10.0),
        ({"run_timeout": 10, "timeout_strategy": "task"}, 60, 60.0),
        ({"run_timeout": 10, "timeout_strategy": "task"}, None, 10.0),
        ({"run_timeout": 10, "timeout_strategy": "max"}, 60, 60.0),
        ({"run_timeout": 90, "timeout_strategy": "max", "max_agent_timeout": 70}, 60, 70.0),
    ],
)
def test_whose_limit_counts(settings: dict[str, Any], theirs: int | None, seconds: float) -> None:
    solver = SOLVERS.build("oracle", OracleSolverConfig(**settings), NOTHING)
    assert isinstance(solver, OracleSolver)
    metadata = {} if theirs is None else {"agent_timeout": theirs}
    assert solver.timeout_for(SeedResult("", "", metadata=metadata)) == seconds


class Shouter:
    """A solver as a user writes one."""

    def __init__(self, volume: int, client: Any = None) -> None:
        self.volume = volume
        self.client = client

    async def solve(self, task: SeedResult) -> SolveResult:
        return SolveResult(response=task.prompt.upper() + "!" * self.volume)


class NotASolver:
    """Has no solve."""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name under which this module can be imported."""
    import sys

    monkeypatch.setitem(sys.modules, "my_solvers", sys.modules[__name__])
    return "my_solvers"


async def test_a_custom_solver_gets_its_settings_and_its_client(module: str) -> None:
    config = CustomSolverConfig(
        type="custom", class_path=f"{module}:Shouter", service="m", config={"volume": 2}
    )
    solver: Any = SOLVERS.build(config.type, config, SolverContext(clients={"m": "the client"}))  # type: ignore[dict-item]
    assert solver.inner.client == "the client"
    # Settings are part of the proof that an old answer may be used again.
    assert solver.describe() == {
        "type": "custom",
        "class_path": f"{module}:Shouter",
        "config": {"volume": 2},
    }
    assert list(inspect.signature(solver.solve).parameters) == ["task"]
    assert (await solver.solve(SeedResult("hey", ""))).response == "HEY!!"


@pytest.mark.parametrize(
    ("settings", "said", "hint"),
    [
        (
            {"class_path": "{}:Shouter", "config": {"volumme": 2}},
            "does not take 'volumme'",
            "did you mean 'volume'?",
        ),
        ({"class_path": "{}:Shouter"}, "needs volume", "put it under `config`"),
        ({"class_path": "{}:NotASolver"}, "has no `async def solve", None),
        (
            {"class_path": "{}:NotASolver", "service": "m"},
            "takes no client",
            "add a `client` parameter",
        ),
        ({"class_path": "{}:Nobody"}, "has no attribute 'Nobody'", None),
        ({"class_path": "no_such_package:X"}, "cannot import", "PYTHONPATH"),
    ],
)
def test_a_custom_solver_that_does_not_fit_says_why(
    module: str, settings: Any, said: str, hint: str | None
) -> None:
    settings["class_path"] = settings["class_path"].format(module)
    with pytest.raises(UsageError) as caught:
        SOLVERS.build("custom", CustomSolverConfig(**settings), NOTHING)
    assert said in caught.value.message
    if hint:
        assert caught.value.hint is not None
        assert hint in caught.value.hint
