"""Starting the command: its help against an interpreter that imports click, and a run that has nothing to do."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from bench import spine
from bench._measure import best, server

_TIMES = 7


def rows() -> list[dict[str, object]]:
    """``nel --help`` against an interpreter; CPU seconds of ``nel eval run --resume`` on a finished run."""
    nel = str(Path(sys.executable).with_name("nel"))
    click = best(_TIMES, [sys.executable, "-c", "import click"]).cpu
    helped = best(_TIMES, [nel, "--help"]).cpu
    return [
        {
            "name": "nel --help / import click",
            "value": helped / click,
            "unit": "x CPU",
            "limit": 3.0,
        },
        {
            "name": "nel eval run, nothing to do",
            "value": _nothing_to_do(nel),
            "unit": "s CPU",
            "limit": 0.35,
        },
    ]


def _nothing_to_do(nel: str) -> float:
    folder = Path(tempfile.mkdtemp(prefix="nel-bench-"))
    try:
        spine.prepare(folder, 5)
        with server("--answer", "The answer is 42.") as url:
            spine.evaluate(folder, url, 4)
            again = [nel, "eval", "run", str(folder / "config.yaml"), "--resume"]
            return best(_TIMES, again, env={"XDG_DATA_HOME": str(folder / "home")}).cpu
    finally:
        shutil.rmtree(folder, ignore_errors=True)
