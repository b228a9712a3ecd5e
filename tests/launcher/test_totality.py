"""No field is dropped in silence: each one that the launcher documents is translated, warned of, or refused."""

from __future__ import annotations

import copy
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_evaluator.config import load_mapping
from nemo_evaluator.core.errors import ConfigError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher import table
from nemo_evaluator.launcher.compose import compose_launcher
from nemo_evaluator.launcher.table import Translated
from nemo_evaluator.launcher.translate import translate

_ADAPTER = "evaluation.nemo_evaluator_config.target.api_endpoint.adapter_config"
_PARAMS = "evaluation.nemo_evaluator_config.config.params"
_MLFLOW = {"mlflow.job_dirs": "warned"}
# Place of the field, a value that is not its default, what becomes of it.
_SLURM: list[tuple[str, Any, str]] = [
    ("user_config_path", "/x.yaml", "translated"),
    ("env_vars", {"A": "host:HOME"}, "translated"),
    ("execution.type", "slurm", "translated"),
    ("execution.output_dir", "/other", "translated"),
    ("execution.mode", "parallel", "translated"),
    ("execution.extra_docker_args", "--cpus 2", "refused"),
    ("execution.endpoint_readiness_timeout", 77, "translated"),
    ("execution.hostname", "h", "translated"),
    ("execution.username", "me", "translated"),
    ("execution.account", "b", "translated"),
    ("execution.partition", "p", "translated"),
    ("execution.cpu_partition", "cpu", "warned"),
    ("execution.num_nodes", 2, "translated"),
    ("execution.num_instances", 2, "translated"),
    ("execution.num_nodes_per_instance", 2, "translated"),
    ("execution.deployment.n_tasks", 1, "translated"),
    ("execution.ntasks_per_node", 2, "translated"),
    ("execution.gres", "gpu:4", "translated"),
    ("execution.gpus_per_node", 8, "translated"),
    ("execution.walltime", "02:00:00", "translated"),
    ("execution.max_walltime", "09:00:00", "translated"),
    ("execution.subproject", "mine", "warned"),
    ("execution.sbatch_comment", "c", "translated"),
    ("execution.sbatch_extra_flags", {"qos": "low"}, "translated"),
    ("execution.evaluation_gpu_visible", True, "warned"),
    ("execution.proxy", {"type": "haproxy", "config": {"haproxy_port": 1}}, "warned"),
    ("execution.mounts.deployment", {"/a": "/b"}, "translated"),
    ("execution.mounts.evaluation", {"/a": "/b"}, "translated"),
    ("execution.mounts.auxiliary.judge", {"/a": "/b"}, "translated"),
    ("execution.mounts.mount_home", False, "translated"),
    ("execution.env_vars.deployment", {"A": "host:HOME"}, "translated"),
    ("execution.env_vars.evaluation", {"A": "host:HOME"}, "translated"),
    ("execution.auto_export.destinations", ["wandb"], "translated"),
    ("execution.auto_export.launcher_install_cmd", "pip", "warned"),
    ("execution.auto_export.export_image", "i", "warned"),
    ("execution.auto_export.export_mounts", {"/a": "/b"}, "warned"),
    ("deployment.type", "sglang", "translated"),
    ("deployment.image", "i:1", "translated"),
    ("deployment.checkpoint_path", "/other", "translated"),
    ("deployment.hf_model_handle", "a/b", "translated"),
    ("deployment.served_model_name", "n", "translated"),
    ("deployment.port", 9000, "translated"),
    ("deployment.tensor_parallel_size", 2, "translated"),
    ("deployment.pipeline_parallel_size", 2, "translated"),
    ("deployment.data_parallel_size", 2, "translated"),
    ("deployment.gpu_memory_utilization", 0.8, "translated"),
    ("deployment.extra_args", "--x 1", "translated"),
    ("deployment.command", "serve it", "translated"),
    ("deployment.base_command", "serve", "translated"),
    ("deployment.env_vars", {"A": "lit:b"}, "translated"),
    ("deployment.pre_cmd", "pip install x", "refused"),
    ("deployment.cache_path", "/c", "translated"),
    ("deployment.multiple_instances", True, "translated"),
    ("deployment.endpoints.health", "/up", "translated"),
    ("deployment.endpoints.chat", "/chat", "refused"),
    ("deployment.endpoints.completions", "/c", "refused"),
    ("deployment.endpoints.embedding", "/e", "refused"),
    ("deployment.endpoints.ranking", "/r", "refused"),
    ("auxiliary_deployments.judge.type", "vllm", "translated"),
    ("auxiliary_deployments.judge.env_prefix", "J", "warned"),
    ("target.api_endpoint.url", "http://x/v1/chat/completions", "refused"),
    ("target.api_endpoint.model_id", "m", "refused"),
    ("target.api_endpoint.api_key_name", "K", "warned"),
    ("target.api_endpoint.type", "chat", "translated"),
    ("target.api_endpoint.stream", True, "translated"),
    ("target.api_endpoint.adapter_config", {"use_raise_client_errors": True}, "translated"),
    ("evaluation.env_vars", {"A": "host:HOME"}, "translated"),
    ("evaluation.pre_cmd", "x", "refused"),
    ("evaluation.post_cmd", "x", "refused"),
    ("evaluation.overrides", {"config.params.temperature": 1}, "translated"),
    ("export.env_vars", {"A": "host:HOME"}, "translated"),
    ("evaluation.tasks.0.container", "i:1", "translated"),
    ("evaluation.tasks.0.endpoint_type", "completions", "translated"),
    ("evaluation.tasks.0.env_vars", {"A": "host:HOME"}, "translated"),
    ("evaluation.tasks.0.pre_cmd", "x", "refused"),
    ("evaluation.tasks.0.post_cmd", "x", "refused"),
    ("evaluation.tasks.0.dataset_dir", "/d", "refused"),
    ("evaluation.tasks.0.dataset_mount_path", "/d", "translated"),
    ("evaluation.nemo_evaluator_config.config.type", "t", "translated"),
    ("evaluation.nemo_evaluator_config.config.output_dir", "/o", "warned"),
    ("evaluation.nemo_evaluator_config.config.supported_endpoint_types", ["chat"], "warned"),
    ("evaluation.nemo_evaluator_config.config.required_capabilities", ["x"], "warned"),
    (
        "evaluation.nemo_evaluator_config.config.target",
        {"api_endpoint": {"stream": True}},
        "warned",
    ),
    ("evaluation.nemo_evaluator_config.metadata", {"a": 1}, "warned"),
    (f"{_PARAMS}.limit_samples", 5, "translated"),
    (f"{_PARAMS}.max_new_tokens", 5, "translated"),
    (f"{_PARAMS}.max_retries", 5, "translated"),
    (f"{_PARAMS}.parallelism", 5, "translated"),
    (f"{_PARAMS}.task", "x", "refused"),
    (f"{_PARAMS}.temperature", 1.0, "translated"),
    (f"{_PARAMS}.request_timeout", 5, "translated"),
    (f"{_PARAMS}.top_p", 0.5, "translated"),
    (f"{_PARAMS}.extra.num_repeats", 5, "translated"),
    (f"{_PARAMS}.extra.n_samples", 5, "translated"),
    (f"{_PARAMS}.extra.num_fewshot", 5, "translated"),
    (f"{_PARAMS}.extra.downsampling_ratio", 0.1, "translated"),
    (f"{_PARAMS}.extra.dataset_split", "test", "refused"),
    (f"{_PARAMS}.extra.judge", {"url": "http://j"}, "warned"),
    (f"{_PARAMS}.extra.tokenizer", "t", "warned"),
    (f"{_PARAMS}.extra.tokenizer_backend", "t", "warned"),
    (f"{_PARAMS}.extra.args", "++prompt_config=x", "warned"),
    (f"{_PARAMS}.extra.args", "++inference.temperature=0.5", "translated"),
    (f"{_PARAMS}.extra.args", "++unknown=x", "refused"),
    (f"{_PARAMS}.extra.anything", "x", "refused"),
    (
        "evaluation.nemo_evaluator_config.target.api_endpoint.url",
        "http://x/v1/chat/completions",
        "refused",
    ),
    ("evaluation.nemo_evaluator_config.target.api_endpoint.model_id", "m", "refused"),
    ("evaluation.nemo_evaluator_config.target.api_endpoint.api_key_name", "K", "warned"),
    ("evaluation.nemo_evaluator_config.target.api_endpoint.type", "completions", "translated"),
    ("evaluation.nemo_evaluator_config.target.api_endpoint.stream", True, "translated"),
]
_ADAPTER_FIELDS: list[tuple[str, Any, str]] = [
    ("use_caching", False, "warned"),
    ("caching_dir", "/c", "translated"),
    ("save_requests", True, "translated"),
    ("save_responses", True, "translated"),
    ("max_saved_requests", 1, "warned"),
    ("max_saved_responses", 1, "warned"),
    ("use_request_logging", True, "translated"),
    ("max_logged_requests", 1, "translated"),
    ("use_response_logging", True, "translated"),
    ("max_logged_responses", 1, "translated"),
    ("log_failed_requests", True, "translated"),
    ("use_system_prompt", True, "refused"),
    ("custom_system_prompt", "x", "warned"),
    *(
        (f"params_to_{word}", value, "translated")
        for word, value in (("add", {"a": 1}), ("remove", ["a"]))
    ),
    *(
        (f"headers_to_{word}", value, "translated")
        for word, value in (("add", {"a": "1"}), ("remove", ["a"]))
    ),
    ("params_to_rename", {"a": "b"}, "translated"),
    ("headers_to_rename", {"a": "b"}, "translated"),
    ("use_reasoning", True, "translated"),
    ("process_reasoning_traces", True, "translated"),
    ("start_reasoning_token", "<a>", "warned"),
    ("end_reasoning_token", "</a>", "warned"),
    ("include_if_reasoning_not_finished", False, "warned"),
    ("track_reasoning", False, "warned"),
    ("tracking_requests_stats", False, "warned"),
    ("logging_aggregated_stats_interval", 5, "translated"),
    ("use_progress_tracking", True, "translated"),
    ("progress_tracking_url", "http://x", "warned"),
    ("progress_tracking_interval", 5, "warned"),
    ("use_raise_client_errors", True, "translated"),
    ("generate_html_report", True, "translated"),
    ("html_report_size", 9, "warned"),
    ("include_json", True, "translated"),
    ("use_nvcf", True, "refused"),
    ("use_omni_info", True, "refused"),
    ("endpoint_type", "chat", "warned"),
    ("output_dir", "/o", "warned"),
    ("mode", "client", "warned"),
    ("discovery", {"modules": ["m"]}, "refused"),
    ("post_eval_hooks", [{"name": "x"}], "refused"),
    ("interceptors", [{"name": "request_logging"}], "translated"),
]
_FIELDS = [
    *_SLURM,
    *((f"{_ADAPTER}.{name}", value, outcome) for name, value, outcome in _ADAPTER_FIELDS),
]


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> JsonDict:
    file = tmp_path_factory.mktemp("totality") / "c.yaml"
    file.write_text(
        "defaults: [{execution: slurm/default}, {deployment: vllm}, _self_]\n"
        "execution: {hostname: h, account: a, output_dir: /o}\n"
        "deployment: {checkpoint_path: /m, served_model_name: m}\n"
        "evaluation: {tasks: [{name: ns_gpqa}, {name: ns_mmlu}]}\n"
    )
    return compose_launcher(file)


