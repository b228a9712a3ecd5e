"""Replicas, and servers over several nodes, as steps of a job of a real SLURM cluster; vLLM and Ray are stand-ins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, Sums, bench, marked, rows

pytestmark = pytest.mark.needs("slurm")
HERE = Path(__file__).parent


def notes_of(folder: Path) -> list[dict[str, Any]]:
    """What the servers noted, in the order of their ports."""
    return [json.loads(note.read_text() or "{}") for note in sorted(folder.glob("*.json"))]


class Job:
    """A run in a job whose model is served by stand-ins."""

    def __init__(self, nel: Nel, sums: Sums) -> None:
        self.nel, self._sums, self.notes = nel, sums, nel.folder / "notes"
        self.notes.mkdir()
        nel.env["XDG_DATA_HOME"] = str(nel.folder / "data")
        tools = nel.folder / "bin"
        tools.mkdir()
        for name, script in (("vllm", "answering_server.py"), ("ray", "ray_stand_in.py")):
            (tools / name).write_text(f'#!/bin/sh\nexec {sys.executable} {HERE / script} "$@"\n')
            (tools / name).chmod(0o755)
        self.service = {
            "type": "vllm",
            "model": "org/m",
            "protocol": "chat_completions",
            "setup_commands": ["export EXPORTED='set up'"],
            "pre_cmd": f"export PATH={tools}:$PATH",
            "extra_env": {"NOTES": str(self.notes)},
            "restarts": 0,
            "stop_grace": 2,
        }

    def start(self, steps: int, nodes: int, **service: Any) -> subprocess.Popen[str]:
        pool = {"partition": "batch", "nodes": nodes, "sbatch_extra_flags": {"mem": "600M"}}
        cluster = {
            "type": "slurm",
            "walltime": "00:10:00",
            "node_pools": {"main": pool},
            "auto_resume": False,
        }
        config = self.nel.config(
            "c.json",
            cluster=cluster,
            services={"model": self.service | service},
            benchmarks=[bench(self._sums(steps), max_concurrent=4)],
            output={"dir": "o", "progress_interval": 0.5},
        )
        return self.nel.start("eval", "run", config)

    def until_asked(self, run: subprocess.Popen[str], count: int) -> list[int]:
        deadline = time.monotonic() + 450
        while (
            sum(asked := [note.get("asked", 0) for note in notes_of(self.notes)]) < count
            and run.poll() is None
        ):
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)
        return asked

    def finished(self, run: subprocess.Popen[str]) -> str:
        out, err = run.communicate(timeout=240)
        assert run.returncode == 0, f"{out}\n{err}\n{self.log()}"
        return out + err

    def log(self) -> str:
        logs = [
            *(self.nel.folder / "o").glob("nel_eval.log"),
            *(self.nel.folder / "o").rglob("logs/*.log"),
        ]
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-3000:]}" for path in logs)


@pytest.fixture
def job(nel: Nel, sums: Sums) -> Iterator[Job]:
    yield Job(nel, sums)
    for path in nel.folder.rglob(".nel_job_chain"):
        subprocess.run(["scancel", *path.read_text().split()], capture_output=True, timeout=60)


def gone(marker: str) -> None:
    deadline = time.monotonic() + 180
    while left := marked(marker):
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.2)


@pytest.mark.parametrize(
    "balancer", ["nel", pytest.param("haproxy", marks=pytest.mark.needs("haproxy"))]
)
def test_replicas_of_a_job_fill_in_for_one_that_is_killed(balancer: str, job: Job) -> None:
    run = job.start(60, 2, replicas=2, balancer=balancer)
    first, second = job.until_asked(run, 20)
    assert first > 4 and second > 4, "both servers are used"
    one, other = notes_of(job.notes)
    assert one["env"]["SLURMD_NODENAME"] != other["env"]["SLURMD_NODENAME"], (
        "each has a node of its own"
    )
    assert one["env"]["EXPORTED"] == "set up"
    os.kill(one["pid"], signal.SIGKILL)
    said = job.finished(run)
    assert "service 'model-0' exited with code 137" in said
    assert (
        len(rows(job.nel.folder / "o" / "sums")) == 60
        and notes_of(job.notes)[1]["asked"] > second + 10
    )
    gone(str(job.notes))


def test_each_replica_spans_two_nodes_through_ray(job: Job) -> None:
    sizes = {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}
    run = job.start(30, 4, num_nodes_per_instance=2, num_instances=2, **sizes)
    job.finished(run)
    servers = notes_of(job.notes)
    joined = {path.name.removeprefix("ray-"): path.read_text() for path in job.notes.glob("ray-*")}
    heads = [server["env"]["SLURMD_NODENAME"] for server in servers]
    assert len(servers) == 2 and len({*heads, *joined}) == 4, (
        "two heads and two that joined, on four nodes"
    )
    assert sorted(server["env"]["RAY_ADDRESS"] for server in servers) == sorted(joined.values())
    assert len(set(joined.values())) == 2, "each server has a Ray of its own"
    for server in servers:
        words = server["argv"]
        assert words[words.index("--distributed-executor-backend") + 1] == "ray"
        assert words[words.index("--pipeline-parallel-size") + 1] == "2" and server["asked"] > 5
        assert (
            server["env"]["SLURM_PROCID"] == "0"
            and len(server["env"]["NEL_NODE_HOSTS"].split()) == 2
        )
    gone(str(job.notes))
