"""Sections 10 to 13 of the walkthrough, and the launcher's options A, B and C, on a real SLURM cluster.

Each is run from its own file. Replaced are sizes (the nodes have two false GPUs), paths, images, ports and the number
of problems; in the place of the engines are programs that take their flags.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cluster_stand_ins
import pytest
import yaml
from nel_support import Nel, Serve, nel, rows, serve

from nemo_evaluator.core.processes import free_port

__all__ = ["nel", "serve"]
PARTS = Path(os.environ.get("NEL_PARTS_DIR") or Path(__file__).parents[2] / ".parts")
CONFIGS = Path(__file__).parents[2] / "examples" / "configs"
IMAGE = "nel-test/python:bookworm"
pytestmark = pytest.mark.needs("slurm", "mirror")


class Site:
    """A cluster with its own sizes and paths, on which the examples run."""

    def __init__(self, nel: Nel, mirror: Path) -> None:
        self.nel, self.folder = nel, nel.folder
        # Containers see what every user may see, which a test's own folder is not.
        self.shared = Path(tempfile.mkdtemp(prefix="nel-site-"))
        self.shared.chmod(0o755)
        found = cluster_stand_ins.install(self.shared)
        nel.env |= found | {
            "NEL_DATA_MIRROR": str(mirror),
            "XDG_DATA_HOME": str(nel.folder / "data"),
        }
        nel.env["PATH"] = f"{found['STAND_IN_TOOLS']}:{nel.env['PATH']}"

    def config(self, number: str, problems: int) -> dict[str, Any]:
        """An example as this site would write it."""
        data: dict[str, Any] = yaml.safe_load(next(CONFIGS.glob(f"{number}_*.yaml")).read_text())
        for service in data["services"].values():
            self._service(service)
        for pool in data["cluster"]["node_pools"].values():
            pool |= {"partition": "batch", "sbatch_extra_flags": {"mem": "700M"}}
            if "gres" in pool:
                pool["gres"] = "gpu:2"
        data["benchmarks"][0]["max_problems"] = problems
        data["cluster"] |= {"walltime": "00:10:00"}
        return data | {"output": {"dir": str(self.folder / "o"), "progress_interval": 0.5}}

    def _service(self, service: dict[str, Any]) -> None:
        for part in (service, service.get("prefill", {}), service.get("decode", {})):
            if "tensor_parallel_size" in part:
                part["tensor_parallel_size"] = min(2, part["tensor_parallel_size"])
        if "port" in service:
            service["port"] = free_port()

    def run(self, data: dict[str, Any], *, code: int = 0) -> list[dict[str, Any]]:
        """Run a config to its end; returns the rows of its benchmark."""
        (self.folder / "c.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
        done = self.nel("eval", "run", "c.yaml", code=None, timeout=240)
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}\n{self.logs()}"
        assert (
            json.loads(self.nel("eval", "status", "-o", "o", "--json").stdout)["state"]
            == "finished"
        )
        assert squeue_of(self.folder) == []
        return rows(self.folder / "o" / data["benchmarks"][0]["name"])

    def servers(self, name: str = "model") -> list[dict[str, Any]]:
        """What the servers of a service noted: their nodes, GPUs, flags and how often they were asked."""
        notes = (self.shared / "notes").glob(f"server-{name}-*")
        return [json.loads(path.read_text()) for path in notes]

    def logs(self) -> str:
        found = (self.folder / "o").rglob("*.log")
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-1500:]}" for path in found)


def squeue_of(folder: Path) -> list[str]:
    """Jobs of the runs below a folder that still wait or run."""
    states = "pending,running,completing"
    listed = ["squeue", "-h", "-t", states, "-o", "%A %Z"]
    shown = subprocess.run(listed, capture_output=True, text=True, timeout=60, check=True).stdout
    return [line for line in shown.splitlines() if str(folder) in line]


@pytest.fixture
def site(nel: Nel, data_mirror: Path) -> Iterator[Site]:
    made = Site(nel, data_mirror)
    yield made
    shutil.rmtree(made.shared)
    for path in nel.folder.rglob(".nel_job_chain"):
        subprocess.run(["scancel", *path.read_text().split()], capture_output=True, timeout=60)


def answer(seen: Any) -> str:
    """What a model, a judge and a programmer would say."""
    body = json.dumps(seen.body)
    if "judge" in body or "CORRECT" in body:
        return json.dumps(
            {"reason": "so", "grade": "INCORRECT" if "stupid question" in body else "CORRECT"}
        )
    return (
        "```python\ndef nothing():\n    pass\n```"
        if "Python function" in body
        else "The answer is B. 5"
    )


@pytest.mark.needs("docker")
def test_section_10_a_suite_in_one_job(site: Site, serve: Serve) -> None:
    server = serve(answer)
    data = yaml.safe_load((CONFIGS / "17_suite_release.yaml").read_text())
    data["services"]["nemotron"]["url"] = f"{server.url}/chat/completions"
    for benchmark in data["benchmarks"]:
        benchmark["max_problems"] = 2
    pool = {"partition": "batch", "sbatch_extra_flags": {"mem": "900M"}}
    data["cluster"] = {"type": "slurm", "walltime": "00:10:00", "node_pools": {"main": pool}}
    site.nel.env["NVIDIA_API_KEY"] = "nvapi-on-a-cluster"
    site.run(data | {"output": {"dir": str(site.folder / "o")}})
    assert sorted(path.parent.name for path in (site.folder / "o").glob("*/eval-*.json")) == [
        "gsm8k",
        "humaneval",
        "mmlu",
        "simpleqa",
    ]
    assert not [
        path
        for path in (site.folder / "o").rglob("*")
        if path.is_file() and b"nvapi-on" in path.read_bytes()
    ]


def test_section_11_a_server_with_gpus(site: Site) -> None:
    assert len(site.run(site.config("15", 3))) == 3
    (server,) = site.servers()
    assert (server["asked"], len(server["gpus"])) == (3, 2)
    assert "--tensor-parallel-size" in server["words"]


def test_section_13_shards_with_a_server_each(site: Site) -> None:
    assert len(site.run(site.config("15a", 8))) == 8
    assert sorted(server["asked"] for server in site.servers()) == [2, 2, 2, 2]


def test_a_judge_on_a_pool_of_its_own(site: Site) -> None:
    found = site.run(site.config("15b", 2))
    assert [row["reward"] for row in found] == [1.0, 1.0]
    (model,), (judge,) = site.servers(), site.servers("judge")
    # The judge was tried with a right and a wrong answer first.
    assert (model["asked"], judge["asked"]) == (2, 4) and model["node"] != judge["node"]


@pytest.mark.parametrize(
    "container", ["pyxis", pytest.param("apptainer", marks=pytest.mark.needs("apptainer"))]
)
def test_a_server_in_an_image(site: Site, container: str) -> None:
    """Pyxis (its stand-in) or Apptainer runs the server; the evaluator stays outside, since that image has no nel."""
    data = site.config("15c", 3)
    data["cluster"]["container"] = container
    weights = site.shared / "weights"
    weights.mkdir()
    for key in ("hostname", "eval_image", "account"):
        data["cluster"].pop(key)
    data["cluster"]["container_mounts"] = [f"{site.shared}/notes:{site.shared}/notes"]
    image = IMAGE if container == "pyxis" else str(PARTS / "images" / "python-bookworm.sif")
    data["services"]["model"] |= {"image": image, "model": str(weights)}
    data["services"]["model"]["container_mounts"] = [f"{site.shared}/bin/vllm:/usr/local/bin/vllm"]
    assert len(site.run(data)) == 3
    (server,) = site.servers()
    assert server["words"][:2] == ["serve", "/model"] and server["asked"] == 3


def test_prefill_and_decode_workers_of_dynamo(site: Site) -> None:
    assert len(site.run(site.config("15d", 2))) == 2


def test_section_12_a_model_and_sandboxes_in_two_pools(site: Site) -> None:
    data = site.config("16a", 2)
    data["sandboxes"]["code"] |= {"image": IMAGE, "memory": "100m", "cpus": 1}
    assert {row["scoring_details"]["verdict"] for row in site.run(data)} <= {
        "wrong",
        "compile_error",
    }
    assert "#SBATCH hetjob" in (site.folder / "o" / "nel_eval.sbatch").read_text()


@pytest.mark.needs("apptainer")
def test_section_12_with_apptainer(site: Site) -> None:
    data = site.config("16b", 2)
    image = str(PARTS / "images" / "python-bookworm.sif")
    data["sandboxes"]["code"] |= {
        "image": image,
        "memory": "100m",
        "cpus": 1,
        "sif_cache_dir": str(site.shared),
    }
    assert {row["scoring_details"]["verdict"] for row in site.run(data)} <= {
        "wrong",
        "compile_error",
    }


def test_tools_of_a_gym_server_elsewhere(site: Site) -> None:
    port = free_port()
    with subprocess.Popen(
        [sys.executable, "-m", "my_tools", str(port)], env=site.nel.env
    ) as server:
        try:
            data = site.config("20", 2)
            data["services"]["tools"]["url"] = f"http://127.0.0.1:{port}"
            site.run(data)
        finally:
            server.kill()
    assert site.servers()[0]["asked"] == 4


def test_tools_of_a_gym_server_that_the_job_starts(site: Site) -> None:
    site.run(site.config("20a", 2))
    # Each problem: a call of the tool, then the answer.
    assert (
        site.servers()[0]["asked"] == 4
        and "tools ready at" in (site.folder / "o" / "nel_eval.log").read_text()
    )


def test_option_a_requests_are_shared_by_servers_on_nodes_of_their_own(site: Site) -> None:
    assert len(site.run(site.config("multinode_a", 12))) == 12
    servers = site.servers()
    assert len({server["node"] for server in servers}) == len(servers) == 4
    assert sum(server["asked"] for server in servers) == 12 and all(
        server["asked"] for server in servers
    )
    assert all(len(server["gpus"]) == 2 for server in servers)


def test_option_b_one_server_over_two_nodes(site: Site) -> None:
    assert len(site.run(site.config("multinode_b", 3))) == 3
    (server,) = site.servers()
    members = [path.read_text() for path in (site.shared / "notes").glob("ray-*")]
    assert len(set(members)) == len(members) == 2 and server["node"] in members
    assert "ray" in server["words"] and "--pipeline-parallel-size" in server["words"]


def test_option_c_two_servers_over_two_nodes_each(site: Site) -> None:
    assert len(site.run(site.config("multinode_c", 8))) == 8
    servers = site.servers()
    clusters: dict[str, set[str]] = {}
    for path in (site.shared / "notes").glob("ray-*"):
        clusters.setdefault(path.name.split("-")[1], set()).add(path.read_text())
    assert sorted(map(len, clusters.values())) == [2, 2] and len(set.union(*clusters.values())) == 4
    assert len(servers) == 2 and all(server["asked"] for server in servers)