# The rows of the table are for tasks that run without a container.
native = partial(translate, prefer="native")


def changed(config: JsonDict, path: str, value: Any) -> JsonDict:
    config = copy.deepcopy(config)
    place: Any = config
    *above, last = path.split(".")
    for key in above:
        place = place[int(key)] if key.isdecimal() else place.setdefault(key, {})
    place[last] = value
    return config


def told(translated: Translated, path: str) -> set[str]:
    shown = re.sub(r"\.(\d+)\.", r"[\1].", path)
    starts = (shown, f"{shown}.", f"{shown}[")
    return {
        one.outcome
        for one in translated.report
        if one.field == shown or one.field.startswith(starts[1:])
    }


@pytest.mark.parametrize(
    ("path", "value", "outcome"), _FIELDS, ids=[path for path, _, _ in _FIELDS]
)
def test_what_becomes_of_a_field(composed: JsonDict, path: str, value: Any, outcome: str) -> None:
    before, after = native(composed), native(changed(composed, path, value))
    said = told(after, path)
    assert outcome in said, f"{path}: {said or 'nothing was said'}"
    if outcome == "translated" and before.config == after.config:
        # It changes nothing by itself: the report must say where its value is.
        detail = {
            one.detail for one in after.report if one.field == re.sub(r"\.(\d+)\.", r"[\1].", path)
        }
        assert detail, path
    if outcome == "refused":
        with pytest.raises(ConfigError):
            after.check()


