"""Harbor's tasks, in docker and, where the task allows it, without: the solution gets everything, idleness nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, rows

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.environments.registry import get_environment

TASKS = Path(__file__).parents[1] / "support" / "harbor_tasks"
ALL = sorted(path.name for path in TASKS.iterdir())
BUILT = ("dockerfile-build", "git-repo")
DOCKER = {"type": "docker", "network": "none", "concurrency": 4}
LOCAL = {"type": "local", "concurrency": 4}
PLACES = [
    pytest.param(DOCKER, ALL, marks=pytest.mark.needs("docker"), id="docker"),
    pytest.param(
        LOCAL,
        [name for name in ALL if name not in BUILT],
        marks=pytest.mark.needs("bwrap"),
        id="local",
    ),
]
IDLE = """
from nemo_evaluator import SolveResult

class Idle:
    async def solve(self, task, sandbox=None):
        await sandbox.exec("true")
        return SolveResult(response="")
"""


def run(
    nel: Nel, place: dict[str, Any], solver: dict[str, Any] | None = None, **more: Any
) -> dict[str, dict[str, Any]]:
    """Rows by task."""
    bench = {
        "name": f"harbor://{TASKS}",
        "solver": solver or {"type": "oracle"},
        "sandbox": place,
        "max_concurrent": 4,
    }
    bench["max_system_retries"] = 1
    nel.config("c.yaml", services={}, benchmarks=[{**bench, **more}], output={"dir": "out"})
    nel("eval", "run", "c.yaml", code=None, timeout=300)
    (folder,) = (path.parent for path in (nel.folder / "out").glob("*/results.jsonl"))
    return {row["metadata"]["task_id"]: row for row in rows(folder)}


@pytest.mark.parametrize(("place", "tasks"), PLACES)
def test_the_solution_gets_everything(place: dict[str, Any], tasks: list[str], nel: Nel) -> None:
    found = run(nel, place)
    told = {name: row.get("failure") or row["reward"] for name, row in found.items()}
    assert {name: told[name] for name in tasks} == dict.fromkeys(tasks, 1.0), told
    # What cannot be built there is a failure of the sandbox, with the way out, and no zero.
    for name in set(ALL) - set(tasks):
        assert (
            found[name]["failure"]["cause"] == "sandbox"
            and "cannot build images" in found[name]["failure"]["message"]
        )
    assert found["plain"]["scoring_details"]["verified_in"] == "a fresh sandbox"
    assert found["reward-json"]["scoring_details"]["rewards"] == {"a": 1.0, "b": 1.0, "reward": 1.0}
    assert str(TASKS) not in json.dumps(found["plain"])


@pytest.mark.parametrize(("place", "tasks"), PLACES)
def test_idleness_gets_nothing(place: dict[str, Any], tasks: list[str], nel: Nel) -> None:
    (nel.folder / "idle.py").write_text(IDLE)
    nel.env["PYTHONPATH"] = str(nel.folder)
    found = run(nel, place, {"type": "custom", "class_path": "idle:Idle"}, params={"tasks": tasks})
    assert {row["reward"] for row in found.values()} == {0.0}, [
        row.get("failure") for row in found.values()
    ]


def git(folder: Path, *words: str) -> str:
    """Run git with a name of our own."""
    who = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "t"}
    who |= {"GIT_CONFIG_KEY_1": "user.email", "GIT_CONFIG_VALUE_1": "t@example.com"}
    ran = subprocess.run(
        ["git", "-C", str(folder), *words],
        env=os.environ | who,
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


@pytest.fixture
def registry(nel: Nel) -> Path:
    """A repository with two tasks, and a registry that names them."""
    repository = nel.folder / "repository"
    for name in ("plain", "reward-json"):
        shutil.copytree(TASKS / name, repository / "tasks" / name)
    (repository / "tasks" / "other").mkdir()
    (repository / "tasks" / "other" / "big.bin").write_bytes(b"x" * 1000)
    git(repository, "init", "-q")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "one")
    source = {"git_url": repository.as_uri(), "git_commit_id": git(repository, "rev-parse", "HEAD")}
    tasks = [{"name": name, "path": f"tasks/{name}", **source} for name in ("plain", "reward-json")]
    loose = [{"name": "plain", "path": "tasks/plain", "git_url": repository.as_uri()}]
    file = nel.folder / "registry.json"
    entries = [
        {"name": "set", "version": "1.0", "tasks": tasks},
        {"name": "set", "version": "1.9", "tasks": loose},
    ]
    file.write_text(json.dumps([*entries, {"name": "set", "version": "1.10", "tasks": tasks}]))
    nel.env |= {"HARBOR_REGISTRY": str(file), "HARBOR_DATASETS_DIR": str(nel.folder / "data")}
    nel.env["NEL_DATA_LOCK"] = str(nel.folder / "lock.json")
    return repository


@pytest.mark.needs("bwrap", "git")
def test_a_dataset_of_the_registry_is_downloaded_and_pinned(registry: Path, nel: Nel) -> None:
    found = run(nel, LOCAL, name="harbor://set")
    assert {name: row["reward"] for name, row in found.items()} == {
        "plain": 1.0,
        "reward-json": 1.0,
    }
    assert sorted(path.name for path in (nel.folder / "data" / "set@1.10").iterdir()) == [
        ".downloads.json",
        "plain",
        "reward-json",
    ]
    locked = json.loads((nel.folder / "lock.json").read_text())["datasets"]
    entry = locked["harbor://set@1.10#plain"]
    assert (
        entry["revision"] == git(registry, "rev-parse", "HEAD")
        and entry["origin"] == registry.as_uri()
    )
    # A task that somebody changed is not the task that was locked.
    (nel.folder / "data" / "set@1.10" / "plain" / "tests" / "test.sh").write_text(
        "echo 1 > /logs/verifier/reward.txt"
    )
    shutil.rmtree(nel.folder / "out")
    refused = nel("eval", "run", "c.yaml", "--frozen", code=None)
    assert refused.returncode == 2 and "has changed since it was locked" in refused.stderr, (
        refused.stderr
    )


@pytest.mark.needs("bwrap", "git")
def test_without_a_commit_the_first_download_decides(registry: Path, nel: Nel) -> None:
    first = git(registry, "rev-parse", "HEAD")
    run(nel, LOCAL, name="harbor://set@1.9")
    (registry / "tasks" / "plain" / "instruction.md").write_text("Something else.\n")
    git(registry, "commit", "-qam", "two")
    shutil.rmtree(nel.folder / "data")
    shutil.rmtree(nel.folder / "out")
    (row,) = run(nel, LOCAL, name="harbor://set@1.9").values()
    assert "hello.txt" in row["prompt"]
    locked = json.loads((nel.folder / "lock.json").read_text())["datasets"]
    assert locked["harbor://set@1.9#plain"]["revision"] == first


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("sett", "did you mean harbor://set?"),
        ("set@2", "it has: 1.0, 1.9, 1.10"),
        ("./nowhere", "is not a folder"),
        (".", "has no tasks"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(
    name: str, why: str, registry: Path, nel: Nel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARBOR_REGISTRY", nel.env["HARBOR_REGISTRY"])
    monkeypatch.chdir(nel.folder)
    with pytest.raises(UsageError) as raised:
        get_environment(f"harbor://{name}")
    assert why in f"{raised.value.message} {raised.value.hint}"


BROKEN = {
    "exit 0": "left no reward",
    "echo nan > /logs/verifier/reward.txt": "not a finite number",
    'echo \'{"a": "x"}\' > /logs/verifier/reward.json': "not a finite number",
    "echo half > /logs/verifier/reward.txt": "cannot be read",
    "sleep 30": "did not end within 2 s",
}


@pytest.mark.needs("bwrap")
def test_a_verifier_that_breaks_is_a_failure_and_no_zero(nel: Nel) -> None:
    for number, script in enumerate(BROKEN):
        task = shutil.copytree(TASKS / "plain", nel.folder / "tasks" / str(number))
        (task / "tests" / "test.sh").write_text(script)
        settings = (task / "task.toml").read_text()
        (task / "task.toml").write_text(
            settings.replace("[verifier]\ntimeout_sec = 60", "[verifier]\ntimeout_sec = 2")
        )
    found = run(nel, LOCAL, name=f"harbor://{nel.folder / 'tasks'}")
    for row, why in zip(found.values(), BROKEN.values(), strict=True):
        assert (
            row["reward"] is None
            and row["failure"]["cause"] == "scorer"
            and why in row["failure"]["message"]
        ), row


@pytest.mark.needs("bwrap")
def test_tests_that_need_what_was_installed_run_where_the_agent_worked(nel: Nel) -> None:
    """Work outside of the working directory is not carried over; a shared sandbox has it."""
    for name, mode in (("asked", "shared"), ("carried", "separate")):
        task = shutil.copytree(TASKS / "plain", nel.folder / "tasks" / name)
        (task / "solution" / "solve.sh").write_text(
            "echo hello > /tmp/outside; echo 1 > /logs/verifier/reward.txt"
        )
        test = (task / "tests" / "test.sh").read_text()
        (task / "tests" / "test.sh").write_text(test.replace("hello.txt", "/tmp/outside"))
        settings = (task / "task.toml").read_text()
        (task / "task.toml").write_text(
            settings.replace("[verifier]", f'[verifier]\nenvironment_mode = "{mode}"')
        )
    found = run(nel, LOCAL, name=f"harbor://{nel.folder / 'tasks'}")
    assert {name: row["reward"] for name, row in found.items()} == {"asked": 1.0, "carried": 0.0}
    assert found["asked"]["scoring_details"]["verified_in"] == "the sandbox of the agent"
    # Asked for by the config, all of them are.
    shutil.rmtree(nel.folder / "out")
    found = run(nel, LOCAL, name=f"harbor://{nel.folder / 'tasks'}", params={"verify": "shared"})
    assert {row["reward"] for row in found.values()} == {1.0}
