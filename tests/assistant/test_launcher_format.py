"""What `nel skills build-config` writes by default: the launcher's dialect, used as the two skills say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from nel_support import Nel, Serve

from nemo_evaluator.assistant.build_config import (
    SetupAnswers,
    ask_missing,
    build_config,
    read_answers,
)
from nemo_evaluator.assistant.yaml_text import MissingValue, missing_values, set_value
from nemo_evaluator.cli.main import nel as command
from nemo_evaluator.config import load_mapping
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.launcher.compose import compose_launcher
from nemo_evaluator.launcher.start import converted_text, move_secrets
from nemo_evaluator.launcher.translate import translate
from nemo_evaluator.preflight import find_problems

_VARIABLES = ("NGC_API_KEY", "NEMO_API_KEY", "HF_TOKEN", "JUDGE_API_KEY", "USER_API_KEY")
_VALUES = {
    "url": "http://127.0.0.1:9/v1/chat/completions",
    "api_key_name": "NEMO_API_KEY",
    "output_dir": "/results",
    "tracking_uri": "sqlite:///mlflow.db",
    "hf_model_handle": "org/model-8b",
    "checkpoint_path": "/checkpoints/model-8b",
    "image": "nvcr.io/nim/org/model:1.0",
}
_LIMIT = "++evaluation.nemo_evaluator_config.config.params.limit_samples=3"


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.setenv(name, "secret-value-of-the-test")


def value_of(missing: MissingValue) -> str:
    assert missing.hint, missing
    if missing.name.endswith("judge.url"):
        return "http://127.0.0.1:9/v1"
    return _VALUES.get(str(missing.path[-1]), "some-name")


def complete(answers: SetupAnswers, folder: Path) -> Path:
    text = ask_missing(value_of, build_config(answers, form="launcher"))
    assert missing_values(text) == []
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("model_type", ["base", "chat", "reasoning", "chat_reasoning"])
@pytest.mark.parametrize("deployment", ["none", "vllm", "sglang", "nim", "trtllm"])
@pytest.mark.parametrize("execution", ["local", "slurm"])
def test_every_file_becomes_a_config_without_problems(
    execution: str, deployment: str, model_type: str, tmp_path: Path
) -> None:
    bundles = ["standard", "code", "math_reasoning", "safety", "multilingual", "core_reasoning"]
    bundles.append("long_context")
    if model_type != "base":
        bundles.append("agentic")
    export = {"base": "none", "chat": "mlflow"}.get(model_type, "wandb")
    given = {"execution": execution, "deployment": deployment, "export": export}
    answers = read_answers({**given, "model_type": model_type, "benchmarks": bundles})
    translated = translate(compose_launcher(complete(answers, tmp_path)), dry=True)
    move_secrets(translated)
    translated.check()
    text = converted_text(translated, "config.yaml")
    loaded = load_mapping(yaml.safe_load(text))
    assert find_problems(loaded, file_only=True) == [], text
    assert "***" not in text


def build(folder: Path, *words: str, deployment: str = "none", model_type: str = "chat") -> str:
    arguments = ["skills", "build-config", "-e", "local", "-d", deployment, "-m", model_type]
    arguments += ["-b", "standard", "-o", str(folder / "c.yaml"), *words]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_the_launchers_format_is_the_default_and_nels_own_is_an_option(tmp_path: Path) -> None:
    output = build(tmp_path)
    data = yaml.safe_load((tmp_path / "c.yaml").read_text())
    assert list(data) == ["defaults", "execution", "target", "evaluation"]
    assert "target.api_endpoint.url: URL of the endpoint" in output
    assert f"Next: nel run --config {tmp_path / 'c.yaml'} --dry-run" in output
    build(tmp_path, "--format", "nel")
    own = yaml.safe_load((tmp_path / "c_1.yaml").read_text())
    assert list(own) == ["services", "benchmarks", "output"]


@pytest.mark.parametrize(
    ("deployment", "model", "expected"),
    [
        ("vllm", "org/m", {"checkpoint_path": None, "hf_model_handle": "org/m"}),
        ("vllm", "/ckpt/m", {"checkpoint_path": "/ckpt/m", "hf_model_handle": None}),
        ("trtllm", "/ckpt/m", {"checkpoint_path": "/ckpt/m"}),
        ("nim", "nvcr.io/nim/org/m:1", {"image": "nvcr.io/nim/org/m:1"}),
    ],
)
def test_model_fills_the_deployment(
    deployment: str, model: str, expected: dict[str, str], tmp_path: Path
) -> None:
    build(tmp_path, "--model", model, deployment=deployment)
    settings = yaml.safe_load((tmp_path / "c.yaml").read_text())["deployment"]
    assert {key: settings.get(key) for key in expected} == expected
    assert settings["served_model_name"] != "???"


def test_model_fills_the_endpoint(tmp_path: Path) -> None:
    build(tmp_path, "--model", "openai/gpt-4.1")
    target = yaml.safe_load((tmp_path / "c.yaml").read_text())["target"]
    assert target["api_endpoint"] == {
        "url": "https://api.openai.com/v1/chat/completions",
        "model_id": "gpt-4.1",
        "api_key_name": "OPENAI_API_KEY",
    }


def test_a_recipe_without_a_task_of_the_launcher_names_the_other_format() -> None:
    answers = read_answers({"benchmarks": ["mmmu_pro"]})
    with pytest.raises(UsageError) as error:
        build_config(answers, form="launcher")
    assert "--format nel" in str(error.value.hint)
    assert "ns_gpqa" in build_config(read_answers({"benchmarks": ["gpqa"]}), form="launcher")


@pytest.mark.parametrize("form", ["nel", "launcher"])
@pytest.mark.parametrize("deployment", ["vllm", "sglang"])
def test_the_context_of_a_server_has_room_for_a_reasoning_answer(
    deployment: str, form: str
) -> None:
    answers = SetupAnswers(deployment=deployment, model_type="reasoning")
    text = build_config(answers, form="launcher" if form == "launcher" else "nel")
    context = re.search(r'(?:--max-model-len|--context-length)[", ]+(\d+)', text)
    answer = re.search(r"(?:max_new_tokens|max_tokens): (\d+)", text)
    assert context is not None and answer is not None
    assert int(context[1]) > int(answer[1])


def test_the_commands_of_the_skills_work_on_the_file(nel: Nel, serve: Serve) -> None:
    """Dry run, three samples of all tasks, one task, status, info: on the file as the assistant wrote it."""
    server = serve("6")
    nel.env |= {"XDG_DATA_HOME": str(nel.folder / "data"), "KEY": "a-key-that-nobody-else-has"}
    words = ["skills", "build-config", "--execution", "local", "--deployment", "none"]
    words += ["--model-type", "chat", "--benchmarks", "standard", "--output", "c.yaml"]
    nel(*words)
    file = nel.folder / "c.yaml"
    text = file.read_text()
    for path, value in {
        "target.api_endpoint.url": f"{server.url}/chat/completions",
        "target.api_endpoint.model_id": "m",
        "target.api_endpoint.api_key_name": "KEY",
        # Tasks whose problems are part of nel; the list is edited in step 5.
        "evaluation.tasks": [{"name": "quickstart"}, {"name": "quickstart"}],
    }.items():
        text = set_value(text, path.split("."), value)
    file.write_text(text)
    assert "quickstart.0" in nel("run", "--config", "c.yaml", "--dry-run").stdout
    output = nel("run", "--config", "c.yaml", "-o", _LIMIT, "--wait", code=None).stdout
    rows = [path.read_text().count("\n") for path in nel.folder.rglob("results.jsonl")]
    assert rows == [3, 3], output
    output = nel("run", "--config", "c.yaml", "-t", "quickstart.1", "-o", _LIMIT).stdout
    found = re.search(r"Invocation ID: (\w+)", output)
    assert found is not None
    nel("logs", found[1])
    jobs = json.loads(nel("status", found[1], "--json").stdout)
    assert [job["job_id"] for job in jobs] == [f"{found[1]}.1"]
    assert jobs[0]["progress"] == {"done": 3, "total": 3}


def test_multi_node_settings_are_added_as_the_skill_says(tmp_path: Path) -> None:
    answers = SetupAnswers(execution="slurm", deployment="vllm")
    file = complete(answers, tmp_path)
    overrides = ["++execution.num_instances=2", "++execution.num_nodes_per_instance=2"]
    overrides += ["++deployment.checkpoint_path=/ckpt", "++deployment.hf_model_handle=null"]
    service = translate(compose_launcher(file, overrides), dry=True).config["services"]["model"]
    assert (service["num_instances"], service["num_nodes_per_instance"]) == (2, 2)
    assert service["model"] == "/ckpt"


def test_overrides_of_the_launcher_on_a_config_of_nel_say_what_to_do(nel: Nel) -> None:
    build(nel.folder, "--format", "nel")
    error = nel("run", "--config", "c.yaml", "-o", _LIMIT, "--dry-run", code=1).stderr
    assert "is a config of nel, not of the launcher" in error
    assert "nel skills build-config" in error
    assert "nel skills build-config" in nel("run", "--config", "c.yaml", "-t", "x", code=1).stderr


def test_a_config_of_the_launcher_elsewhere_names_the_command_for_it(nel: Nel) -> None:
    build(nel.folder)
    for words in (["config", "check"], ["eval", "run"], ["canary"]):
        assert "nel run --config FILE" in nel(*words, "c.yaml", code=1).stderr
