"""The skills are packaged, and installing them never replaces what somebody changed."""

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nemo_evaluator.assistant.install import SKILLS
from nemo_evaluator.cli.main import nel


def test_skills_are_installed_and_changed_ones_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def said() -> list[str]:
    """Every command line of the skills; what stands for something is given a value."""
    found = []
    for path in SKILLS.glob("*/SKILL.md"):
        text = path.read_text()
        found += re.findall(r"^ *(nel .*)$", text, re.MULTILINE) + re.findall(
            r"`(nel [^`\n]*)`", text
        )
    return found


@pytest.mark.parametrize("line", said())
def test_every_command_of_the_skills_is_one(line: str) -> None:
    plain = (
        re.sub(r"<(\w+)[^>]*>", r"\1", line.partition(" > ")[0])
        .replace("[", "")
        .replace("]", "")
        .replace(" ...", " a=1")
    )
    words = [
        {"N": "4", "GB": "80", "FILE_OR_FOLDER": "x"}.get(word, word)
        for word in shlex.split(plain)[1:]
    ]
    command: click.Command = nel
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, line
        command, words = found, words[1:]
    if words in (["--version"], ["--help"]) or (
        not words and line in ("nel compare", "nel skills install")
    ):
        return
    try:
        command.make_context(command.name, words)
    except click.BadParameter as error:
        assert "does not exist" in error.message, (line, error)