def test_every_row_of_the_table_is_walked() -> None:
    paths = [path for path, _, _ in _FIELDS]
    for row in table.rules("head"):
        family = row.removesuffix("*")
        ours = row.startswith(
            ("export.", "deployment.num_", "deployment.n_tasks", "deployment.command_template")
        )
        ours = ours or row.startswith("deployment.env_prefix")
        assert ours or any(path == row or path.startswith(family) for path in paths), row
    for row in table.rules("task"):
        ends = [
            path.partition("nemo_evaluator_config.")[2] or path.rpartition(".")[2] for path in paths
        ]
        assert row == "name" or any(
            end == row or end.startswith(row.removesuffix("*")) for end in ends
        ), row
    assert {name for name, _, _ in _ADAPTER_FIELDS} == set(table.rules("adapter"))


@pytest.mark.parametrize(
    "name", [row.removeprefix("export.") for row in table.rules("head") if "export." in row]
)
def test_what_becomes_of_an_export_setting(composed: JsonDict, name: str) -> None:
    if name.startswith(("env_vars", "execution", "auto_export")) or "auto_export" in name:
        return
    target = name.partition(".")[0]
    wanted = changed(composed, "execution.auto_export.destinations", [target])
    after = native(changed(wanted, f"export.{name}", ["x"] if name.endswith("tags") else "x"))
    rule = table.rules("head")[f"export.{name}"]
    assert told(after, f"export.{name}") == {
        "translated" if rule.to else "warned" if rule.warn else "refused"
    }
    without = native(changed(composed, f"export.{name}", "x"))
    assert told(without, f"export.{name}") == {"warned"}


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        (f"{_ADAPTER}.max_logged_request", "max_logged_requests"),
        ("evaluation.task", "tasks"),
        ("evaluation.tasks.0.envvars", "env_vars"),
        ("evaluation.nemo_evaluator_config.config.parms", "params"),
        ("execution.mounts.evaluator", "evaluation"),
    ],
)
def test_an_unknown_field_at_which_the_launcher_stops_is_refused(
    composed: JsonDict, path: str, meant: str
) -> None:
    refused = native(changed(composed, path, 1)).of("refused")
    assert refused[0].field == path.replace("tasks.0", "tasks[0]")
    assert "is not a field of the launcher" in refused[0].detail and meant in refused[0].detail


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("execution.walltme", "walltime"),
        ("deployment.tensor_parallel", "tensor_parallel_size"),
        ("deployment.data_parallel_size_local", "data_parallel_size"),
        ("deployment.endpoints.responses", "completions"),
        (f"{_PARAMS}.temprature", "temperature"),
        ("evaluation.nemo_evaluator_config.config.extra", ""),
        ("evaluation.nemo_evaluator_config.target.api_endpoint.kind", ""),
        ("cluster", ""),
    ],
)
def test_an_unknown_field_that_the_launcher_ignores_has_no_effect(
    composed: JsonDict, path: str, meant: str
) -> None:
    before = native(composed)
    after = native(changed(composed, path, 1))
    assert after.of("refused") == []
    warned = [one for one in after.of("warned") if one not in before.of("warned")]
    assert [one.field for one in warned] == [path]
    assert "has no effect" in warned[0].detail and meant in warned[0].detail
    assert after.config == before.config


