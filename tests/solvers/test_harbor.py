"""The harbor solver where no agent has to run: limits, folders, and what is said when something is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import pytest

from nemo_evaluator.core.errors import MissingExtraError, UsageError
from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.engine.agents import noted, tripped
from nemo_evaluator.environments.schemes.harbor import TRIPWIRES
from nemo_evaluator.solvers import _harbor_agent
from nemo_evaluator.solvers.harbor import HarborSolver, HarborSolverConfig
from nemo_evaluator.solvers.oracle import time_limit


def _config(**more: object) -> HarborSolverConfig:
    return HarborSolverConfig(service="m", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("strategy", "ours", "theirs", "cap", "chosen"),
    [
        ("override", 10, 20, None, 10),
        ("override", None, 20, None, 20),
        ("task", 10, 20, None, 20),
        ("task", 10, None, None, 10),
        ("max", 10, 20, None, 20),
        ("max", 30, 20, None, 30),
        ("max", 30, 20, 5, 5),
        ("override", None, None, None, 1800),
    ],
)
def test_whose_limit_counts(
    strategy: str, ours: float, theirs: float, cap: float, chosen: float
) -> None:
    task = SeedResult("p", "", metadata={"agent_timeout_sec": theirs})
    assert time_limit(task, ours, strategy, cap) == chosen  # type: ignore[arg-type]


def test_an_old_python_is_told_of_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEL_HARBOR_PYTHON", raising=False)
    monkeypatch.setattr(sys, "version_info", (3, 11, 7))
    _harbor_agent.harbor_python.cache_clear()
    with pytest.raises(UsageError, match=r"need Python 3.12 or newer, and this is 3\.11") as caught:
        HarborSolver(_config(agent="terminus-2"))
    assert "NEL_HARBOR_PYTHON" in (caught.value.hint or "")
    monkeypatch.setattr(sys, "version_info", (3, 12, 1))
    monkeypatch.setattr(_harbor_agent.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as missing:
        HarborSolver(_config(agent="terminus-2"))
    assert "nemo-evaluator[harbor]" in (missing.value.hint or "")
    monkeypatch.setenv("NEL_HARBOR_PYTHON", "/nowhere/python")
    with pytest.raises(UsageError, match="cannot be run"):
        HarborSolver(_config(agent="terminus-2"))


def test_a_folder_is_an_agent_only_with_its_script(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no run\.sh\.j2"):
        HarborSolver(_config(agent=str(tmp_path)))
    with pytest.raises(UsageError, match="no agent's folder"):
        HarborSolver(_config(agent="./nowhere"))
    (tmp_path / "run.sh.j2").write_text("echo {{ instruction | quote }}")
    solver = HarborSolver(_config(agent=str(tmp_path)))
    before = solver.describe()
    (tmp_path / "run.sh.j2").write_text("echo other")
    # What the agent is belongs to the fingerprint, where it lies does not.
    assert HarborSolver(_config(agent=str(tmp_path))).describe() != before
    assert str(tmp_path) not in str(before)
    with pytest.raises(UsageError, match=r"no SKILL\.md"):
        HarborSolver(_config(agent=str(tmp_path), skill="s", skill_dir=str(tmp_path)))


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("cat /tests/test.sh", "looked for the tests"),
        ("ls /app/tests && pytest tests/", None),
        ("cat /solution/solve.sh", "looked for the solution"),
        ("cat /app/solution/x", None),
        ("git log --all --oneline", "searched the git history"),
        ("git log --oneline -3; git status", None),
        ("echo 1 > /logs/verifier/reward.txt", "looked for the verifier's files"),
    ],
)
def test_what_trips_a_wire_and_what_does_not(command: str, what: str | None) -> None:
    told = {"source": "user", "message": "the tests are in /tests, the history in git reflog"}
    call = {"tool_call_id": "1", "function_name": "bash", "arguments": {"command": command}}
    steps = [told, {"source": "agent", "message": "I look around.", "tool_calls": [call]}]
    document = cast(Any, {"agent": {"name": "a"}, "steps": steps})
    found = tripped(TRIPWIRES, [document])
    assert list(found) == ([what] if what else [])
    oracle_document = cast(Any, {"agent": {"name": "oracle"}, "steps": steps})
    assert tripped(TRIPWIRES, [oracle_document]) == {}
    merged = noted({"a": 1, "tripwires": {"x": "1"}}, {"tripwires": {"y": "2"}})
    assert merged == {"a": 1, "tripwires": {"x": "1", "y": "2"}}
