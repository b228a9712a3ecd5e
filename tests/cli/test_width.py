"""Commands on a terminal of 80 columns: helps, lists, the doctor, the wizard's questions."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from nemo_evaluator.assistant.build_config import SetupAnswers, build_config, questions
from nemo_evaluator.assistant.recipes import recipes
from nemo_evaluator.assistant.yaml_text import missing_values
from nemo_evaluator.cli.main import nel


def commands(command: click.Command, *words: str) -> Iterator[tuple[str, ...]]:
    yield words
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            yield from commands(below, *words, name)


def too_long(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > 80]


def said(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(nel, words, terminal_width=80)
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_every_help_fits() -> None:
    found = list(commands(nel))
    assert len(found) > 60
    assert {words: long for words in found if (long := too_long(said(*words, "--help")))} == {}


@pytest.mark.parametrize("words", ["list", "ls tasks", "recipe", "models ls"])
def test_lists_fit(words: str) -> None:
    assert too_long(said(*words.split())) == []


@pytest.mark.parametrize("name", recipes())
def test_what_a_recipe_says_fits(name: str) -> None:
    assert [line for line in too_long(said("recipe", name)) if line.startswith("#")] == []


def test_the_doctor_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "DOCKER_HOST", "unix:///nowhere/that/anybody/would/have/thought/of/docker.sock"
    )
    shown = CliRunner().invoke(nel, ["doctor"]).output
    assert "sandbox docker" in shown
    assert too_long(shown) == []


def test_the_questions_of_the_wizard_fit() -> None:
    for deployment in questions()["deployment"].words:
        for export in questions()["export"].words:
            text = build_config(SetupAnswers("slurm", deployment, export, "base", ("code",)))
            assert too_long("\n".join(f"  {one.hint}" for one in missing_values(text))) == []
    for question in questions().values():
        asked = (
            CliRunner()
            .invoke(nel, ["init"], input="\n" * list(questions()).index(question.name))
            .output
        )
        assert question.ask in asked
        assert too_long(asked) == []
