"""Formats of weights and of whole checkpoints that tools other than ModelOpt write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.assistant.checkpoint import read_checkpoint
from nemo_evaluator.assistant.serving import advise

LLAMA = {"model_type": "llama", "max_position_embeddings": 4096, "num_attention_heads": 8}
_TENSORS = {"num_bits": 4, "type": "float", "strategy": "group"}


def craft(folder: Path, name: str, **files: Any) -> Path:
    path = folder / name
    path.mkdir()
    for stem, data in files.items():
        (path / f"{stem}.json").write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("block", "algorithm", "size"),
    [
        (
            {
                "quant_method": "quark",
                "global_quant_config": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}},
            },
            "FP8 QUARK",
            1.0,
        ),
        (
            {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}},
            "MXFP4 QUARK",
            0.55,
        ),
        (
            {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "int4"}}},
            "INT4 QUARK",
            0.55,
        ),
        (
            {
                "quant_method": "torchao",
                "quant_type": {
                    "default": {"_type": "Float8DynamicActivationFloat8WeightConfig", "_data": {}}
                },
            },
            "FP8 TORCHAO",
            1.0,
        ),
        (
            {
                "quant_method": "torchao",
                "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}},
            },
            "INT4 TORCHAO",
            0.55,
        ),
        ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, "INT8 TORCHAO", 1.0),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {**_TENSORS, "group_size": 32}}},
            },
            "MXFP4",
            0.55,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {**_TENSORS, "group_size": 16}}},
            },
            "NVFP4",
            0.58,
        ),
    ],
)
def test_the_number_format_of_the_weights(
    block: dict[str, Any], algorithm: str, size: float, tmp_path: Path
) -> None:
    path = craft(tmp_path, "m", config={**LLAMA, "quantization_config": block})
    quantization = read_checkpoint(path).quantization
    assert quantization.algorithm == algorithm
    assert quantization.bytes_per_weight == size


def test_a_base_model_gets_no_parsers(tmp_path: Path) -> None:
    path = craft(tmp_path, "Qwen3-8B-Base", config=LLAMA, tokenizer_config={"model_max_length": 9})
    for serving in advise(read_checkpoint(path)).serving.values():
        assert (serving.reasoning_parser, serving.tool_parser) == (None, None)


def test_a_parser_in_the_checkpoint_is_a_plugin(tmp_path: Path) -> None:
    path = craft(tmp_path, "m", config=LLAMA)
    (path / "modeling_m.py").write_text("import torch\n")
    (path / "m_reasoning_parser.py").write_text(
        '@ReasoningParserManager.register_module("own_v1")\nclass Parser: ...\n'
    )
    serving = advise(read_checkpoint(path)).serving["vllm"]
    flags = " ".join(serving.flags)
    assert "--reasoning-parser own_v1" in flags
    assert f"--reasoning-parser-plugin {path}/m_reasoning_parser.py" in flags
    assert "plugin" not in " ".join(advise(read_checkpoint(path)).serving["sglang"].flags)


def test_nemotron_super_1_5_has_its_own_switch_for_thinking(tmp_path: Path) -> None:
    newer = craft(tmp_path, "Llama-3_3-Nemotron-Super-49B-v1_5", config=LLAMA)
    older = craft(tmp_path, "Llama-3_3-Nemotron-Super-49B-v1", config=LLAMA)
    assert "/no_think" in str(advise(read_checkpoint(newer)).thinking)
    assert "detailed thinking on" in str(advise(read_checkpoint(older)).thinking)


def test_mistrals_own_format_is_read(tmp_path: Path) -> None:
    params = {
        "dim": 5120,
        "n_layers": 40,
        "n_heads": 32,
        "n_kv_heads": 8,
        "hidden_dim": 14336,
        "max_seq_len": 131072,
        "quantization": {"qformat_weight": "fp8_e4m3"},
    }
    path = craft(tmp_path, "Mistral-Small-24B-Instruct", params=params)
    checkpoint = read_checkpoint(path)
    assert (checkpoint.context, checkpoint.heads, checkpoint.kv_heads) == (131072, 32, 8)
    assert checkpoint.quantization.algorithm == "FP8"
    advice = advise(checkpoint)
    assert "--config-format mistral" in " ".join(advice.serving["vllm"].flags)
    assert advice.serving["vllm"].tool_parser == "mistral"
