"""Checkpoints as they are found in the wild, crafted small: what is read from them and what follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from nemo_evaluator.assistant.build_config import SetupAnswers, build_config
from nemo_evaluator.assistant.checkpoint import ModelCheckpoint, read_checkpoint
from nemo_evaluator.assistant.serving import Advice, advise, parallel_sizes
from nemo_evaluator.cli.main import nel
from nemo_evaluator.core.errors import UsageError

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 131072,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
}
QWEN3 = LLAMA | {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "max_position_embeddings": 40960,
}
MOE = LLAMA | {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_experts": 128,
}
THINKS = {
    "chat_template": "{% if tools %}<tools>{% endif %}{% if enable_thinking %}<think>{% endif %}"
}
TOOLS = {"chat_template": "{% if tools %}<tools>{% endif %}"}
NO_TOOLS = {"chat_template": "{% if enable_thinking %}<think>{% endif %}"}
PLAIN = {"chat_template": "{{ messages }}"}
GB = 10**9


def craft(folder: Path, name: str, config: Any = None, *, weights: float = 0, **files: Any) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    if config is not None:
        files["config"] = config
    if weights:
        files["model.safetensors.index"] = {
            "metadata": {"total_size": int(weights * GB)},
            "weight_map": {},
        }
    for stem, data in files.items():
        (path / f"{stem}.json").write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def group(bits: int, kind: str, activations: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"weights": {"num_bits": bits, "type": kind}, "targets": ["Linear"]}
    return found | (
        {"input_activations": {"num_bits": activations, "type": kind}} if activations else {}
    )


MODELOPT_FP8 = {
    "quant_method": "modelopt",
    "quant_algo": "FP8",
    "kv_cache_scheme": {"num_bits": 8, "type": "float"},
}
MIXED = {
    "quant_method": "modelopt",
    "quant_algo": "MIXED_PRECISION",
    "quantized_layers": {
        "a": {"quant_algo": "FP8"},
        "b": {"quant_algo": "NVFP4"},
        "c": {"quant_algo": "NVFP4"},
    },
}
# name: (files, method, algorithm, KV cache, source)
QUANTIZED: dict[str, tuple[dict[str, Any], str | None, str | None, str | None, str | None]] = {
    "plain": ({"config": LLAMA}, None, None, None, None),
    "modelopt-fp8": (
        {"config": LLAMA | {"quantization_config": MODELOPT_FP8}},
        "modelopt",
        "FP8",
        "FP8",
        "config.json",
    ),
    "modelopt-nvfp4": (
        {
            "config": LLAMA
            | {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}
        },
        "modelopt",
        "NVFP4",
        None,
        "config.json",
    ),
    "modelopt-mixed": (
        {"config": LLAMA | {"quantization_config": MIXED}},
        "modelopt",
        "MIXED_PRECISION",
        None,
        "config.json",
    ),
    "legacy-fp8": (
        {
            "config": LLAMA,
            "hf_quant_config": {
                "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
            },
        },
        "modelopt",
        "FP8",
        "FP8",
        "hf_quant_config.json",
    ),
    "legacy-awq": (
        {
            "config": LLAMA,
            "hf_quant_config": {
                "quantization": {"quant_algo": "W4A16_AWQ", "kv_cache_quant_algo": None}
            },
        },
        "modelopt",
        "W4A16_AWQ",
        None,
        "hf_quant_config.json",
    ),
    "legacy-kv-only": (
        {
            "config": LLAMA,
            "hf_quant_config": {"quantization": {"quant_algo": None, "kv_cache_quant_algo": "FP8"}},
        },
        None,
        None,
        "FP8",
        "hf_quant_config.json",
    ),
    "awq": (
        {"config": LLAMA | {"quantization_config": {"quant_method": "awq", "bits": 4}}},
        "awq",
        "INT4 AWQ",
        None,
        "config.json",
    ),
    "gptq": (
        {"config": LLAMA | {"quantization_config": {"quant_method": "gptq", "bits": 8}}},
        "gptq",
        "INT8 GPTQ",
        None,
        "config.json",
    ),
    "fp8-block": (
        {
            "config": LLAMA
            | {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
        },
        "fp8",
        "FP8 BLOCK",
        None,
        "config.json",
    ),
    "mxfp4": (
        {"config": LLAMA | {"quantization_config": {"quant_method": "mxfp4"}}},
        "mxfp4",
        "MXFP4",
        None,
        "config.json",
    ),
    "bnb": (
        {
            "config": LLAMA
            | {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}
        },
        "bitsandbytes",
        "INT4 BNB",
        None,
        "config.json",
    ),
    "ct-fp8": (
        {
            "config": LLAMA
            | {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"group_0": group(8, "float", 8)},
                }
            }
        },
        "compressed-tensors",
        "FP8",
        None,
        "config.json",
    ),
    "ct-w4a16": (
        {
            "config": LLAMA
            | {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"group_0": group(4, "int")},
                }
            }
        },
        "compressed-tensors",
        "W4A16",
        None,
        "config.json",
    ),
    "ct-mixed": (
        {
            "config": LLAMA
            | {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"a": group(8, "float", 8), "b": group(4, "float", 4)},
                }
            }
        },
        "compressed-tensors",
        "FP8 + NVFP4",
        None,
        "config.json",
    ),
    "vlm-fp8": (
        {
            "config": {
                "model_type": "vl",
                "vision_config": {},
                "text_config": LLAMA | {"quantization_config": MODELOPT_FP8},
            }
        },
        "modelopt",
        "FP8",
        "FP8",
        "config.json",
    ),
}


def read(folder: Path, name: str, **files: Any) -> ModelCheckpoint:
    return read_checkpoint(craft(folder, name, **files))


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantization_is_read_from_wherever_it_stands(name: str, tmp_path: Path) -> None:
    files, *expected = QUANTIZED[name]
    found = read(tmp_path, name, **files).quantization
    assert [found.method, found.algorithm, found.kv_cache, found.source] == expected


def served(
    checkpoint: ModelCheckpoint, runtime: str = "vllm", gpus: int = 8
) -> tuple[str, dict[str, str], str]:
    found = advise(checkpoint, gpus).serving[runtime]
    return " ".join(found.args), found.env, " ".join(found.notes)


def test_flags_follow_from_the_files(tmp_path: Path) -> None:
    fp8 = read(
        tmp_path,
        "fp8",
        config=LLAMA | {"quantization_config": MODELOPT_FP8, "auto_map": {"AutoModel": "x.Y"}},
    )
    args, _, notes = served(fp8)
    assert args == "--max-model-len 131072 --trust-remote-code --kv-cache-dtype fp8"
    assert "give no --quantization" in notes
    assert served(fp8, "sglang")[0].endswith(
        "--kv-cache-dtype fp8_e4m3 --quantization modelopt_fp8"
    )
    assert served(fp8, "trt_llm")[0] == "--max_seq_len 131072 --trust_remote_code"
    nvfp4 = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}
    args, env, notes = served(read(tmp_path, "moe", config=MOE | nvfp4))
    assert "--enable-expert-parallel" in args
    assert env["VLLM_USE_FLASHINFER_MOE_FP4"] == "1"
    assert "Blackwell" in notes
    assert (
        served(read(tmp_path, "legacy", **QUANTIZED["legacy-fp8"][0]))[2].count(
            "hf_quant_config.json"
        )
        == 1
    )
    mixed = served(read(tmp_path, "mixed", **QUANTIZED["modelopt-mixed"][0]), "sglang")
    assert "--quantization" not in mixed[0]
    assert "mixed precision" in mixed[2]


@pytest.mark.parametrize(
    ("name", "config", "template", "reasoning", "tools"),
    [
        ("Qwen3-32B", QWEN3, THINKS, "qwen3", "hermes"),
        ("Qwen3-32B", QWEN3, NO_TOOLS, "qwen3", None),
        ("Qwen3-32B", QWEN3, {}, None, None),
        ("Qwen3-4B-Instruct-2507", QWEN3, TOOLS, None, "hermes"),
        ("Qwen3-30B-A3B-Thinking-2507", MOE, THINKS, "qwen3", "hermes"),
        ("Llama-3.1-8B-Instruct", LLAMA, TOOLS, None, "llama3_json"),
        ("DeepSeek-R1-Distill-Llama-8B", LLAMA, THINKS, "deepseek_r1", None),
        (
            "gpt-oss-20b",
            LLAMA | {"model_type": "gpt_oss"},
            {"chat_template": "{{ tools }}{{ reasoning_effort }}"},
            "openai_gptoss",
            "openai",
        ),
    ],
)
def test_parsers_of_families(
    name: str, config: Any, template: Any, reasoning: str | None, tools: str | None, tmp_path: Path
) -> None:
    found = advise(read(tmp_path, name, config=config, tokenizer_config=template)).serving["vllm"]
    assert (found.reasoning_parser, found.tool_parser) == (reasoning, tools)
    assert ("--enable-auto-tool-choice" in found.flags) == (tools is not None), (
        "vLLM parses no tool calls without it"
    )


@pytest.mark.parametrize(
    ("config", "tokens", "scaling"),
    [
        (LLAMA, 131072, None),
        (
            QWEN3
            | {
                "rope_scaling": {
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 32768,
                }
            },
            131072,
            "yarn",
        ),
        (LLAMA | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131072, None),
        ({"model_type": "x", "text_config": {"max_position_embeddings": 262144}}, 262144, None),
        ({"model_type": "gpt2", "n_positions": 1024}, 1024, None),
        ({"model_type": "x", "max_position_embeddings": True}, 4096, None),
        ({"model_type": "x", "max_position_embeddings": "many"}, 4096, None),
    ],
)
def test_context_with_its_scaling(
    config: Any, tokens: int, scaling: str | None, tmp_path: Path
) -> None:
    found = read(tmp_path, "m", config=config, tokenizer_config={"model_max_length": 4096})
    assert (found.context, found.rope_scaling) == (tokens, scaling)


@pytest.mark.parametrize(
    ("weights", "heads", "gpus", "memory", "expected"),
    [
        (16, 64, 1, 80, (1, 1, 1, True)),
        (140, 64, 8, 80, (4, 1, 2, True)),
        (16, 64, 8, 80, (1, 1, 8, True)),
        (140, 40, 8, 80, (4, 1, 2, True)),
        (140, 14, 8, 80, (2, 2, 2, True)),
        (140, 64, 1, 80, (1, 3, 1, False)),
        (1300, 64, 16, 141, (8, 2, 1, True)),
    ],
)
def test_parallel_sizes_fit_and_divide(
    weights: int, heads: int, gpus: int, memory: int, expected: tuple[Any, ...], tmp_path: Path
) -> None:
    found = parallel_sizes(
        read(tmp_path, "m", config=LLAMA | {"num_attention_heads": heads}, weights=weights),
        gpus,
        memory,
    )
    assert (found.tensor, found.pipeline, found.data, found.fits) == expected
    if not found.fits:
        assert "4 GPUs are needed" in found.note


def test_blocks_of_fp8_are_never_cut(tmp_path: Path) -> None:
    blocks = {
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
        "moe_intermediate_size": 768,
    }
    assert parallel_sizes(read(tmp_path, "m", config=MOE | blocks, weights=400), 8, 80).tensor == 2


def test_benchmarks_follow_the_damage(tmp_path: Path) -> None:
    def of(name: str, **files: Any) -> Advice:
        return advise(read(tmp_path, name, tokenizer_config=PLAIN, **files))

    fp8 = LLAMA | {"quantization_config": MODELOPT_FP8}
    assert of("long", config=fp8 | {"max_position_embeddings": 262144}).benchmarks[:3] == [
        "scicode",
        "aa_lcr",
        "gpqa",
    ]
    short = of("short", config=fp8 | {"max_position_embeddings": 8192})
    assert short.benchmarks[0] == "gpqa"
    assert short.left_out == {
        "scicode": "needs a context of 65,536 tokens",
        "aa_lcr": "needs a context of 196,608 tokens",
    }
    assert of("plain", config=LLAMA).benchmarks == ["mmlu_pro", "gpqa", "ifbench"]
    assert of("vlm", config=LLAMA | {"vision_config": {}}).benchmarks[0] == "mmmu_pro"
    base = advise(read(tmp_path, "base", config=LLAMA, tokenizer_config={}))
    assert base.benchmarks == ["mmlu", "gsm8k", "arc_challenge"]
    assert advise(read(tmp_path, "unknown", config=fp8)).benchmarks[0] == "scicode"
    assert (
        "--tool_parser"
        not in CliRunner().invoke(nel, ["inspect-model", str(tmp_path / "base")]).output
    )
    shown = CliRunner().invoke(nel, ["inspect-model", str(tmp_path / "long")]).output
    assert (
        "benchmarks, by how well they show damage: scicode (very high), aa_lcr (very high)" in shown
    )


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "has no config.json"),
        ({"config": '{"model_type": "llama", '}, "config.json is not JSON"),
        ({"config": "[]"}, "holds no settings"),
        ({"config": LLAMA, "hf_quant_config": "{"}, "hf_quant_config.json is not JSON"),
        ({"adapter_config": {"r": 8}}, "a LoRA adapter"),
        ({"params": {"dim": 1}}, "Mistral's own format"),
    ],
)
def test_what_is_no_checkpoint_says_so(files: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        read(tmp_path, "m", **files)


def test_nothing_of_the_checkpoint_is_executed(tmp_path: Path) -> None:
    trap = "from pathlib import Path\nPath('ran').touch()\n"
    path = craft(tmp_path, "m", config=LLAMA | {"auto_map": {"AutoConfig": "configuration_x.X"}})
    for name in ("configuration_x.py", "modeling_x.py", "__init__.py"):
        (path / name).write_text(trap)
    found = json.loads(CliRunner().invoke(nel, ["inspect-model", str(path), "--json"]).output)
    assert found["checkpoint"]["custom_code"] is True
    assert not Path("ran").exists()
    assert not list(tmp_path.rglob("ran"))


def test_a_handle_is_looked_for_in_the_cache_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.file_download.constants.HF_HUB_CACHE", str(tmp_path))
    wanted = ["inspect-model", "org/Qwen3-8B", "--json"]
    assert "is not in the local cache" in str(CliRunner().invoke(nel, wanted).exception)
    repo = tmp_path / "models--org--Qwen3-8B"
    craft(repo / "snapshots", "abc", config=QWEN3)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("abc")
    found = json.loads(CliRunner().invoke(nel, wanted).output)
    assert found["checkpoint"]["name"] == "org/Qwen3-8B"
    assert found["checkpoint"]["weight_bytes"] == 16 * GB
    assert "estimated from the name" in found["checkpoint"]["warnings"][0]
    assert "does not exist" in str(
        CliRunner().invoke(nel, ["inspect-model", "./no/where"]).exception
    )


CONFIG = """\
services:
  model:
    type: vllm            # an engine
    model: ???            # what is served
    tensor_parallel_size: 1
    extra_args: [--max-model-len=32768, --seed, "1"]   # arguments
