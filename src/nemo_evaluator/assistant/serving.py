"""How to serve a checkpoint: parallel sizes, parsers and flags per engine; and which benchmarks to run."""

import math
import re
from dataclasses import dataclass, field
from typing import Any, Final

from nemo_evaluator.assistant.checkpoint import ModelCheckpoint
from nemo_evaluator.assistant.recipes import read_data, recipes
from nemo_evaluator.core.json_coerce import as_dict

RUNTIMES: Final = ("vllm", "sglang", "trt_llm")
# Maximum share of a GPU's memory for weights; the rest is for the KV cache and activations.
_FOR_WEIGHTS: Final = 0.75
_DAMAGE: Final = ("very high", "high", "medium")
GPUS_OF_A_NODE: Final = 8
_DASHED: Final = ("--reasoning-parser", "--tool-call-parser")
_PARSER_FLAGS: Final = {
    "vllm": _DASHED,
    "sglang": _DASHED,
    "trt_llm": ("--reasoning_parser", "--tool_parser"),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Parallel sizes of a server; ``fits`` is None if the size of the weights is unknown."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    fits: bool | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Serving:
    """The settings that one engine needs; ``flags`` are the same settings as command-line arguments."""

    runtime: str
    reasoning_parser: str | None = None
    tool_parser: str | None = None
    flags: list[str] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Advice:
    """The facts of a checkpoint, and the advice that follows from them."""

    checkpoint: ModelCheckpoint
    sizes: Sizes
    serving: dict[str, Serving]
    thinking: str | None
    benchmarks: list[str]
    left_out: dict[str, str]


def advise(checkpoint: ModelCheckpoint, gpus: int = 1, gpu_memory: float = 80.0) -> Advice:
    """Derive how to serve a checkpoint and which benchmarks to run.

    Args:
        checkpoint: The facts of the checkpoint.
        gpus: Number of GPUs that the server may use.
        gpu_memory: Memory of one GPU, in GB.
    """
    sizes = parallel_sizes(checkpoint, gpus, gpu_memory)
    family = _family(checkpoint)
    facts = _facts(checkpoint, gpus)
    serving = {runtime: _serving(runtime, checkpoint, family, facts=facts) for runtime in RUNTIMES}
    left_out: dict[str, str] = {}
    for name, recipe in recipes().items():
        if recipe.context and checkpoint.context and recipe.context > checkpoint.context:
            left_out[name] = f"needs a context of {recipe.context:,} tokens"
    benchmarks = [name for name in _benchmarks(checkpoint) if name not in left_out]
    may_think = checkpoint.thinks or not checkpoint.chat_template
    return Advice(
        checkpoint,
        sizes,
        serving,
        thinking=family.get("thinking") if may_think else None,
        benchmarks=benchmarks,
        left_out=left_out,
    )


def _family(checkpoint: ModelCheckpoint) -> dict[str, Any]:
    """The entry of ``models.yaml`` that matches the names of the checkpoint; empty when none does."""
    names = (checkpoint.name, checkpoint.model_type, *checkpoint.architectures)
    searched = " ".join(names).lower()
    for family in read_data("models.yaml"):
        if re.search(family["match"], searched):
            return dict(family)
    return {}


def parallel_sizes(checkpoint: ModelCheckpoint, gpus: int, gpu_memory: float) -> Sizes:
    """Choose the smallest tensor parallel size that fits in a node; the other GPUs hold copies of the model.

    Args:
        checkpoint: The checkpoint, with the size of its weights if known.
        gpus: Number of GPUs.
        gpu_memory: Memory of one GPU, in GB.
    """
    possible = [size for size in _powers(min(gpus, GPUS_OF_A_NODE)) if _divides(checkpoint, size)]
    largest = possible[-1]
    weight_bytes = checkpoint.weight_bytes
    if weight_bytes is None:
        note = "the size of the weights is unknown; TP is a guess"
        return Sizes(largest, 1, gpus // largest, fits=None, note=note)
    bytes_per_gpu = gpu_memory * 1e9 * _FOR_WEIGHTS
    for size in possible:
        if weight_bytes <= bytes_per_gpu * size:
            return Sizes(size, 1, max(1, gpus // size), fits=True)
    stages = math.ceil(weight_bytes / (bytes_per_gpu * largest))
    if stages * largest <= gpus:
        note = "layers split into pipeline stages"
        return Sizes(largest, stages, gpus // (stages * largest), fits=True, note=note)
    needed = _needed_gpus(checkpoint, weight_bytes, bytes_per_gpu)
    note = (
        f"weights of {weight_bytes / 1e9:.0f} GB do not fit on {gpus} x {gpu_memory:g} GB; "
        f"{needed} GPUs are needed"
    )
    return Sizes(largest, stages, 1, fits=False, note=note)


def _needed_gpus(checkpoint: ModelCheckpoint, weight_bytes: int, bytes_per_gpu: float) -> int:
    """The fewest GPUs that hold the weights: of one node, or of several whole ones."""
    possible = [size for size in _powers(GPUS_OF_A_NODE) if _divides(checkpoint, size)]
    for size in possible:
        if weight_bytes <= bytes_per_gpu * size:
            return size
    largest = possible[-1]
    return largest * math.ceil(weight_bytes / (bytes_per_gpu * largest))


def _powers(most: int) -> list[int]:
    """Return the powers of two up to ``most``."""
    return [2**power for power in range(most.bit_length())]


def _divides(checkpoint: ModelCheckpoint, size: int) -> bool:
    """Whether the attention heads, and the blocks of quantized weights, can be split over ``size`` GPUs."""
    if size == 1:
        return True
    block = checkpoint.quantization.block
    if block and checkpoint.intermediate and checkpoint.intermediate % (size * block):
        return False
    return checkpoint.heads is None or checkpoint.heads % size == 0


def _facts(checkpoint: ModelCheckpoint, gpus: int) -> set[str]:
    """Collect the facts of a checkpoint that the rules for engines can test."""
    facts = {
        "context": checkpoint.context is not None,
        "custom_code": checkpoint.custom_code,
        "moe": checkpoint.experts > 0,
        "several_gpus": gpus > 1,
        "vision": checkpoint.vision,
        "rope_scaling": checkpoint.rope_scaling is not None,
        "mistral_format": checkpoint.mistral_format,
        "parser_file": checkpoint.parser_file is not None,
    }
    return checkpoint.quantization.facts | {name for name, is_true in facts.items() if is_true}


def _serving(
    runtime: str, checkpoint: ModelCheckpoint, family: dict[str, Any], facts: set[str]
) -> Serving:
    """Return what one engine needs to serve the checkpoint.

    Args:
        runtime: The engine.
        checkpoint: The checkpoint.
        family: The entry of its model family in ``models.yaml``.
        facts: The facts that the rules of ``runtimes.yaml`` test.
    """
    reasoning_parser: str | None = None
    tool_parser: str | None = None
    # A chat template without reasoning or tools needs no parser, and a base model has neither. Without a template, the
    # model family decides.
    family_decides = not checkpoint.chat_template and not checkpoint.is_base
    if checkpoint.thinks or family_decides:
        reasoning_parser = as_dict(family.get("reasoning")).get(runtime)
    if runtime == "vllm" and checkpoint.parser_name is not None:
        reasoning_parser = checkpoint.parser_name
    if checkpoint.tools or family_decides:
        tool_parser = as_dict(family.get("tools")).get(runtime)
    serving = Serving(runtime, reasoning_parser, tool_parser)
    if family.get("note"):
        serving.notes.append(str(family["note"]))
    for rule in read_data("runtimes.yaml"):
        if rule["runtime"] == runtime and facts.issuperset(rule["if"]):
            _apply_rule(rule, serving, checkpoint)
    serving.flags.extend(_parser_flags(serving))
    serving.flags.extend(serving.args)
    return serving


def _apply_rule(rule: dict[str, Any], serving: Serving, checkpoint: ModelCheckpoint) -> None:
    """Add the arguments, variables and note of a rule of ``runtimes.yaml``."""
    for argument_template in rule.get("args", ()):
        parser_path = f"{checkpoint.path}/{checkpoint.parser_file}"
        argument = argument_template.format(context=checkpoint.context, parser_file=parser_path)
        serving.args.append(argument)
    serving.env.update(rule.get("env", {}))
    if "note" in rule:
        serving.notes.append(rule["note"])


def _parser_flags(serving: Serving) -> list[str]:
    """Return the command-line arguments that select the parsers."""
    flags: list[str] = []
    reasoning_flag, tool_flag = _PARSER_FLAGS[serving.runtime]
    if serving.reasoning_parser:
        flags.extend([reasoning_flag, serving.reasoning_parser])
    if serving.tool_parser:
        flags.extend([tool_flag, serving.tool_parser])
    if serving.tool_parser and serving.runtime == "vllm":
        flags.append("--enable-auto-tool-choice")
    return flags


def _benchmarks(checkpoint: ModelCheckpoint) -> list[str]:
    """For quantized weights the benchmarks that show damage best; otherwise the usual few."""
    vision = ["mmmu_pro"] if checkpoint.vision else []
    if checkpoint.is_base:
        return [*vision, "mmlu", "gsm8k", "arc_challenge"]
    if checkpoint.quantization.method is None and checkpoint.quantization.kv_cache is None:
        return [*vision, "mmlu_pro", "gpqa", "ifbench"]
    ranked: list[str] = []
    for damage in _DAMAGE:
        for name, recipe in recipes().items():
            if recipe.damage == damage:
                ranked.append(name)
    return vision + [name for name in ranked if name != "mmmu_pro"]
