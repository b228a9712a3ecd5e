"""The cluster topologies of the walkthrough and the launcher: a plan that people can read, a script that bash can."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.config import load_config
from nemo_evaluator.core.errors import ConfigError
from nemo_evaluator.executors.base import Job
from nemo_evaluator.executors.request import RunRequest
from nemo_evaluator.executors.slurm_jobs.plan import JobPlan, plan_job
from nemo_evaluator.executors.slurm_jobs.submission import render
from nemo_evaluator.launch.start import start
from nemo_evaluator.store.run_registry import RunMeta

CONFIGS = Path(__file__).parents[2] / "examples" / "configs"
TOPOLOGIES = sorted(
    path for word in ("15", "16", "20", "multinode_") for path in CONFIGS.glob(f"{word}*.yaml")
)
# What a person looks for in the plan of each.
SAID = {
    "15_slurm_gsm8k_vllm": [
        "1 job, 02:00:00",
        "compute: 1 node x 4 GPUs, partition batch",
        "1 server, TP 4",
    ],
    "15a_slurm_shards": [
        "array of 4 jobs",
        "1-00:00:00 in total",
        "account my_account",
        "--array=0-3",
    ],
    "15b_slurm_judge": [
        "judge: 1 node x 2 GPUs",
        "sglang Qwen/Qwen3-32B, 1 server, TP 2, pool judge, after model",
    ],
    "15c_slurm_container": [
        "image vllm/vllm-openai:v0.11.0",
        "--container-image registry.example.com",
    ],
    "15d_slurm_dynamo_disagg": [
        "prefill 1 worker, TP 4, pool compute",
        "decode 1 worker",
        "2 nodes x 4 GPUs",
    ],
    "16_slurm_swebench_harbor": [
        "gpu: 1 node x 4 GPUs",
        "sandbox: 2 nodes, partition batch, sandboxes run here",
    ],
    "16a_slurm_humaneval_sandbox": [
        "sandbox: 2 nodes, partition batch, sandboxes run here",
        "--het-group=0",
    ],
    "16b_slurm_humaneval_apptainer": ["sandbox: 2 nodes, partition batch, sandboxes run here"],
    "20_slurm_gym_url": ["tools: gym at http://gym.example.com:11413", "tool_calling"],
    "20a_slurm_gym_started": ["tools: gym, 1 server, pool cpu, after model", "--het-group=1"],
    "multinode_a_instances": ["compute: 4 nodes x 8 GPUs", "4 servers, TP 8", "concurrency 256"],
    "multinode_b_ray": [
        "compute: 2 nodes x 8 GPUs",
        "1 server x 2 nodes, TP 8, PP 2",
        "--nodes 2 --ntasks 2",
    ],
    "multinode_c_ray_instances": ["compute: 4 nodes x 8 GPUs", "2 servers x 2 nodes, TP 8, PP 2"],
}


def test_every_topology_is_spoken_of() -> None:
    assert {path.stem for path in TOPOLOGIES} == set(SAID)


@pytest.mark.parametrize("path", TOPOLOGIES, ids=lambda path: path.stem)
def test_the_plan_reads_well(path: Path, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    missing = path.read_text().startswith("# Not supported yet")
    for as_json in (False, True):
        request = RunRequest(str(path), dry_run=True, as_json=as_json)
        if missing:
            with pytest.raises(ConfigError, match="not supported yet"):
                start(request)
        else:
            assert start(request) == 0
    *lines, data = capsys.readouterr().out.splitlines()
    text = " ".join(line.strip() for line in lines)
    assert [word for word in SAID[path.stem] if word not in text] == [], "\n".join(lines)
    assert [
        line for line in lines if len(line) > 80 and len(line.removesuffix(" \\").split()) > 1
    ] == []
    assert set(json.loads(data)["services"]) == set(load_config(path).config.services)
    assert not list(tmp_path.iterdir())


def planned(path: Path, folder: Path) -> JobPlan:
    loaded = load_config(path)
    run = RunMeta("run", "slurm", str(folder / "o ut"), "", "", {})
    return plan_job(Job(RunRequest(str(path)), loaded, run))


@pytest.mark.needs("shellcheck")
def test_their_scripts_pass_shellcheck(tmp_path: Path) -> None:
    scripts = []
    for path in TOPOLOGIES:
        scripts.append(tmp_path / f"{path.stem}.sh")
        scripts[-1].write_text(render(planned(path, tmp_path)))
    done = subprocess.run(["shellcheck", *map(str, scripts)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
