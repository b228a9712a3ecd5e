"""A whole run whose scoring needs sandboxes, killed with twenty of them at work, and resumed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from nel_support import Nel, api, bench, rows

from nemo_evaluator.sandbox._keeper_client import state_root
from nemo_evaluator.testing import ScriptedServer

BENCHMARK = """
import time
from pathlib import Path
from nemo_evaluator import ScorerInput, benchmark, scorer


def rows():
    return [{"question": f"Problem {n}", "target": str(n)} for n in range(20)]


@benchmark(name="boxes", dataset=rows, prompt="{question}", target_field="target")
@scorer
async def score(sample: ScorerInput) -> dict:
    wait = 30 if Path("slow").exists() else 0
    result = await sample.sandbox.exec(f"(setsid sleep 987 &) ; sleep {wait}; echo {sample.target}", timeout=60)
    return {"correct": result.stdout.strip() == sample.target, "extracted": result.stdout.strip()}
"""


def _boxes(pid: int) -> int:
    return len(list(state_root().glob(f"{pid}-*/*.json")))


@pytest.mark.needs("bwrap")
def test_killed_with_twenty_sandboxes_at_work_and_resumed(tmp_path: Path) -> None:
    nel = Nel(tmp_path)
    (tmp_path / "boxes.py").write_text(BENCHMARK)
    (tmp_path / "slow").touch()
    with ScriptedServer("an answer") as server:
        one = bench(
            "boxes.py",
            max_concurrent=20,
            sandbox={"type": "local", "memory": "64m", "concurrency": 20},
        )
        config = nel.config(
            "c.yaml", services={"model": api(server.url)}, benchmarks=[one], output={"dir": "out"}
        )
        process = nel.start("eval", "run", config)
        until = time.monotonic() + 180
        while _boxes(process.pid) < 20:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        killed = time.monotonic()
        while _boxes(process.pid):
            assert time.monotonic() - killed < 10
            time.sleep(0.05)
        (tmp_path / "slow").unlink()
        nel("eval", "run", config, "--resume")
        assert server.count == 20
    assert [row["reward"] for row in rows(tmp_path / "out" / "boxes")] == [1.0] * 20
