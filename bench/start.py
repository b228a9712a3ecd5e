"""Starting the command, against an interpreter that imports click."""

from __future__ import annotations

import sys
from pathlib import Path

from bench._measure import best

_TIMES = 7


def rows() -> list[dict[str, object]]:
    """``nel --help`` against ``python -c 'import click'``."""
    nel = str(Path(sys.executable).with_name("nel"))
    click = best(_TIMES, [sys.executable, "-c", "import click"]).cpu
    helped = best(_TIMES, [nel, "--help"]).cpu
    return [{"name": "nel --help / import click", "value": helped / click, "unit": "x CPU", "limit": 3.0}]
