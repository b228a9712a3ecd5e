"""One benchmark over 1, 2 and 4 nodes of a SLURM cluster: throughput, merging, what is written, calls of the scheduler.

::

    bash scripts/slurm.sh run .venv/bin/python -m bench scaling

Every shard has the same concurrency and the server sleeps, so what is measured is whether shards get in each other's
way. All nodes of the test cluster are one machine: its cores are shared, the network is not part of it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench._measure import run, server

NODES = (1, 2, 4)
PROBLEMS = int(os.environ.get("NEL_BENCH_PROBLEMS", "4000"))
_CONCURRENCY = 4
_DELAY = 0.1
_PROGRAMS = ("sbatch", "squeue", "sacct", "scancel", "scontrol", "srun")
SUMS = """
from nemo_evaluator import ScorerInput, benchmark, exact_match, scorer


def rows():
    return [{{"question": f"How much is {{n}} + {{n}}?", "target": str(2 * n)}} for n in range({size})]


@benchmark(name="sums", dataset=rows, prompt="{{question}}", target_field="target")
@scorer
def score(sample: ScorerInput) -> dict:
    return exact_match(sample)
"""


def rows() -> Iterator[dict[str, object]]:
    if shutil.which("sbatch") is None or "SLURM_CONF" not in os.environ:
        raise SystemExit(
            "there is no cluster: bash scripts/slurm.sh run .venv/bin/python -m bench scaling"
        )
    with server("--delay", str(_DELAY), "--answer", "6") as url:
        for nodes in NODES:
            with tempfile.TemporaryDirectory(prefix="nel-scaling-") as folder:
                yield from _measured(Path(folder), url, nodes)


def _measured(folder: Path, url: str, nodes: int) -> Iterator[dict[str, object]]:
    (folder / "sums.py").write_text(SUMS.format(size=PROBLEMS))
    config = {
        "services": {"model": {"type": "api", "url": f"{url}/chat/completions", "model": "m"}},
        "benchmarks": [
            {"name": "sums.py", "max_concurrent": _CONCURRENCY, "solver": {"service": "model"}}
        ],
        "cluster": {
            "type": "slurm",
            "walltime": "01:00:00",
            "shards": nodes,
            "node_pools": {"main": _POOL},
        },
        "output": {"dir": "o"},
    }
    (folder / "c.json").write_text(json.dumps(config))
    nel = str(Path(sys.executable).with_name("nel"))
    cost = run(
        [nel, "eval", "run", "c.json"],
        cwd=folder,
        env={"PATH": _counted(folder), "XDG_DATA_HOME": str(folder)},
    )
    bundle = json.loads(next((folder / "o" / "sums").glob("eval-*.json")).read_text())
    seconds = [
        _seconds(path) for path in sorted((folder / "o").glob("shard_*/sums/runtime_stats.json"))
    ]
    merge = run([nel, "eval", "merge", "o"], cwd=folder)
    calls = [line.split() for line in (folder / "calls").read_text().splitlines()]
    written = {
        path.name: path.stat().st_size
        for path in (folder / "o" / "sums").iterdir()
        if path.is_file()
    }
    assert bundle["benchmark"]["coverage"]["scored"] == PROBLEMS
    name = f"scaling, {nodes} node(s)"
    yield {"name": f"{name}: throughput", "value": PROBLEMS / max(seconds), "unit": "problems/s"}
    yield {"name": f"{name}: command to end", "value": cost.wall, "unit": "s"}
    yield {"name": f"{name}: merge, with the command's start", "value": merge.cpu, "unit": "s CPU"}
    yield {
        "name": f"{name}: journal",
        "value": written["journal.jsonl"] / PROBLEMS,
        "unit": "bytes per problem",
    }
    yield {
        "name": f"{name}: all files",
        "value": sum(written.values()) / PROBLEMS,
        "unit": "bytes per problem",
    }
    asked = sum(1 for call in calls if call[0] in ("squeue", "sacct") and call[1] == "outside")
    yield {
        "name": f"{name}: calls of the follower",
        "value": asked / cost.wall * 60,
        "unit": "calls/min",
    }
    inside = sum(1 for call in calls if call[1] == "job")
    yield {"name": f"{name}: calls of the jobs", "value": inside / nodes, "unit": "calls per job"}


_POOL = {"partition": "batch", "sbatch_extra_flags": {"mem": "900M"}}


def _counted(folder: Path) -> str:
    """A PATH on which every call of the scheduler is noted, and whether a job made it."""
    tools = folder / "tools"
    tools.mkdir()
    for name in _PROGRAMS:
        note = f'echo "{name} ${{SLURM_JOB_ID:+job}}${{SLURM_JOB_ID-outside}}" | sed "s/job.*/job/" >>{folder}/calls'
        (tools / name).write_text(f'#!/bin/sh\n{note}\nexec {shutil.which(name)} "$@"\n')
        (tools / name).chmod(0o755)
    return f"{tools}:{os.environ['PATH']}"


def _seconds(stats: Path) -> float:
    return float(json.loads(stats.read_text())["elapsed_seconds"])
