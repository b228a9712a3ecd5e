"""The skills are packaged, and installing them never replaces what somebody changed."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from nemo_evaluator.cli.main import nel


def test_skills_are_installed_and_changed_ones_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def install(*words: str) -> str:
        done = CliRunner().invoke(nel, ["skills", "install", *words])
        return done.output + str(done.exception or "")

    assert "Installed: .claude/skills/evaluation/SKILL.md" in install()
    mine = Path(".claude/skills/nel-assistant/SKILL.md")
    assert mine.read_text().startswith("---\nname: nel-assistant\n")
    assert "changed" not in install()
    mine.write_text("mine")
    assert "changed since it was installed: .claude/skills/nel-assistant/SKILL.md" in install()
    assert mine.read_text() == "mine"
    assert "Installed: elsewhere/evaluation/SKILL.md" in install("--dir", "elsewhere")
    install("--force")
    assert mine.read_text() != "mine"
    Path(".codex").mkdir()
    assert ".codex/skills/evaluation/SKILL.md" in install()
