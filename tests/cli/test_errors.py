"""Errors on a terminal: what, where, the fix; never a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from nel_support import Told

from nemo_evaluator.cli._errors import render_error
from nemo_evaluator.cli.main import nel
from nemo_evaluator.core.errors import ConfigError, MissingExtraError, Problem, UsageError
from nemo_evaluator.core.secrets import Secret


def test_one_message_with_its_hint() -> None:
    assert (
        render_error(UsageError("it is so", hint="do this")) == "error: it is so\n  hint: do this"
    )
    assert render_error(UsageError("it is so")) == "error: it is so"
    assert 'pip install "nemo-evaluator[local]"' in render_error(
        MissingExtraError("xllamacpp", extra="local")
    )


def test_several_problems() -> None:
    problems = [
        Problem("a.b", "is wrong", "mend it", 3, "base.yaml"),
        Problem("c", "is worse", None, 7),
        Problem("d", "is bad", "no", None, "-O d"),
        Problem("-O e", "has no =", "write it"),
    ]
    assert render_error(ConfigError(problems, source="c.yaml")) == (
        "error: 4 problems in c.yaml\n\n"
        "  base.yaml:3: a.b: is wrong\n    hint: mend it\n\n"
        "  c.yaml:7: c: is worse\n\n"
        "  d (from -O d): is bad\n    hint: no\n\n"
        "  -O e: has no =\n    hint: write it"
    )


def test_secrets_do_not_show() -> None:
    Secret("sk-shown-never")
    assert "sk-shown-never" not in render_error(UsageError("the key sk-shown-never is wrong"))


@pytest.mark.parametrize("words", [("noise",), ("judge", "attack"), ("proxy",), ("eval", "run")])
def test_all_of_a_broken_config_is_told(words: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(
        "services: {model: {type: api, url: 'http://127.0.0.1:9/v1', model: m}}\n"
        "benchmarks: [{name: gsm8kk, solver: {type: simple, service: model}}]\n"
        "output: {dri: x}\n"
    )
    told = CliRunner().invoke(Told(nel), [*words, str(file)])
    assert told.exit_code == 1
    assert "output.dri" in told.stderr
    assert "gsm8kk" in told.stderr
