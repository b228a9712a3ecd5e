"""The page of public names."""

import re
from pathlib import Path

import nemo_evaluator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"


def test_every_public_name_has_a_place_and_every_place_a_name() -> None:
    named = re.findall(
        r"^::: nemo_evaluator\.(?!testing)[\w.]+\.(\w+)$", PAGE.read_text(), re.MULTILINE
    )
    assert sorted(named) == sorted(
        name for name in nemo_evaluator.__all__ if not name.startswith("__")
    )  # type: ignore[attr-defined]
