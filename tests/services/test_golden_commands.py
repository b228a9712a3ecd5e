"""The command of every kind of service in every form, from the same planner, against a file that people can read.

After a change that is meant, run this file with ``NEL_WRITE_GOLDEN=1`` and look at the diff.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from nemo_evaluator.config.groups import SERVICES
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.servers.forms import env_file_text
from nemo_evaluator.services import JobStep, Launch, Site, docker_argv, plan_service, srun_argv

GOLDEN = Path(__file__).with_name("golden_commands.yaml")
ENGINE = {
    "model": "/checkpoints/m",
    "protocol": "chat_completions",
    "served_model_name": "shown",
    "tensor_parallel_size": 4,
    "pipeline_parallel_size": 2,
    "gpus": [0, 1, 2, 3, 4, 5, 6, 7],
    "extra_args": ["--max-model-len", "8192"],
    "extra_env": {"HF_TOKEN": "hf-secret-0123456789"},
    "setup_commands": ["pip install it"],
    "pre_cmd": "ulimit -n 4096",
    "container_mounts": ["/data:/data:ro"],
    "node_pool": "gpu",
}
PARSERS = {"reasoning_parser": "qwen3", "tool_parser": "hermes"}
PLAIN = {key: value for key, value in ENGINE.items() if key not in ("setup_commands", "pre_cmd")}
SPLIT = {
    "prefill": {
        "tensor_parallel_size": 2,
        "num_workers": 2,
        "node_pool": "p",
        "extra_env": {"A": "b c"},
    },
    "decode": {
        "tensor_parallel_size": 4,
        "num_nodes": 2,
        "node_pool": "d",
        "extra_args": ["--x", "y z"],
    },
}
UNSIZED = {key: value for key, value in PLAIN.items() if "parallel" not in key}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "vllm": ("vllm", {**ENGINE, **PARSERS, "data_parallel_size": 2}),
    "vllm over two nodes": ("vllm", {**ENGINE, "num_nodes_per_instance": 2, "num_instances": 2}),
    "sglang": ("sglang", {**ENGINE, **PARSERS, "data_parallel_size": 2}),
    "sglang over two nodes": ("sglang", {**PLAIN, "num_nodes": 2}),
    "trt_llm": ("trt_llm", {**ENGINE, **PARSERS}),
    "nim": ("nim", {**PLAIN, "image": "nvcr.io/nim/m:1"}),
    "docker_model": ("docker_model", {**UNSIZED, "image": "site/server:2", "command": ["serve"]}),
    "dynamo": ("dynamo", {**ENGINE, **PARSERS}),
    "dynamo split": ("dynamo", {**UNSIZED, **SPLIT}),
    "llama_cpp": (
        "llama_cpp",
        {"model": "M.gguf", "port": 8081, "threads": 2, "replicas": 2, "node_pool": "cpu"},
    ),
    "gym": ("gym", {"server_cmd": "python gym.py --name 'a b'", "image": "site/gym:1"}),
    "custom": ("custom", {"class_path": f"{__name__}:OwnKind", "config": {"folder": "/srv"}}),
    "nat": ("nat", {"nat_config_file": "/flows/agent.yml", "image": "site/nat:1"}),
}


class OwnKind:
    """What a user would write for ``type: custom``."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def plan(self, name: str, service: Any, site: Site) -> Launch:
        argv = ["own-server", "--host", site.bind, "--port", "8765", self.folder]
        image = "site/own:1" if site.contained else None
        return Launch(argv=argv, port=8765, env={"NAME": name}, image=image, gpus=0)

    def identity(self, service: Any) -> dict[str, Any]:
        return {"folder": self.folder}


class Readable(yaml.SafeDumper):
    """Writes a text of several lines as such."""


