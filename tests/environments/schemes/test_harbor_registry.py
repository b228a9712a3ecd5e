"""What a registry may say: nothing that leads out of the folder of tasks, or that git takes for an option."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.environments.schemes._harbor_registry import fetch


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../../precious"},
        {"name": ".."},
        {"path": "../outside"},
        {"path": "/etc"},
        {"git_url": "--upload-pack=touch evil"},
        {"git_url": "ext::sh -c 'touch evil'"},
        {"git_commit_id": "--upload-pack=touch evil"},
    ],
    ids=str,
)
def test_an_unsafe_entry_is_refused(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = {"name": "a", "git_url": f"file://{tmp_path}/repo", "path": "a", "git_commit_id": "main"}
    registry = tmp_path / "registry.json"
    registry.write_text(json.dumps([{"name": "set", "version": "1", "tasks": [task | change]}]))
    kept = tmp_path / "precious"
    kept.mkdir()
    monkeypatch.setenv("HARBOR_REGISTRY", str(registry))
    monkeypatch.setenv("HARBOR_DATASETS_DIR", str(tmp_path / "data" / "harbor"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="unsafe task"):
        fetch("set", None)
    assert kept.is_dir()
    assert not (tmp_path / "evil").exists()


def _commit_task(repository: Path, instruction: str) -> str:
    """Commit a task and return the commit."""
    folder = repository / "a"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "instruction.md").write_text(instruction)
    (folder / "task.toml").write_text("")
    for arguments in (
        ("init", "-q"),
        ("config", "uploadpack.allowAnySHA1InWant", "true"),
        ("config", "uploadpack.allowFilter", "true"),
        ("add", "."),
        ("-c", "user.name=n", "-c", "user.email=n@localhost", "commit", "-q", "-m", instruction),
    ):
        subprocess.run(["git", "-C", str(repository), *arguments], check=True)
    head = subprocess.run(
        ["git", "-C", str(repository), "rev-parse", "HEAD"],
        check=True,
        capture_output=True,
        text=True,
    )
    return head.stdout.strip()


@pytest.mark.needs("git")
def test_a_task_whose_commit_changed_in_the_registry_is_downloaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repo"
    registry = tmp_path / "registry.json"
    monkeypatch.setenv("HARBOR_REGISTRY", str(registry))
    monkeypatch.setenv("HARBOR_DATASETS_DIR", str(tmp_path / "harbor"))

    def instruction_at(commit: str) -> str:
        task = {"name": "a", "git_url": f"file://{repository}", "path": "a"}
        entry = {"name": "set", "version": "1", "tasks": [task | {"git_commit_id": commit}]}
        registry.write_text(json.dumps([entry]))
        (found,) = fetch("set", None)
        return (found.folder / "instruction.md").read_text()

    first = _commit_task(repository, "Say one.")
    assert instruction_at(first) == "Say one."
    second = _commit_task(repository, "Say two.")
    assert instruction_at(first) == "Say one."
    assert instruction_at(second) == "Say two."
    shutil.rmtree(repository)
    assert instruction_at(second) == "Say two.", "the same commit is not downloaded twice"
