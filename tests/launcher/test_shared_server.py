"""Tasks that ask one server in different ways: protocols, interceptors and generation settings of their own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from engine_stand_in import stand_in
from nel_support import Nel, free_ports

from nemo_evaluator.config import load_mapping
from nemo_evaluator.launcher.compose import compose_launcher
from nemo_evaluator.launcher.table import Translated
from nemo_evaluator.launcher.translate import translate

_HEAD = """
defaults: [{execution: local}, {deployment: vllm}, _self_]
execution: {output_dir: out}
deployment: {checkpoint_path: /m, served_model_name: m, tensor_parallel_size: 1, image: "vllm/vllm-openai:v0.11.0"}
"""


def plan(folder: Path, tasks: str, head: str = _HEAD) -> Translated:
    file = folder / "c.yaml"
    file.write_text(head + f"evaluation: {{tasks: [{tasks}]}}\n", encoding="utf-8")
    translated = translate(compose_launcher(file), prefer="native", dry=True)
    translated.check()
    load_mapping(translated.config)
    return translated


_PROMPT = (
    "nemo_evaluator_config: {target: {api_endpoint: {adapter_config:"
    " {use_system_prompt: true, custom_system_prompt: /no_think}}}}"
)


def test_chat_and_completions_tasks_share_one_server(tmp_path: Path) -> None:
    tasks = "{name: simple_evals.humaneval}, {name: bigcode-evaluation-harness.humaneval}"
    config = plan(tmp_path, tasks).config
    services = config["services"]
    assert services["model"]["type"] == "vllm"
    assert services["model"]["protocol"] == "chat_completions"
    assert services["model_2"] == {"type": "shared", "server": "model", "protocol": "completions"}
    assert [bench["solver"]["service"] for bench in config["benchmarks"]] == ["model", "model_2"]


@pytest.mark.parametrize("prompt_first", [True, False])
def test_a_system_prompt_of_one_task_is_not_sent_for_another(
    tmp_path: Path, prompt_first: bool
) -> None:
    with_prompt = f"{{name: simple_evals.mgsm, {_PROMPT}}}"
    names = [with_prompt, "{name: simple_evals.mmlu}"]
    config = plan(tmp_path, ", ".join(names if prompt_first else names[::-1])).config
    loaded = load_mapping(config)
    services = getattr(loaded, "config", loaded).services
    prompts: dict[str, list[str]] = {}
    for bench in config["benchmarks"]:
        proxy = services[bench["solver"]["service"]].proxy
        prompts[bench["id"]] = [stage.name for stage in proxy.interceptors] if proxy else []
    position = 0 if prompt_first else 1
    assert prompts == {f"mgsm.{position}": ["system_message"], f"mmlu.{1 - position}": []}


def test_native_and_container_tasks_share_one_server(tmp_path: Path) -> None:
    tasks = f"{{name: simple_evals.mgsm, {_PROMPT}}}, {{name: garak.garak}}"
    config = plan(tmp_path, tasks).config
    assert [bench["solver"]["type"] for bench in config["benchmarks"]] == ["simple", "container"]
    assert config["services"]["model_2"]["server"] == "model"
    assert [bench["solver"]["service"] for bench in config["benchmarks"]] == ["model", "model_2"]


def test_three_ways_to_ask_reach_one_server(tmp_path: Path, nel: Nel) -> None:
    record = stand_in(tmp_path, "trtllm-serve")
    (tmp_path / "weights").mkdir()
    deployment = {
        "image": None,
        "checkpoint_path": str(tmp_path / "weights"),
        "served_model_name": "m",
        "tensor_parallel_size": 1,
        "port": free_ports(2),
    }
    prompt = yaml.safe_load(_PROMPT)
    config = {
        "defaults": [{"execution": "local"}, {"deployment": "trtllm"}, "_self_"],
        "execution": {"output_dir": "results"},
        "deployment": deployment,
        "evaluation": {
            "nemo_evaluator_config": {"config": {"params": {"limit_samples": 2}}},
            "tasks": [
                {"name": "quickstart"},
                {"name": "quickstart", "endpoint_type": "completions"},
                {"name": "quickstart", **prompt},
            ],
        },
    }
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    nel.env |= {
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    output = nel("run", "--config", "c.yaml", "--wait", code=None)
    entries = [json.loads(line) for line in record.read_text().splitlines()]
    starts = [entry for entry in entries if entry[0] == "start"]
    assert len(starts) == 1, output.stderr
    # A server that has just started is asked one question to warm up.
    warm_up = [{"role": "user", "content": "Hi"}]
    requests = [
        entry for entry in entries if entry[0] != "start" and entry[1].get("messages") != warm_up
    ]
    paths = sorted(path for path, _ in requests)
    assert paths == ["/v1/chat/completions"] * 4 + ["/v1/completions"] * 2
    systems = [body["messages"][0]["content"] for path, body in requests if "messages" in body]
    assert systems.count("/no_think") == 2
    folders = [path.parent.name for path in tmp_path.rglob("results.jsonl")]
    assert sorted(folders) == ["quickstart.0", "quickstart.1", "quickstart.2"]