def _text(dumper: Readable, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


Readable.add_representer(str, _text)


@pytest.fixture(autouse=True)
def _everything_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "M.gguf"
    weights.write_bytes(b"weights")
    monkeypatch.setattr(
        "nemo_evaluator.services._model_server.python_with", lambda module: "PYTHON"
    )
    monkeypatch.setattr("nemo_evaluator.services.dynamo.python_with", lambda module: "PYTHON")
    monkeypatch.setattr(
        "nemo_evaluator.services.llama_cpp.model_file", lambda model: "/models/M.gguf"
    )
    monkeypatch.setattr("pathlib.Path.is_file", lambda path: True)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")


def service(case: str) -> Any:
    kind, settings = CASES[case]
    return SERVICES.schema(kind).model_validate({"type": kind, **settings})


def forms(case: str) -> dict[str, Any]:
    """The command of each form, or why there is none."""
    wanted: dict[str, Any] = {}
    sites = {
        "process": Site(),
        "docker": Site("docker"),
        "slurm": Site("slurm"),
        "pyxis": Site("slurm", True),
    }
    for form, site in sites.items():
        try:
            plans = plan_service("m", service(case), site)
        except UsageError as error:
            wanted[form] = f"refused: {error.message}"
            continue
        plan = plans[-1]
        if form == "docker" and plan.image is None:
            wanted[form] = "no container: the service has no image"
            continue
        wanted[form] = _command(form, plan)
    return wanted


def _command(form: str, plan: Launch) -> dict[str, Any]:
    argv = list(plan.argv)
    if form == "docker":
        argv = docker_argv(plan, "nel-m", "ENV_FILE")
    elif form == "slurm":
        argv = srun_argv(plan, JobStep(het_group=1))
    elif form == "pyxis" and plan.image:
        argv = srun_argv(plan, JobStep("pyxis", ["/shared:/shared"], mount_home=False))
    secret = plan.api_key.reveal() if plan.api_key else "no key"
    assert not any(secret in word or "hf-secret" in word for word in argv), (
        "a secret is in the arguments"
    )
    argv = [str(word).replace(str(Path(__file__).parents[2] / "src"), "SRC") for word in argv]
    env = {name: "KEY" if value == secret else value for name, value in plan.env.items()}
    return {
        "argv": shlex.join(argv),
        "env": env,
        "port": plan.port,
        "nodes": plan.nodes,
        "pools": [list(p) for p in plan.pools],
    }


@pytest.mark.parametrize("case", CASES)
def test_the_command_is_the_one_that_people_have_read(case: str) -> None:
    golden = yaml.safe_load(GOLDEN.read_text()) if GOLDEN.exists() else {}
    found = forms(case)
    if os.environ.get("NEL_WRITE_GOLDEN"):
        GOLDEN.write_text(
            yaml.dump({**golden, case: found}, Dumper=Readable, sort_keys=False, width=110)
        )
    assert found == golden.get(case)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tensor_parallel_size": 4, "gpus": 2}, "needs 4 GPUs on a node .* gives it 2"),
        (
            {"tensor_parallel_size": 2, "gpus": [0, 1], "replicas": 2},
            "needs 2 GPUs on a node .* gives it 1",
        ),
        (
            {"tensor_parallel_size": 8, "pipeline_parallel_size": 2, "num_nodes": 4, "gpus": 3},
            "needs 4 GPUs on a node",
        ),
        ({"gpus": [0, 1, 2], "replicas": 2}, "cannot be shared evenly"),
    ],
)
def test_gpus_must_suffice_for_the_parallel_sizes(settings: dict[str, Any], said: str) -> None:
    block = {"type": "vllm", "model": "m", "protocol": "chat_completions", **settings}
    with pytest.raises(ValidationError, match=said):
        SERVICES.schema("vllm").model_validate(block)
    # All GPUs, or none: how many there are is not the config's to know.
    for gpus in (None, 0):
        SERVICES.schema("vllm").model_validate(block | {"gpus": gpus})


def test_an_image_in_apptainer() -> None:
    plan = plan_service("m", service("vllm"), Site("slurm", True))[0]
    argv = srun_argv(plan, JobStep("apptainer"))
    assert argv[argv.index("apptainer") :][:3] == ["apptainer", "exec", "--nv"]
    assert "docker://vllm/vllm-openai:latest" in argv


def test_an_environment_file_has_one_line_per_variable() -> None:
    assert env_file_text({"A": "b c", "D": "e=f"}) == "A=b c\nD=e=f\n"
    with pytest.raises(UsageError, match="line break"):
        env_file_text({"A": "b\nB=c"})
