"""How a checkpoint is served: parallel sizes that fit, parsers, flags per engine, and which benchmarks to run."""

import math
import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from nemo_evaluator.assistant.checkpoint import ModelCheckpoint
from nemo_evaluator.assistant.recipes import read_data, recipes
from nemo_evaluator.assistant.yaml_text import MISSING, set_value
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.json_coerce import as_dict, as_list

RUNTIMES: Final = ("vllm", "sglang", "trt_llm")
# The share of a GPU's memory that weights may take: the rest is for the KV cache and activations.
_FOR_WEIGHTS: Final = 0.75
_DAMAGE: Final = ("very high", "high", "medium")
_GPUS_OF_A_NODE: Final = 8
_DASHED: Final = ("--reasoning-parser", "--tool-call-parser")
_PARSER_FLAGS: Final = {
    "vllm": _DASHED,
    "sglang": _DASHED,
    "trt_llm": ("--reasoning_parser", "--tool_parser"),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Parallel sizes; ``fits`` is None when the size of the weights is unknown."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    fits: bool | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Serving:
    """What one engine needs: settings of the service, and ``flags``, the same as its command line takes them."""

    runtime: str
    reasoning_parser: str | None = None
    tool_parser: str | None = None
    flags: list[str] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Advice:
    """What was found out about a checkpoint, and what follows."""

    checkpoint: ModelCheckpoint
    sizes: Sizes
    serving: dict[str, Serving]
    thinking: str | None
    benchmarks: list[str]
    left_out: dict[str, str]


def advise(checkpoint: ModelCheckpoint, gpus: int = 1, gpu_memory: float = 80.0) -> Advice:
    """Everything at once."""
    sizes = parallel_sizes(checkpoint, gpus, gpu_memory)
    named = " ".join((checkpoint.name, checkpoint.model_type, *checkpoint.architectures)).lower()
    family: dict[str, Any] = next(
        (one for one in read_data("models.yaml") if re.search(one["match"], named)), {}
    )
    facts = _facts(checkpoint, gpus)
    serving = {runtime: _serving(runtime, checkpoint, family, facts=facts) for runtime in RUNTIMES}
    left_out: dict[str, str] = {}
    for name, one in recipes().items():
        if one.context and checkpoint.context and one.context > checkpoint.context:
            left_out[name] = f"needs a context of {one.context:,} tokens"
    chosen = [name for name in _benchmarks(checkpoint) if name not in left_out]
    if checkpoint.thinks or not checkpoint.chat_template:
        thinking = family.get("thinking")
    else:
        thinking = None
    return Advice(
        checkpoint, sizes, serving, thinking=thinking, benchmarks=chosen, left_out=left_out
    )


def parallel_sizes(checkpoint: ModelCheckpoint, gpus: int, gpu_memory: float) -> Sizes:
    """The smallest tensor parallel size that fits, inside a node; the other GPUs hold copies of the model."""
    possible = [size for size in _powers(min(gpus, _GPUS_OF_A_NODE)) if _divides(checkpoint, size)]
    if checkpoint.weight_bytes is None:
        return Sizes(
            possible[-1],
            1,
            gpus // possible[-1],
            fits=None,
            note="the size of the weights is unknown; TP is a guess",
        )
    room = gpu_memory * 1e9 * _FOR_WEIGHTS
    for size in possible:
        if checkpoint.weight_bytes <= room * size:
            return Sizes(size, 1, max(1, gpus // size), fits=True)
    tensor = possible[-1]
    stages = math.ceil(checkpoint.weight_bytes / (room * tensor))
    if stages * tensor <= gpus:
        return Sizes(
            tensor,
            stages,
            gpus // (stages * tensor),
            fits=True,
            note="layers split into pipeline stages",
        )
    wide = [size for size in _powers(_GPUS_OF_A_NODE) if _divides(checkpoint, size)]
    needed = next((size for size in wide if checkpoint.weight_bytes <= room * size), None)
    needed = needed or wide[-1] * math.ceil(checkpoint.weight_bytes / (room * wide[-1]))
    weights = f"weights of {checkpoint.weight_bytes / 1e9:.0f} GB"
    note = f"{weights} do not fit on {gpus} x {gpu_memory:g} GB; {needed} GPUs are needed"
    return Sizes(tensor, stages, 1, fits=False, note=note)


def apply_advice(text: str, advice: Advice, model: str) -> tuple[str, list[str]]:
    """The text of a config with the settings of its model server changed; and what was changed."""
    services = as_dict(as_dict(yaml.safe_load(text)).get("services"))
    found = [
        (name, as_dict(one))
        for name, one in services.items()
        if as_dict(one).get("type") in RUNTIMES
    ]
    if len(found) != 1:
        if not found:
            what = "no service"
        else:
            what = f"{len(found)} services"
        raise UsageError(
            f"the config has {what} of type {', '.join(RUNTIMES)}",
            hint="--apply sets the one there is",
        )
    name, service = found[0]
    serving = advice.serving[str(service["type"])]
    sizes = advice.sizes
    if sizes.fits is False:
        raise UsageError(
            sizes.note, hint="--gpus N says how many there are, --gpu-memory GB how large they are"
        )
    values: dict[str, Any] = {
        "tensor_parallel_size": sizes.tensor,
        "pipeline_parallel_size": sizes.pipeline,
    }
    values["num_nodes"] = math.ceil(sizes.tensor * sizes.pipeline / _GPUS_OF_A_NODE)
    if service["type"] != "trt_llm":
        values["data_parallel_size"] = sizes.data
    values = {key: value for key, value in values.items() if value > 1 or key in service}
    values |= {"reasoning_parser": serving.reasoning_parser, "tool_parser": serving.tool_parser}
    values["extra_args"] = _merged(
        [str(one) for one in as_list(service.get("extra_args"))], serving.args
    )
    values |= {f"extra_env.{key}": value for key, value in serving.env.items()}
    if service.get("model") in (None, MISSING):
        values["model"] = model
    changed = []
    for key, value in values.items():
        if value not in (None, [], service.get(key)):
            text = set_value(text, ["services", name, *key.split(".")], value)
            changed.append(f"services.{name}.{key}: {value}")
    return text, changed


def _merged(given: list[str], wanted: list[str]) -> list[str]:
    """Merge two lists of arguments; the wanted ones replace given ones with the same name."""
    groups: dict[str, list[str]] = {}
    for words in (given, wanted):
        name = ""
        for word in words:
            if word.startswith("--") or not name:
                name, *value = word.split("=", 1) if word.startswith("--") else [word]
                groups[name] = [name, *value]
            else:
                groups[name].append(word)
    results: list[str] = []
    for group in groups.values():
        for word in group:
            results.append(word)
    return results


def _powers(most: int) -> list[int]:
    return [2**power for power in range(most.bit_length())]


def _divides(checkpoint: ModelCheckpoint, size: int) -> bool:
    """Whether heads, and blocks of quantized weights, can be split so."""
    block = checkpoint.quantization.block
    whole = not (block and checkpoint.intermediate) or checkpoint.intermediate % (size * block) == 0
    return size == 1 or (whole and (checkpoint.heads is None or checkpoint.heads % size == 0))


def _facts(checkpoint: ModelCheckpoint, gpus: int) -> set[str]:
    facts = {
        "context": checkpoint.context is not None,
        "custom_code": checkpoint.custom_code,
        "moe": checkpoint.experts > 0,
        "several_gpus": gpus > 1,
        "vision": checkpoint.vision,
        "rope_scaling": checkpoint.rope_scaling is not None,
    }
    return checkpoint.quantization.facts | {name for name, true in facts.items() if true}


def _serving(
    runtime: str, checkpoint: ModelCheckpoint, family: dict[str, Any], facts: set[str]
) -> Serving:
    # A template that shows no reasoning or tools has none to parse; without one the family is all that is known.
    shown = {"reasoning": checkpoint.thinks, "tools": checkpoint.tools}
    known = [kind for kind, there in shown.items() if there or not checkpoint.chat_template]
    parsers = [as_dict(family.get(kind)).get(runtime) if kind in known else None for kind in shown]
    found = Serving(runtime, parsers[0], parsers[1])
    for flag, parser in zip(_PARSER_FLAGS[runtime], parsers, strict=True):
        found.flags.extend([flag, parser] if parser else [])
    if runtime == "vllm" and found.tool_parser:
        found.flags.append("--enable-auto-tool-choice")
    found.notes.extend([str(family["note"])] if family.get("note") else [])
    for rule in read_data("runtimes.yaml"):
        if rule["runtime"] == runtime and facts.issuperset(rule["if"]):
            found.args.extend(
                word.format(context=checkpoint.context) for word in rule.get("args", ())
            )
            found.env.update(rule.get("env", {}))
            found.notes.extend([rule["note"]] if "note" in rule else [])
    found.flags.extend(found.args)
    return found


def _benchmarks(checkpoint: ModelCheckpoint) -> list[str]:
    """For quantized weights those that show damage best; else the usual few."""
    vision = ["mmmu_pro"] if checkpoint.vision else []
    if checkpoint.chat_template is False and "instruct" not in checkpoint.name.lower():
        return [*vision, "mmlu", "gsm8k", "arc_challenge"]
    if checkpoint.quantization.method is None and checkpoint.quantization.kv_cache is None:
        return [*vision, "mmlu_pro", "gpqa", "ifbench"]
    ranked: list[str] = []
    for damage in _DAMAGE:
        for name, one in recipes().items():
            if one.damage == damage:
                ranked.append(name)
    return vision + [name for name in ranked if name != "mmmu_pro"]
