"""What steps that wait for a vendor's batch cost in memory: all of them wait at once, up to ``max_requests``."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from bench._measure import Cost, run
from bench.scaling import SUMS

FEW, MANY = 100, 10_000


def waiting(size: int) -> Cost:
    """A whole run whose problems are all in one batch."""
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
    from openai_batches import OpenAIBatches

    with OpenAIBatches("42") as server, tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "sums.py").write_text(SUMS.format(size=size))
        batch = {"provider": "openai", "max_requests": size}
        model = {
            "type": "api",
            "url": f"{server.url}/chat/completions",
            "model": "m",
            "api_key": "k",
            "batch": batch,
        }
        bench = {"name": "sums.py", "solver": {"type": "simple", "service": "model"}}
        config = {
            "services": {"model": model},
            "benchmarks": [bench],
            "output": {"dir": "out", "report": []},
        }
        (folder / "c.yaml").write_text(json.dumps(config))
        cost = run(
            [sys.executable, "-m", "nemo_evaluator.cli.main", "eval", "run", "c.yaml"], cwd=folder
        )
        assert [len(one.requests) for one in server.batches.values()] == [size]
    return cost


def rows() -> list[dict[str, object]]:
    """For ``python -m bench batches``."""
    few, many = waiting(FEW), waiting(MANY)
    each = (many.peak_kb - few.peak_kb) / (MANY - FEW)
    return [
        {"name": "batches: memory a waiting step", "value": each, "unit": "KB", "limit": 16.0},
        {
            "name": f"batches: peak with {MANY:,} waiting steps",
            "value": many.peak_kb / 1024,
            "unit": "MB",
            "limit": 256.0,
        },
        {
            "name": "batches: CPU a problem",
            "value": 1e3 * (many.cpu - few.cpu) / (MANY - FEW),
            "unit": "ms",
        },
    ]