benchmarks:
  - {name: gsm8k, solver: {type: simple, service: model}}
"""


def test_apply_sets_what_was_found_and_keeps_the_rest(tmp_path: Path) -> None:
    path = craft(
        tmp_path,
        "Qwen3-32B",
        config=QWEN3 | {"auto_map": {"a": "b"}},
        weights=140,
        tokenizer_config=THINKS,
    )
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG)
    done = CliRunner().invoke(
        nel, ["inspect-model", str(path), "--gpus", "8", "--apply", str(config)]
    )
    assert "set in" in done.output, done.output
    text = config.read_text()
    model = yaml.safe_load(text)["services"]["model"]
    assert model == {
        "type": "vllm",
        "model": str(path),
        "tensor_parallel_size": 4,
        "data_parallel_size": 2,
        "reasoning_parser": "qwen3",
        "tool_parser": "hermes",
        "extra_args": ["--max-model-len", "40960", "--seed", "1", "--trust-remote-code"],
    }
    assert [
        word for word in ("# an engine", "# what is served", "# arguments") if word not in text
    ] == []
    again = CliRunner().invoke(
        nel, ["inspect-model", str(path), "--gpus", "8", "--apply", str(config)]
    )
    assert (again.exit_code, config.read_text()) == (0, text)
    few = CliRunner().invoke(
        nel, ["inspect-model", str(path), "--gpus", "2", "--apply", str(config)]
    )
    assert "4 GPUs are needed" in str(few.exception)
    many = CliRunner().invoke(
        nel,
        ["inspect-model", str(path), "--gpus", "16", "--gpu-memory", "16", "--apply", str(config)],
    )
    assert many.exit_code == 0
    model = yaml.safe_load(config.read_text())["services"]["model"]
    assert (model["tensor_parallel_size"], model["pipeline_parallel_size"], model["num_nodes"]) == (
        8,
        2,
        2,
    )
    config.write_text("services: {model: {type: api}}")
    wrong = CliRunner().invoke(nel, ["inspect-model", str(path), "--apply", str(config)])
    assert "the config has no service of type vllm" in str(wrong.exception)


@pytest.mark.parametrize("deployment", ["vllm", "sglang", "trtllm"])
def test_apply_changes_the_deployment_of_a_config_of_the_launcher(
    deployment: str, tmp_path: Path
) -> None:
    path = craft(tmp_path, "Qwen3-32B", config=QWEN3, weights=140, tokenizer_config=THINKS)
    config = tmp_path / "c.yaml"
    answers = SetupAnswers(deployment=deployment, model_type="reasoning")
    config.write_text(build_config(answers, form="launcher"))
    words = ["inspect-model", str(path), "--gpus", "8", "--apply", str(config)]
    done = CliRunner().invoke(nel, words, catch_exceptions=False)
    assert done.exit_code == 0
    text = config.read_text()
    settings = yaml.safe_load(text)["deployment"]
    assert (settings["checkpoint_path"], settings["tensor_parallel_size"]) == (str(path), 4)
    assert "40960" in settings["extra_args"] and "qwen3" in settings["extra_args"]
    assert "services" not in yaml.safe_load(text)
    assert "# the model's name in requests" in text
    CliRunner().invoke(nel, words, catch_exceptions=False)
    assert config.read_text() == text


def test_apply_writes_no_setting_into_a_list_that_is_commented_out(tmp_path: Path) -> None:
    path = craft(tmp_path, "Qwen3-32B", config=QWEN3, weights=140, tokenizer_config=THINKS)
    config = tmp_path / "c.yaml"
    config.write_text(build_config(SetupAnswers(deployment="vllm", model_type="reasoning")))
    words = ["inspect-model", str(path), "--gpus", "8", "--apply", str(config)]
    CliRunner().invoke(nel, words, catch_exceptions=False)
    lines = config.read_text().splitlines()
    name = next(number for number, line in enumerate(lines) if "- name: reasoning" in line)
    comments = [line for line in lines[name + 1 :] if line.lstrip().startswith("# - {name:")]
    assert lines[name + 2 : name + 4] == comments, "they stay entries of the list"