def test_free_fields_of_a_deployment_reach_its_own_command(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "defaults: [{execution: local}, {deployment: generic}, _self_]\n"
        "execution: {output_dir: /o}\n"
        "deployment:\n"
        "  image: i:1\n"
        "  served_model_name: m\n"
        "  data_parallel_size_local: 4\n"
        "  command: serve --local ${deployment.data_parallel_size_local}\n"
        "evaluation: {tasks: [{name: ns_gpqa}]}\n"
    )
    translated = translate(compose_launcher(file))
    translated.check()
    service = translated.config["services"]["model"]
    assert service["command"] == ["bash", "-c", "serve --local 4"]


def test_the_checkpoint_is_also_where_the_launcher_mounts_it(composed: JsonDict) -> None:
    service = native(composed).config["services"]["model"]
    assert (service["model"], service["container_mounts"]) == ("/m", ["/m:/checkpoint:ro"])
    handle = changed(composed, "deployment.hf_model_handle", "org/m")
    handle = changed(handle, "deployment.checkpoint_path", None)
    assert "container_mounts" not in native(handle).config["services"]["model"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"reuse_cached_responses": True, "cache_dir": "/c"}, {"mode": "write", "cache_dir": "/c"}),
        ({"reuse_cached_responses": False}, {"mode": "off"}),
        ({"cache_dir": "/results/cache", "save_requests": True}, {}),
    ],
)
def test_the_cache_of_an_explicit_list(
    composed: JsonDict, config: JsonDict, expected: JsonDict
) -> None:
    listed = [{"name": "caching", "config": config}, {"name": "endpoint"}]
    translated = native(changed(composed, f"{_ADAPTER}.interceptors", listed))
    translated.check()
    (stage,) = translated.config["services"]["model"]["proxy"]["interceptors"]
    assert stage.get("config", {}) == expected
    load_mapping(translated.config)


