"""What a registry may say: nothing that leads out of the folder of tasks, or that git takes for an option."""

from __future__ import annotations

import json
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
