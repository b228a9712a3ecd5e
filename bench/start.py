"""Starting the command, against interpreters that import what it cannot do without."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from bench import spine
from bench._measure import best, server

_TIMES = 7
# What a run needs before it does anything of its own.
_NEEDED = "import pydantic, click, yaml, asyncio"


def rows() -> list[dict[str, object]]:
    """CPU of ``nel --help`` and of ``nel eval run --resume`` on a finished run, as ratios."""
    nel = str(Path(sys.executable).with_name("nel"))
    click = best(_TIMES, [sys.executable, "-c", "import click"]).cpu
    help_text = best(_TIMES, [nel, "--help"]).cpu
    needed = best(_TIMES, [sys.executable, "-c", _NEEDED]).cpu
    nothing_to_do = _nothing_to_do(nel)
    return [
        {
            "name": "nel --help / import click",
            "value": help_text / click,
            "unit": "x CPU",
            "limit": 3.0,
        },
        {
            "name": f"nel eval run, nothing to do / {_NEEDED}",
            "value": nothing_to_do / needed,
            "unit": "x CPU",
            "limit": 1.7,
        },
        {"name": "nel eval run, nothing to do", "value": nothing_to_do, "unit": "s CPU"},
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