def test_a_cache_in_the_container_is_no_folder_of_this_machine(composed: JsonDict) -> None:
    translated = native(changed(composed, f"{_ADAPTER}.caching_dir", "/results/cache"))
    assert "proxy" not in translated.config["services"]["model"]
    assert told(translated, f"{_ADAPTER}.caching_dir") == {"warned"}


def test_shell_of_the_evaluation_runs_in_the_container_when_it_is_trusted(
    composed: JsonDict, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = changed(
        changed(composed, "evaluation.pre_cmd", "pip install ${X}"), "evaluation.post_cmd", "true"
    )
    wanted = changed(wanted, "evaluation.tasks.0.pre_cmd", "echo its own")
    refused = translate(wanted, prefer="containers").of("refused")
    assert refused and all("NEMO_EVALUATOR_TRUST_PRE_CMD=1" in one.detail for one in refused)
    assert {one.field for one in refused} >= {"evaluation.tasks[0].pre_cmd", "evaluation.post_cmd"}
    assert translate(wanted, prefer="containers", dry=True).of("refused") == []
    monkeypatch.setenv("NEMO_EVALUATOR_TRUST_PRE_CMD", "1")
    solvers = [one["solver"] for one in translate(wanted, prefer="containers").config["benchmarks"]]
    assert solvers[0]["pre_cmd"] == "echo its own"
    assert {one["pre_cmd"] for one in solvers[1:]} <= {"pip install $${X}"}
    assert {one["post_cmd"] for one in solvers} == {"true"}
    assert any("--containers" in one.detail for one in native(wanted).of("refused"))


def test_all_missing_values_come_at_once(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    parts = {"defaults": [{"execution": "slurm/default"}, {"deployment": "vllm"}, "_self_"]}
    file.write_text(yaml.safe_dump(parts) + "evaluation:\n  tasks: ???  # which benchmarks\n")
    with pytest.raises(ConfigError) as raised:
        compose_launcher(file)
    found = {problem.path: problem.hint for problem in raised.value.problems}
    slurm = {f"execution.{name}" for name in ("hostname", "account", "output_dir")}
    assert set(found) == slurm | {
        "deployment.checkpoint_path",
        "deployment.served_model_name",
        "evaluation.tasks",
    }
    assert found["evaluation.tasks"] == "which benchmarks; -o ++evaluation.tasks=VALUE"
