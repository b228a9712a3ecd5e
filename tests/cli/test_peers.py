"""Words of other tools get the right suggestion."""

from __future__ import annotations

import sys

import click
import pytest

from nemo_evaluator.cli._errors import better_command, same_word
from nemo_evaluator.cli.eval_run import run
from nemo_evaluator.cli.main import main, nel


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("config.yaml",), "nel eval run config.yaml"),
        (("eval", "config.yaml"), "nel eval run config.yaml"),
        (("eval", "task.py@one", "--model", "openai/gpt"), "nel eval run --bench task.py"),
        (("eval", "gsm8k"), "nel eval run --bench gsm8k"),
        (("comprae",), "nel compare"),
        (("eval", "run", "--tasks", "gsm8k"), "--bench"),
        (("eval", "run", "--model_args", "x=y"), "--model-url"),
        (("eval", "run", "--limt", "3"), "--limit"),
    ],
)
def test_suggestion(
    words: tuple[str, ...],
    meant: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["nel", *words])
    monkeypatch.setattr("nemo_evaluator.cli.main.hide_arguments", lambda: None)
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert "did you mean" in said.lower()
    assert meant in said


def test_what_is_suggested_exists() -> None:
    known = nel.list_commands(click.Context(nel))
    for word in ("score", "log", "tasks", "retry"):
        meant = better_command("nel", word, known)
        assert meant is not None
        assert meant.split()[1] in known
        assert word not in known
    options = {name for parameter in run.params for name in parameter.opts}
    for word in (
        "--tasks",
        "--model_args",
        "--epochs",
        "--max-samples",
        "--num-concurrent",
        "--log-dir",
        "--samples",
    ):
        assert same_word("options", word) in options
