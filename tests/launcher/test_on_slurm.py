"""A config of the launcher, submitted to a real SLURM: listed while it waits, followed to its end."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from engine_stand_in import stand_in
from nel_support import Nel, Serve

pytestmark = pytest.mark.needs("slurm")


@pytest.fixture
def submitted(nel: Nel, serve: Serve) -> Iterator[tuple[Nel, str]]:
    server = serve("6")
    config = {
        "defaults": [{"execution": "slurm/default"}, {"deployment": "none"}, "_self_"],
        "execution": {
            "hostname": None,
            "account": "root",
            "output_dir": str(nel.folder / "results"),
            "walltime": "00:10:00",
            "gres": None,
            "sbatch_extra_flags": {"exclusive": False, "mem": "700M"},
        },
        "target": {
            "api_endpoint": {
                "url": f"{server.url}/chat/completions",
                "model_id": "m",
                "api_key_name": "KEY",
            }
        },
        "evaluation": {
            "nemo_evaluator_config": {"config": {"params": {"limit_samples": 2, "parallelism": 2}}},
            "tasks": [{"name": "quickstart"}, {"name": "quickstart"}],
        },
    }
    (nel.folder / "config.yaml").write_text(yaml.safe_dump(config))
    nel.env |= {"XDG_DATA_HOME": str(nel.folder / "data"), "KEY": "a-key-that-nobody-else-has"}
    planned = nel("run", "--config", "config.yaml", "--dry-run").stdout
    assert "00:10:00" in planned and "a-key-that" not in planned
    found = re.search(r"Invocation ID: ([0-9a-f]{8})", nel("run", "--config", "config.yaml").stdout)
    assert found is not None
    yield nel, found[1]
    for path in nel.folder.rglob(".nel_job_chain"):
        subprocess.run(["scancel", *path.read_text().split()], capture_output=True, timeout=60)


def test_a_launcher_config_is_submitted_and_followed_to_its_end(submitted: tuple[Nel, str]) -> None:
    nel, which = submitted
    waiting = json.loads(nel("status", which, "--json").stdout)
    assert [job["job_id"] for job in waiting] == [f"{which}.0", f"{which}.1"], (
        "both, also before they begin"
    )
    assert "slurm job: " in nel("info", f"{which}.1").stdout
    assert "quickstart.1" in nel("logs", which, timeout=240).stdout
    done = json.loads(nel("status", which, "--json").stdout)
    assert [(job["status"], job["progress"]["done"]) for job in done] == [
        ("success", 2),
        ("success", 2),
    ]
    assert re.search(
        rf"{which} +\S+ +2 +slurm +quickstart.0, quickstart.1", nel("ls", "runs").stdout
    )
    files = [path for path in (nel.folder / "results").rglob("*") if path.is_file()]
    assert [path for path in files if b"a-key-that" in path.read_bytes()] == []


def _deployed(folder: Path, **execution: Any) -> dict[str, Any]:
    """A config with a server that the job starts: the engine's stand-in, as a process of its node."""
    (folder / "weights").mkdir()
    return {
        "defaults": [{"execution": "slurm/default"}, {"deployment": "trtllm"}, "_self_"],
        "execution": {
            "hostname": None,
            "account": "root",
            "output_dir": str(folder / "results"),
            "walltime": "00:10:00",
            "gres": None,
            "sbatch_extra_flags": {"exclusive": False, "mem": "700M"},
            **execution,
        },
        "deployment": {
            "image": None,
            "checkpoint_path": str(folder / "weights"),
            "served_model_name": "m",
            "tensor_parallel_size": 1,
        },
        "evaluation": {
            "nemo_evaluator_config": {"config": {"params": {"limit_samples": 4, "parallelism": 2}}},
            "tasks": [
                {"name": "quickstart"},
                {"name": "quickstart", "endpoint_type": "completions"},
            ],
        },
    }


@pytest.mark.parametrize("instances", [1, 2])
def test_servers_of_a_job_answer_both_protocols_and_log_under_its_number(
    instances: int, nel: Nel
) -> None:
    record = stand_in(nel.folder, "trtllm-serve")
    config = _deployed(nel.folder, num_instances=instances)
    (nel.folder / "config.yaml").write_text(yaml.safe_dump(config))
    nel.env |= {
        "XDG_DATA_HOME": str(nel.folder / "data"),
        "PATH": f"{nel.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    found = re.search(r"Invocation ID: ([0-9a-f]{8})", nel("run", "--config", "config.yaml").stdout)
    assert found is not None
    log = nel("logs", found[1], timeout=400).stdout
    jobs = json.loads(nel("status", found[1], "--json").stdout)
    assert [(job["status"], job["progress"]["done"]) for job in jobs] == [("success", 4)] * 2, log
    entries = [json.loads(line) for line in record.read_text().splitlines()]
    assert len([entry for entry in entries if entry[0] == "start"]) == instances
    paths = {path for path, _ in entries}
    assert {"/v1/chat/completions", "/v1/completions"} <= paths
    shown = nel("info", found[1], "--logs").stdout.splitlines()[0]
    folder = Path(shown.partition(": ")[2].removesuffix(" (exists)"))
    names = sorted(path.name for path in folder.glob("*.log"))
    slurm_job = next(name for name in names if name.startswith("slurm-"))[6:-4]
    assert f"client-{slurm_job}.log" in names
    servers = [name for name in names if name.startswith(f"server-{slurm_job}-model")]
    assert len(servers) == instances, names
    assert "quickstart" in (folder / f"client-{slurm_job}.log").read_text()
