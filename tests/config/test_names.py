"""The public face: stub and module agree, and importing it loads nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nemo_evaluator.config as public


def test_the_stub_has_the_same_names() -> None:
    stub = Path(public.__file__).with_suffix(".pyi").read_text()
    named = re.findall(r"(?:\bas (?=[^_])|^(?=\w+ = ))(\w+)", stub, re.MULTILINE)
    assert sorted(named) == public.__all__  # type: ignore[attr-defined]


def test_importing_the_room_loads_no_library() -> None:
    code = "import sys, nemo_evaluator.config; print({'pydantic', 'yaml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
