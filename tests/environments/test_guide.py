"""The guide "Write your own benchmark": every block of it runs, in order, in one folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "custom-benchmark.md"


def test_every_block_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```bash\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 5
    tools = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    outputs = []
    for block in blocks:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        outputs.append(done.stdout)
    assert "What is the capital of France?" in outputs[1]
    assert "Say the word blue." in outputs[2]
    assert outputs[3] == "Tokyo 1.0\nThe answer is **Tokyo**. 1.0\nKyoto 0.0\n"
    assert "problem 40 of 400" in outputs[4]
    assert outputs[4].count(" = ") == 2
