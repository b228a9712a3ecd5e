"""The public face: importing it loads nothing."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_room_loads_no_library() -> None:
    code = "import sys, nemo_evaluator.config; print({'pydantic', 'yaml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
