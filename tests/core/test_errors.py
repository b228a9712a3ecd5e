"""What errors tell people to do."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import NEED_PYTHON_3_12, MissingExtraError

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.mark.parametrize(("python", "told"), [((3, 11, 7), True), ((3, 12, 1), False)])
@pytest.mark.parametrize("extra", sorted(NEED_PYTHON_3_12))
def test_an_extra_that_wants_a_newer_python_says_so(
    extra: str, python: tuple[int, int, int], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", python)
    hint = str(MissingExtraError("it", extra=extra).hint)
    assert f'pip install "nemo-evaluator[{extra}]"' in hint
    assert ("with Python 3.12 or newer (this is 3.11)" in hint) is told
    assert "3.12" not in str(MissingExtraError("it", extra="ray").hint)


def test_the_extras_that_want_a_newer_python_are_those_of_the_project() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    marker = "python_version >= '3.12'"
    newer = {
        name for name, needs in extras.items() if needs and all(marker in one for one in needs)
    }
    assert newer == NEED_PYTHON_3_12
