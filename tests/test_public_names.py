"""The names of the package itself: stub and module agree."""

from __future__ import annotations

import re
from pathlib import Path

import nemo_evaluator


def test_the_stub_has_the_same_names() -> None:
    stub = Path(nemo_evaluator.__file__).with_suffix(".pyi").read_text()
    found = re.findall(r"(?:\bas |^(?=__package_name__))(\w+)", stub, re.MULTILINE)
    assert sorted(found) == nemo_evaluator.__all__  # type: ignore[attr-defined]
