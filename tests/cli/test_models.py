"""``nel models``: what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nemo_evaluator.cli.models import models
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.services.packaged import PACKAGED


def run(*words: str) -> str:
    done = CliRunner().invoke(models, list(words), catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_ls_shows_size_licence_and_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEL_MODELS_DIR", str(tmp_path))
    shown = run("ls")
    assert "98 MB" in shown and "Apache-2.0" in shown and "nel models pull smollm2-135m" in shown
    listed = json.loads(run("ls", "--json"))
    assert [entry["name"] for entry in listed] == list(PACKAGED)
    assert all(not entry["present"] and len(entry["sha256"]) == 64 for entry in listed)


@pytest.mark.needs("model")
def test_path_and_pull_of_a_model_that_is_here() -> None:
    path = run("path", "smollm2-135m").strip()
    assert Path(path).is_file()
    assert json.loads(run("path", "smollm2-135m", "--json"))["path"] == path
    assert json.loads(run("pull", "smollm2-135m", "--json"))["present"] is True


def test_rm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEL_MODELS_DIR", str(tmp_path))
    PACKAGED["smollm2-135m"].path.write_bytes(b"")
    run("rm", "smollm2-135m")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError):
        run("rm", "smollm2-135m")
