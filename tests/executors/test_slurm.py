"""Runs on a real SLURM cluster, by ``nel`` alone: jobs, shards, chains, pools, services, ssh."""

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, Serve, Sums, api, bench, nel, rows, serve, sums

from nemo_evaluator.testing import Say, ScriptedServer

__all__ = ["nel", "serve", "sums"]
pytestmark = [pytest.mark.needs("slurm"), pytest.mark.serial]
POOL: dict[str, Any] = {"partition": "batch", "sbatch_extra_flags": {"mem": "900M"}}


class Cluster:
    """Configs for the cluster, and a look at what became of them."""

    def __init__(self, nel: Nel, sums: Sums) -> None:
        self.nel, self._sums = nel, sums
        nel.env |= {"XDG_DATA_HOME": str(nel.folder / "data"), "SHELL_KEY": "sk-shell-0123456789"}

    def config(self, steps: int, services: dict[str, Any], *, solver: str = "model", **cluster: Any) -> str:
        block = {"type": "slurm", "walltime": "00:10:00", "node_pools": {"main": POOL}} | cluster
        one = bench(self._sums(steps), max_concurrent=2)
        one["solver"] = {"type": "simple", "service": solver}
        output = {"dir": "o", "progress_interval": 0.5}
        return self.nel.config("c.json", cluster=block, services=services, benchmarks=[one], output=output)

    def status(self, folder: str = "o") -> dict[str, Any]:
        said = self.nel("eval", "status", "-o", folder, "--json").stdout
        return dict(json.loads(said))

    def until(self, condition: Callable[[dict[str, Any]], object], folder: str = "o", seconds: float = 150) -> Any:
        deadline = time.monotonic() + seconds
        while not condition(state := self.status(folder)):
            assert time.monotonic() < deadline, (state, self.log(folder))
            time.sleep(0.5)
        return state

    def over(self, folder: str = "o") -> dict[str, Any]:
        return dict(self.until(lambda state: not state["running"], folder))

    def log(self, folder: str = "o") -> str:
        logs = [*(self.nel.folder / folder).rglob("nel_eval.log"), *(self.nel.folder / folder).rglob("logs/*.log")]
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-3000:]}" for path in logs)

    def chain(self, folder: str = "o") -> list[str]:
        return (self.nel.folder / folder / ".nel_job_chain").read_text().split()


def squeue(*words: str) -> str:
    done = subprocess.run(["squeue", "-h", *words], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def asked(server: ScriptedServer) -> Counter[str]:
    return Counter(str(seen.body["messages"][-1]["content"]) for seen in server.seen)


@pytest.fixture
def on(nel: Nel, sums: Sums) -> Iterator[Cluster]:
    made = Cluster(nel, sums)
    yield made
    for path in nel.folder.rglob(".nel_job_chain"):
        subprocess.run(["scancel", *path.read_text().split()], capture_output=True, timeout=60)


def test_a_job_serves_the_model_and_is_followed_to_its_end(on: Cluster) -> None:
    model = {"type": "llama_cpp", "model": "smollm2-135m", "threads": 1, "slots": 2, "generation": {"max_tokens": 8}}
    done = on.nel("eval", "run", on.config(4, {"model": model}), timeout=240)
    assert "Submitted job" in done.stdout and "finished" in done.stdout and "model ready at" in done.stderr
    assert len(rows(on.nel.folder / "o" / "sums")) == 4
    status = on.status()
    assert (status["state"], status["exit_code"], status["benchmarks"][0]["scored"]) == ("finished", 0, 4)
    assert "model ready at" in on.nel("eval", "logs", "-o", "o").stdout
    assert (on.nel.folder / "o" / "logs" / "server-model.log").stat().st_size > 0
    assert not list((on.nel.folder / "o").glob(".services-*")) and not (on.nel.folder / "o" / ".secrets.env").exists()
    job, follow_up = on.chain()
    assert squeue("-j", f"{job},{follow_up}", "-t", "pending,running,completing") == ""


@pytest.mark.needs("model")
def test_two_pools_are_one_job_and_services_wait_for_each_other(on: Cluster) -> None:
    model = {"type": "llama_cpp", "model": "smollm2-135m", "threads": 1, "slots": 2, "generation": {"max_tokens": 8}}
    services = {
        "judge": model | {"node_pool": "second", "depends_on": ["model"]},
        "model": model | {"node_pool": "main"},
    }
    pools = {"main": POOL, "second": {**POOL, "partition": "gpu"}}
    done = on.nel("eval", "run", on.config(2, services, solver="judge", node_pools=pools), timeout=240)
    up = [line.split()[0] for line in done.stderr.splitlines() if " ready at " in line]
    assert up == ["model", "judge"]
    begun = [line for line in done.stderr.splitlines() if line.startswith("Starting service: judge")]
    assert done.stderr.index("model ready at") < done.stderr.index(begun[0])
    assert "#SBATCH hetjob" in (on.nel.folder / "o" / "nel_eval.sbatch").read_text()
    assert len(rows(on.nel.folder / "o" / "sums")) == 2
